// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the JSON serdes knows of one list of tensors, and how its parts report errors.
#ifndef MLBRIDGE_SERDES_JSON_CODEC_H
#define MLBRIDGE_SERDES_JSON_CODEC_H

#include "serdes/component_codec.h"

#include <atomic>

namespace mlbridge::json {

using component::about, component::fail;

/// How JSON writes the numbers that it has no syntax for. Any NaN but the canonical quiet one is
/// NaNPrefix and all its bits in lower-case hexadecimal digits.
inline constexpr std::string_view Infinity = "Infinity";
inline constexpr std::string_view MinusInfinity = "-Infinity";
inline constexpr std::string_view NaN = "NaN";
inline constexpr std::string_view NaNPrefix = "NaN:";

/// The bits of the floating-point types.
template <typename T> struct Float {
  static constexpr bool value = false;
};
template <> struct Float<Half> {
  static constexpr bool value = true;
  using Bits = uint16_t;
  static constexpr Bits Sign = 0x8000, Exponent = 0x7c00, QuietNaN = 0x7e00;
};
template <> struct Float<float> {
  static constexpr bool value = true;
  using Bits = uint32_t;
  static constexpr Bits Sign = 0x80000000, Exponent = 0x7f800000, QuietNaN = 0x7fc00000;
};
template <> struct Float<double> {
  static constexpr bool value = true;
  using Bits = uint64_t;
  static constexpr Bits Sign = 0x8000000000000000, Exponent = 0x7ff0000000000000,
                        QuietNaN = 0x7ff8000000000000;
};

/// Parser state that is kept from message to message; see read.cpp.
class Reader;
struct DeleteReader {
  void operator()(Reader *reader) const;
};
/// Null if there is no memory.
Reader *newReader();

struct Slot {
  TensorSpec spec;
  bool dynamic = false;
  size_t count = 0; ///< elements, unless dynamic
  std::string key;  ///< `"name":`, escaped
};

class Codec final : public component::Codec {
public:
  /// Errors: InvalidArgument, and Unsupported for a name that is not UTF-8.
  static Expected<std::unique_ptr<Codec>> make(Span<const mlb_tensor_spec> specs);
  ~Codec() override { DeleteReader()(spare_.load()); }

  mlb_code encode(const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) const override;
  mlb_code decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                  mlb_error *error) const override;

  const std::vector<Slot> &slots() const { return slots_; }
  /// The index of the tensor with this name, or slots().size(); `guess` is tried first.
  size_t find(std::string_view name, size_t guess) const {
    return byName_.find(slots_, name, guess);
  }

private:
  std::vector<Slot> slots_;
  component::ByName<Slot> byName_;
  /// One reader waits here; a thread that finds none makes its own.
  mutable std::atomic<Reader *> spare_{nullptr};
};

/// "tensor 'x'", and with an element "tensor 'x' element 3".
inline std::string about(const Slot &slot) { return about(slot.spec); }
inline std::string about(const Slot &slot, size_t element) {
  return about(slot) + " element " + std::to_string(element);
}

/// Reads a whole message; 64 bytes after its end are readable.
mlb_code read(Reader &reader, const Codec &codec, const uint8_t *data, size_t size,
              const mlb_tensor_sink &sink, mlb_error *error);
/// Appends the whole message to `out`.
mlb_code write(Span<const Slot> slots, const mlb_tensor *tensors, mlb_buffer *out,
               mlb_error *error);
/// Appends `text` as a JSON string with its quotes. False if it is not UTF-8.
bool appendQuoted(std::string &to, std::string_view text);

} // namespace mlbridge::json

#endif
