// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The address of a model: scheme, place and options, as in "unix:/run/policy.sock?serdes=json".
#ifndef MLBRIDGE_URI_H
#define MLBRIDGE_URI_H

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>

#include <map>
#include <string>
#include <string_view>

namespace mlbridge {

/// `scheme ":" place [ "?" key "=" value *( ( "&" / "?" ) key "=" value ) ]`. '?' may separate
/// options as well as '&', which is special to a shell. The scheme is letters, digits, '+', '-' or
/// '.', lower case. The place is taken literally up to the first '?', so that paths need no
/// escapes; "%XX" is decoded in the place and in values, and "%3F" and "%26" stand for '?' and '&'.
struct Uri {
  std::string scheme;                         ///< "unix"
  std::string place;                          ///< "/run/policy.sock", decoded
  std::map<std::string, std::string> options; ///< by key, decoded

  /// Errors: InvalidArgument (no scheme, an option without '=', one given twice, a bad
  /// "%XX").
  static Expected<Uri> parse(std::string_view text);
  std::string toString() const; ///< parses back to an equal Uri

  /// The option, or `otherwise`.
  std::string option(std::string_view key, std::string_view otherwise = {}) const;
  /// "5s", "250ms", "100us", "2m" or a plain number of seconds; absent gives `otherwise`.
  Expected<Duration> duration(std::string_view key, Duration otherwise) const;
  /// A decimal number with an optional suffix K, M or G (powers of 1024); absent gives `otherwise`.
  Expected<uint64_t> number(std::string_view key, uint64_t otherwise) const;
  /// Refuses an option that is not in the list; the message names it and the nearest known one.
  Status allowOnly(std::initializer_list<std::string_view> keys) const;
};

/// "5s", "250ms", "100us", "2m" or a plain number of seconds. Errors: InvalidArgument.
Expected<Duration> parseDuration(std::string_view text);

} // namespace mlbridge

#endif
