// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Protobuf's encoding, as far as engines read model files themselves: the fields of a message in
// order, without copies. And where a model may keep files of its own.
#ifndef MLBRIDGE_ENGINE_WIRE_H
#define MLBRIDGE_ENGINE_WIRE_H

#include <mlbridge/tensor.h>

#include <cstdint>
#include <string_view>

namespace mlbridge::engine {

/// The fields of one message, in order.
class WireMessage {
public:
  enum Type : uint8_t {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    GroupBegin = 3,
    GroupEnd = 4,
    Fixed32 = 5
  };

  explicit WireMessage(std::string_view bytes) : rest_(bytes) {}

  /// False at the end, and early at bytes that are no field.
  bool next() {
    if (rest_.empty())
      return false;
    raw = rest_;
    whole_ = field();
    raw = raw.substr(0, raw.size() - rest_.size());
    return whole_;
  }
  /// Takes the values of Varint fields of the same number that come next, and returns how many: a
  /// list is thousands of them. It stops before one that is damaged.
  template <size_t N> size_t takeAlike(int64_t (&out)[N]) {
    size_t count = 0;
    const char *at = rest_.data(), *const end = at + rest_.size();
    while (count < N && number < 16 && at != end && uint8_t(*at) == number << 3) {
      uint64_t next = 0;
      bool goesOn = true;
      const char *byte = at + 1;
      for (unsigned shift = 0; goesOn && byte != end && shift < 64; shift += 7) {
        next |= uint64_t(*byte & 0x7f) << shift;
        goesOn = (*byte++ & 0x80) != 0;
      }
      if (goesOn)
        break;
      out[count++] = static_cast<int64_t>(next);
      at = byte;
    }
    rest_.remove_prefix(static_cast<size_t>(at - rest_.data()));
    return count;
  }
  /// True if all bytes so far were fields.
  bool isWhole() const { return whole_; }

  uint32_t number = 0;
  uint8_t type = 0;
  uint64_t value = 0;       ///< of a Varint, Fixed32 or Fixed64 field
  std::string_view payload; ///< of a Bytes field
  std::string_view raw;     ///< the whole field as it stands there

  /// Takes a varint off the front of `bytes`; false if there is none.
  static bool takeVarint(std::string_view &bytes, uint64_t &out) {
    out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes.empty())
        return false;
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      out |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return false;
  }

private:
  bool field() {
    uint64_t key = 0;
    if (!takeVarint(rest_, key))
      return false;
    number = static_cast<uint32_t>(key >> 3);
    if (number == 0)
      return false;
    type = static_cast<uint8_t>(key & 7);
    payload = {};
    value = 0;
    switch (type) {
    case Varint:
      return takeVarint(rest_, value);
    case Fixed64:
      return fixed(8);
    case Bytes: {
      uint64_t size = 0;
      if (!takeVarint(rest_, size) || size > rest_.size())
        return false;
      payload = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return true;
    }
    case GroupBegin: // A group, which protobuf still skips, looks like the fields in it.
    case GroupEnd:
      return true;
    case Fixed32:
      return fixed(4);
    default:
      return false;
    }
  }
  bool fixed(size_t size) {
    if (rest_.size() < size)
      return false;
    for (size_t i = 0; i < size; ++i)
      value |= uint64_t(static_cast<uint8_t>(rest_[i])) << (8 * i);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool whole_ = true;
};

inline std::string_view textOf(Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// "weights.bin", "data/weights.bin"; nothing that leaves the model's folder.
inline bool staysInFolder(std::string_view location) {
  if (location.empty() || location.front() == '/' || location.find('\0') != std::string_view::npos)
    return false;
  while (true) {
    const size_t slash = location.find('/');
    if (location.substr(0, slash) == "..")
      return false;
    if (slash == std::string_view::npos)
      return true;
    location.remove_prefix(slash + 1);
  }
}

} // namespace mlbridge::engine

#endif
