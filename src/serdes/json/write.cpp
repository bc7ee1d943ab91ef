// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers go with std::to_chars straight into the message, in blocks, so that the space is asked
// for once in a thousand elements and the loop over them has nothing else to do.
#include "serdes/json/codec.h"

#include "core/convert.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <simdjson.h>

namespace mlbridge::json {
namespace {

constexpr size_t Block = 1024;

/// The end of the message, written through a pointer.
class Output {
public:
  explicit Output(mlb_buffer *buffer) : buffer_(buffer), at_(buffer->data + buffer->size) {}

  /// Room for `size` more bytes. The pointer of before is no longer valid.
  bool need(size_t size) {
    size_t used = at_ - buffer_->data;
    if (size <= buffer_->capacity - used)
      return true;
    buffer_->size = used;
    mlb_code code = buffer_->reserve(buffer_, used + size);
    at_ = buffer_->data + used;
    return code == 0;
  }
  char *at() { return reinterpret_cast<char *>(at_); }
  void to(char *end) { at_ = reinterpret_cast<uint8_t *>(end); }
  void put(char c) { *at_++ = static_cast<uint8_t>(c); }
  void put(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void finish() { buffer_->size = at_ - buffer_->data; }

private:
  mlb_buffer *buffer_;
  uint8_t *at_;
};

/// An upper bound of the characters of one element: "-1.2345678901234567e-308" and
/// "\"NaN:7ff0000000000001\"", with some left.
constexpr size_t MaxNumber = 32;

char *copy(char *to, std::string_view text) {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

template <typename Bits> [[gnu::noinline]] char *writeNonFinite(char *to, Bits bits) {
  using F = Float<std::conditional_t<sizeof(Bits) == 2, Half,
                                     std::conditional_t<sizeof(Bits) == 4, float, double>>>;
  *to++ = '"';
  if (bits == F::Exponent) {
    to = copy(to, Infinity);
  } else if (bits == (F::Exponent | F::Sign)) {
    to = copy(to, MinusInfinity);
  } else if (bits == F::QuietNaN) {
    to = copy(to, NaN);
  } else {
    to = copy(to, NaNPrefix);
    for (int shift = sizeof(Bits) * 8 - 4; shift >= 0; shift -= 4)
      *to++ = "0123456789abcdef"[(bits >> shift) & 15];
  }
  *to++ = '"';
  return to;
}

template <typename T> char *writeFinite(char *to, T value) {
  // For these the shortest form is that of the integer, which is several times faster to find.
  if (std::fabs(value) < T(100000)) {
    int whole = static_cast<int>(value);
    if (static_cast<T>(whole) == value) {
      if (whole == 0 && std::signbit(value))
        return copy(to, "-0.0"); // many readers take "-0" for an integer and lose the sign
      return std::to_chars(to, to + MaxNumber, whole).ptr;
    }
  }
  return std::to_chars(to, to + MaxNumber, value).ptr;
}

template <typename T> char *writeNumber(char *to, const T &value) {
  if constexpr (Float<T>::value) {
    typename Float<T>::Bits bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (__builtin_expect((bits & Float<T>::Exponent) == Float<T>::Exponent, false))
      return writeNonFinite(to, bits);
    if constexpr (std::is_same_v<T, Half>)
      return writeFinite(to, toFloat(value));
    else
      return writeFinite(to, value);
  } else {
    return std::to_chars(to, to + MaxNumber, value).ptr;
  }
}

constexpr mlb_code Done = 0;

mlb_code noSpace(mlb_error *error, const Slot &slot) {
  return fail(error, Code::LimitExceeded, about(slot), ": no memory for its text");
}

/// The elements with a comma after each.
template <typename T>
mlb_code writeNumbers(Output &out, const Slot &slot, const mlb_tensor &tensor, mlb_error *error) {
  const T *from = static_cast<const T *>(tensor.data);
  for (size_t k = 0; k < tensor.count;) {
    size_t end = std::min<size_t>(tensor.count, k + Block);
    if (!out.need((end - k) * (MaxNumber + 1)))
      return noSpace(error, slot);
    char *to = out.at();
    for (; k < end; ++k) {
      to = writeNumber(to, from[k]);
      *to++ = ',';
    }
    out.to(to);
  }
  return Done;
}

mlb_code writeBools(Output &out, const Slot &slot, const mlb_tensor &tensor, mlb_error *error) {
  const auto *from = static_cast<const uint8_t *>(tensor.data);
  for (size_t k = 0; k < tensor.count; ++k) {
    if (!out.need(8))
      return noSpace(error, slot);
    if (from[k] > 1)
      return fail(error, Code::InvalidArgument, about(slot, k), " is ", from[k],
                  ", a bool is 0 or 1");
    out.put(from[k] ? "true," : "false,");
  }
  return Done;
}

/// At most 6 characters, "\u001f".
char *writeCharacter(char *to, unsigned char c) {
  constexpr std::string_view Special = "\"\\\b\f\n\r\t", Letters = "\"\\bfnrt";
  if (c < 0x20 || c == '"' || c == '\\') {
    *to++ = '\\';
    const size_t known = Special.find(static_cast<char>(c));
    if (known == Special.npos) {
      to = copy(to, "u00");
      *to++ = "01"[c >> 4];
    }
    c = known == Special.npos ? "0123456789abcdef"[c & 15] : Letters[known];
  }
  *to++ = static_cast<char>(c);
  return to;
}

bool writeString(Output &out, std::string_view text) {
  if (!out.need(2))
    return false;
  out.put('"');
  for (size_t k = 0; k < text.size();) {
    size_t end = std::min(text.size(), k + Block);
    if (!out.need((end - k) * 6 + 2))
      return false;
    char *to = out.at();
    for (; k < end; ++k)
      to = writeCharacter(to, static_cast<unsigned char>(text[k]));
    out.to(to);
  }
  out.put('"');
  return true;
}

mlb_code writeStrings(Output &out, const Slot &slot, const mlb_tensor &tensor, mlb_error *error) {
  const auto *from = static_cast<const mlb_string *>(tensor.data);
  for (size_t k = 0; k < tensor.count; ++k) {
    if (from[k].size && !simdjson::validate_utf8(from[k].data, from[k].size))
      return fail(error, Code::InvalidArgument, about(slot, k),
                  " is not UTF-8, which JSON strings must be");
    std::string_view text;
    if (from[k].size)
      text = {from[k].data, from[k].size};
    if (!writeString(out, text) || !out.need(1))
      return noSpace(error, slot);
    out.put(',');
  }
  return Done;
}

mlb_code writeElements(Output &out, const Slot &slot, const mlb_tensor &tensor, mlb_error *error) {
  if (slot.spec.type == ElementType::String)
    return writeStrings(out, slot, tensor, error);
  return withNumber(slot.spec.type, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, bool>)
      return writeBools(out, slot, tensor, error);
    else
      return writeNumbers<T>(out, slot, tensor, error);
  });
}

/// The comma that writeElements leaves gives way to `end`.
void closeList(Output &out, bool empty, std::string_view end) {
  if (!empty)
    out.to(out.at() - 1);
  out.put(end);
}

mlb_code writeTensor(Output &out, const Slot &slot, const mlb_tensor &tensor, mlb_error *error) {
  const size_t rank = slot.spec.shape.size();
  if (!out.need(slot.key.size() + 32 + rank * (MaxNumber + 1)))
    return noSpace(error, slot);
  out.put(slot.key);
  std::string_view end = "],";
  if (slot.dynamic) {
    out.put("{\"shape\":[");
    char *to = out.at();
    for (size_t d = 0; d < rank; ++d) {
      to = std::to_chars(to, to + MaxNumber, tensor.shape[d]).ptr;
      *to++ = ',';
    }
    out.to(to - 1);
    out.put("],\"data\":[");
    end = "]},";
  } else if (rank == 0) {
    end = ",";
  } else {
    out.put('[');
  }
  if (mlb_code code = writeElements(out, slot, tensor, error))
    return code;
  if (!out.need(4))
    return noSpace(error, slot);
  closeList(out, tensor.count == 0, end);
  return Done;
}

} // namespace

bool appendQuoted(std::string &to, std::string_view text) {
  if (!simdjson::validate_utf8(text.data(), text.size()))
    return false;
  to += '"';
  for (char c : text) {
    char escaped[8];
    to.append(escaped, writeCharacter(escaped, static_cast<unsigned char>(c)));
  }
  to += '"';
  return true;
}

mlb_code write(Span<const Slot> slots, const mlb_tensor *tensors, mlb_buffer *buffer,
               mlb_error *error) {
  Output out(buffer);
  if (!out.need(4))
    return fail(error, Code::LimitExceeded, "no memory for the message");
  out.put('{');
  for (size_t i = 0; i < slots.size(); ++i)
    if (mlb_code code = writeTensor(out, slots[i], tensors[i], error))
      return code;
  if (!out.need(1))
    return fail(error, Code::LimitExceeded, "no memory for the message");
  closeList(out, slots.empty(), "}");
  out.finish();
  return Done;
}

} // namespace mlbridge::json
