// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edit distance with transpositions, and errors of words that are not known.
#include "core/nearest.h"

#include "core/message.h"

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
  return best.empty() ? std::string() : join("; did you mean '", best, "'?");
}

std::string suggestion(std::string_view word, Span<const std::string_view> known,
                       std::string_view what) {
  return join(didYouMean(word, known), " (", what, ": ", listOf(known), ")");
}

Status notLinked(std::string_view kind, std::string_view name, std::string_view target) {
  return makeError(Code::Unsupported, "the ", kind, " '", name,
                   "' is not linked into this program; link MLBridge::", target,
                   ", or MLBridge::core for everything (pkg-config: mlbridge-", target,
                   " or mlbridge)");
}

} // namespace mlbridge
