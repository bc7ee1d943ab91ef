// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts that both directions of the JSON serdes know of a tensor, and how they report errors.
#ifndef MLBRIDGE_SERDES_JSON_CODEC_H
#define MLBRIDGE_SERDES_JSON_CODEC_H

#include "serdes/component_codec.h"

namespace mlbridge::json {

using component::about, component::fail;

/// How JSON writes the numbers that it has no syntax for. Any NaN but the canonical quiet one is
/// NaNPrefix and all its bits in lower-case hexadecimal digits.
inline constexpr std::string_view Infinity = "Infinity";
inline constexpr std::string_view MinusInfinity = "-Infinity";
inline constexpr std::string_view NaN = "NaN";
inline constexpr std::string_view NaNPrefix = "NaN:";

/// The bits of the floating-point types.
template <typename T> struct Float : std::false_type {};
template <> struct Float<Half> : std::true_type {
  using Bits = uint16_t;
  static constexpr Bits Sign = 0x8000, Exponent = 0x7c00, QuietNaN = 0x7e00;
};
template <> struct Float<float> : std::true_type {
  using Bits = uint32_t;
  static constexpr Bits Sign = 0x80000000, Exponent = 0x7f800000, QuietNaN = 0x7fc00000;
};
template <> struct Float<double> : std::true_type {
  using Bits = uint64_t;
  static constexpr Bits Sign = 0x8000000000000000, Exponent = 0x7ff0000000000000,
                        QuietNaN = 0x7ff8000000000000;
};

struct Slot {
  TensorSpec spec;
  bool dynamic = false;
  size_t count = 0; ///< elements, unless dynamic
  std::string key;  ///< `"name":`, escaped
};

/// "tensor 'x'", and with an element "tensor 'x' element 3".
inline std::string about(const Slot &slot) { return about(slot.spec); }
inline std::string about(const Slot &slot, size_t element) {
  return about(slot) + " element " + std::to_string(element);
}

/// Appends the whole message to `out`.
mlb_code write(Span<const Slot> slots, const mlb_tensor *tensors, mlb_buffer *out,
               mlb_error *error);
/// Appends `text` as a JSON string with its quotes. False if it is not UTF-8.
bool appendQuoted(std::string &to, std::string_view text);

} // namespace mlbridge::json

#endif
