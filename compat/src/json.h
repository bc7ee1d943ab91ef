// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As much JSON as the formats of the 2024 release need.
#ifndef MLBRIDGE_COMPAT_JSON_H
#define MLBRIDGE_COMPAT_JSON_H

#include <mlbridge/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace MLBridge::json {

/// With its quotes. Bytes that are not UTF-8 become U+FFFD, as LLVM writes them.
void appendText(std::string &out, std::string_view text);
/// 17 digits at most, as LLVM writes numbers; NaN, Infinity and -Infinity, as Python reads them.
void appendReal(std::string &out, double value);

/// The value of a member: one value, or an array of values of one kind.
struct Value {
  enum class Kind : uint8_t { Integer, Real, Bool, Text };
  Kind kind = Kind::Integer;
  bool isArray = false;
  std::vector<int64_t> integers; ///< Integer
  std::vector<double> reals;     ///< Real: an array with at least one number that isn't an integer
  std::vector<uint8_t> bools;
  std::vector<std::string> texts;
};

/// Reads a whole object and gives the member of that name. Untrusted. Errors: Protocol.
mlbridge::Expected<Value> member(std::string_view document, std::string_view name);

} // namespace MLBridge::json

#endif
