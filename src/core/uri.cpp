// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parsing and printing of model addresses and of the values of their options.
#include <mlbridge/uri.h>

#include "core/message.h"
#include "core/nearest.h"
#include "core/uri_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mlbridge {

static bool isLower(char c) { return c >= 'a' && c <= 'z'; }
static bool isDigit(char c) { return c >= '0' && c <= '9'; }

// A '%' that no two hexadecimal digits follow stands for itself.
static std::string decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char *const digits = text.data() + i + 1;
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

static std::string encode(std::string_view text, std::string_view special) {
  static constexpr char Digits[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || byte < 0x20 || byte == 0x7f || special.find(c) != special.npos) {
      out += '%';
      out += Digits[byte >> 4];
      out += Digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out;
}

template <typename... What> static Status malformed(std::string_view text, const What &...what) {
  return makeError(Code::InvalidArgument, "URI '", encode(text.substr(0, 200), {}), "': ", what...);
}

Expected<Uri> Uri::parse(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos || colon == 0)
    return malformed(text, "no scheme; expected SCHEME:PLACE, for example onnx:policy.onnx");
  Uri uri;
  uri.scheme = std::string(text.substr(0, colon));
  for (size_t i = 0; i < colon; ++i) {
    const char c = text[i];
    if (!isLower(c) && (i == 0 || (!isDigit(c) && c != '+' && c != '-' && c != '.')))
      return malformed(text,
                       "the scheme must begin with a lower-case letter and have only "
                       "lower-case letters, digits, '+', '-' and '.'; it has '",
                       encode(std::string_view(&text[i], 1), {}), "' at position ", i);
  }
  std::string_view rest = text.substr(colon + 1);
  const size_t question = rest.find('?');
  uri.place = decode(rest.substr(0, question));
  if (uri.place.find('\0') != std::string::npos)
    return malformed(text, "the place has a zero byte");
  if (question == rest.npos)
    return uri;
  rest.remove_prefix(question + 1);
  while (!rest.empty()) {
    const size_t end = rest.find_first_of("&?");
    const std::string_view option = rest.substr(0, end);
    const size_t equals = option.find('=');
    if (equals == option.npos || equals == 0)
      return malformed(text, "option '", encode(option, {}), "' is not KEY=VALUE");
    const std::string_view key = option.substr(0, equals);
    for (char c : key)
      if (!isLower(c) && !isDigit(c) && c != '-' && c != '_' && c != '.' && !(c >= 'A' && c <= 'Z'))
        return malformed(text, "option '", encode(key, {}),
                         "': a name has letters, digits, '-', '_' and '.'");
    std::string value = decode(option.substr(equals + 1));
    if (value.find('\0') != std::string::npos)
      return malformed(text, "option '", key, "' has a zero byte");
    if (!uri.options.emplace(std::string(key), std::move(value)).second)
      return malformed(text, "option '", key, "' is given twice");
    if (end == rest.npos)
      break;
    rest.remove_prefix(end + 1);
    if (rest.empty())
      return malformed(text, "ends with '?' or '&', but no option follows");
  }
  return uri;
}

std::string Uri::toString() const {
  std::string text = scheme + ":" + encode(place, "?");
  char separator = '?';
  for (const auto &[key, value] : options) {
    text.append(1, separator).append(key).append("=").append(encode(value, "&?"));
    separator = '&';
  }
  return text;
}

std::string Uri::option(std::string_view key, std::string_view otherwise) const {
  const auto it = options.find(std::string(key));
  return it == options.end() ? std::string(otherwise) : it->second;
}

/// The table's entry for the word; null if it has none.
template <typename T, size_t N>
static const T *lookUp(const std::pair<std::string_view, T> (&table)[N], std::string_view word) {
  for (const auto &[key, value] : table)
    if (key == word)
      return &value;
  return nullptr;
}

Expected<Duration> parseDuration(std::string_view text) {
  const auto wrong = [&](const char *what) {
    return makeError(Code::InvalidArgument, "'", text, "' is not a duration (", what,
                     "); expected, for example, 5s, 250ms, 100us, 2m or a number of seconds");
  };
  if (text.empty() || (!isDigit(text[0]) && text[0] != '.'))
    return wrong("it does not start with a digit");
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc())
    return wrong("the number is malformed or too large");
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  static constexpr std::pair<std::string_view, double> Units[] = {
      {"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"m", 60e9}, {"h", 3600e9}};
  const double *scale = lookUp(Units, unit);
  if (!scale)
    return wrong("unknown unit");
  const double ns = std::round(value * *scale);
  if (!(ns < 9.2e18))
    return wrong("more than 292 years");
  return Duration(static_cast<int64_t>(ns));
}

Expected<Duration> Uri::duration(std::string_view key, Duration otherwise) const {
  const auto it = options.find(std::string(key));
  if (it == options.end())
    return otherwise;
  Expected<Duration> value = parseDuration(it->second);
  if (!value)
    return value.status().withContext(join("option '", key, "'"));
  return value;
}

Expected<uint64_t> Uri::number(std::string_view key, uint64_t otherwise) const {
  const auto it = options.find(std::string(key));
  if (it == options.end())
    return otherwise;
  const std::string &text = it->second;
  const auto wrong = [&](const char *what) {
    return makeError(Code::InvalidArgument, "option '", key, "': '", text, "' is ", what);
  };
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return wrong("too large");
  if (error != std::errc())
    return wrong("not a number");
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  static constexpr std::pair<std::string_view, int> Shifts[] = {
      {"", 0}, {"K", 10}, {"M", 20}, {"G", 30}};
  const int *shift = lookUp(Shifts, suffix);
  if (!shift)
    return wrong("not a number with an optional suffix K, M or G");
  if (value > UINT64_MAX >> *shift)
    return wrong("too large");
  return value << *shift;
}

Status Uri::allowOnly(std::initializer_list<std::string_view> keys) const {
  const Span<const std::string_view> known(keys.begin(), keys.size());
  for (const auto &[key, value] : options)
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      return unknownOption(scheme, key, known);
  return Status();
}

std::optional<std::string> takeOption(Uri &uri, const std::string &key) {
  const auto taken = uri.options.extract(key);
  return taken ? std::optional(std::move(taken.mapped())) : std::nullopt;
}

void takeOption(Uri &uri, const std::string &key, std::string &to) {
  if (std::optional<std::string> taken = takeOption(uri, key))
    to = std::move(*taken);
}

Status unknownOption(std::string_view scheme, std::string_view key,
                     Span<const std::string_view> known) {
  return makeError(Code::InvalidArgument, "'", scheme, ":' has no option '", key, "'",
                   suggestion(key, known, "known"));
}

bool isUnknownOption(const Status &status, const std::string &key) {
  return status.code() == Code::InvalidArgument &&
         status.message().find(" has no option '" + key + "'") != std::string::npos;
}

} // namespace mlbridge
