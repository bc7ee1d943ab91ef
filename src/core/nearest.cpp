// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edit distance with transpositions.
#include "core/nearest.h"

#include <algorithm>

namespace mlbridge {

static size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view word, Span<const std::string_view> known) {
  constexpr size_t Longest = 64, Most = 4096; // words come from outside; the cost is quadratic
  std::string_view best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  if (word.size() > Longest)
    return best;
  for (std::string_view candidate : Span(known.begin(), std::min(known.size(), Most))) {
    if (candidate.size() > Longest)
      continue;
    const size_t d = distance(word, candidate);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

std::string didYouMean(std::string_view word, Span<const std::string_view> known) {
  const std::string_view best = nearest(word, known);
  return best.empty() ? std::string() : "; did you mean '" + std::string(best) + "'?";
}

std::string suggestion(std::string_view word, Span<const std::string_view> known,
                       std::string_view what) {
  return didYouMean(word, known) + " (" + std::string(what) + ": " + listOf(known) + ")";
}

std::vector<std::string_view> viewsOf(Span<const std::string> words) {
  return {words.begin(), words.end()};
}

template <typename Named> static std::vector<std::string_view> namesOfAll(Span<const Named> all) {
  std::vector<std::string_view> names;
  names.reserve(all.size());
  for (const Named &one : all)
    names.push_back(one.name);
  return names;
}

std::vector<std::string_view> namesOf(Span<const TensorSpec> specs) { return namesOfAll(specs); }
std::vector<std::string_view> namesOf(Span<const AgentSpec> agents) { return namesOfAll(agents); }

std::string listOf(Span<const std::string_view> words) {
  if (words.empty())
    return "none";
  std::string text;
  for (const std::string_view &word : words) {
    text.append(text.empty() ? "" : ", ").append(word);
    if (text.size() > MostText)
      break;
  }
  return shortened(std::move(text));
}

Status unknownOption(std::string_view scheme, std::string_view key,
                     Span<const std::string_view> known) {
  constexpr std::string_view OfChoosing[] = {"choose_as", "choose_from", "mask", "seed",
                                             "temperature"};
  constexpr std::string_view OfModels[] = {"agent",   "choose", "deadline",
                                           "episode", "rename", "unit"};
  if (std::find(std::begin(OfChoosing), std::end(OfChoosing), key) != std::end(OfChoosing))
    return makeError(Code::InvalidArgument, "option '", key,
                     "' goes with choose=argmax or choose=sample");
  std::vector<std::string_view> all(known.begin(), known.end());
  all.insert(all.end(), std::begin(OfModels), std::end(OfModels));
  const std::string listed = listOf(all);
  all.insert(all.end(), std::begin(OfChoosing), std::end(OfChoosing));
  return makeError(Code::InvalidArgument, "'", scheme, ":' has no option '", key, "'",
                   didYouMean(key, all), " (known: ", listed, ")");
}

std::string shortened(std::string text) {
  if (text.size() <= MostText)
    return text;
  size_t end = MostText;
  while (end > MostText - 4 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80)
    --end; // the rest of a character in UTF-8
  const size_t size = text.size();
  text.resize(end);
  return text + " [... cut, it has " + std::to_string(size) + " bytes]";
}

bool isUtf8(std::string_view text) {
  const auto *at = reinterpret_cast<const unsigned char *>(text.data());
  const unsigned char *end = at + text.size();
  while (at != end) {
    const unsigned char first = *at++;
    if (first < 0x80)
      continue;
    // Following bytes, and the range of the first of them, which keeps out what is too long, the
    // surrogates and what is above U+10FFFF.
    int more = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe0 && first <= 0xef ? 2 : 3;
    if (first < 0xc2 || first > 0xf4 || end - at < more)
      return false;
    const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (*at < low || *at > high)
      return false;
    for (; more > 0; --more, ++at)
      if ((*at & 0xc0) != 0x80)
        return false;
  }
  return true;
}

} // namespace mlbridge
