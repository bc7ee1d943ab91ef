// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's values as the structures of the component table, and back.
#ifndef MLBRIDGE_CORE_COMPONENT_VALUES_H
#define MLBRIDGE_CORE_COMPONENT_VALUES_H

#include "core/buffer.h"

#include <mlbridge/component.h>
#include <mlbridge/tensor.h>
#include <mlbridge/version.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mlbridge {

constexpr mlb_string toComponent(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view fromComponent(mlb_string text) {
  return text.data ? std::string_view(text.data, text.size) : std::string_view();
}

/// The result of mlb_component_entry: the name and one table, of which the other two are null.
constexpr mlb_component newComponent(std::string_view name, const mlb_engine *engine,
                                     const mlb_serdes *serdes, const mlb_transport *transport) {
  constexpr uint32_t Version =
      MLBRIDGE_VERSION_MAJOR << 16 | MLBRIDGE_VERSION_MINOR << 8 | MLBRIDGE_VERSION_PATCH;
  return {sizeof(mlb_component),
          MLB_COMPONENT_ABI,
          Version,
          toComponent(name),
          engine,
          serdes,
          transport};
}

/// The place for a component's message of one call.
class ComponentError {
public:
  mlb_error *get() {
    error_ = {text_, sizeof text_, 0};
    return &error_;
  }
  /// Ok if code is 0; a number that is no Code becomes Internal.
  Status status(mlb_code code, std::string_view where) const;

private:
  char text_[1024];
  mlb_error error_ = {nullptr, 0, 0};
};

/// The result of a function of a table; a failure's message is written, cut to what fits.
mlb_code fail(mlb_error *error, const Status &status);

/// For the time of a call: both refer to what they were made from.
std::vector<mlb_tensor_spec> toComponent(Span<const TensorSpec> specs);
std::vector<mlb_option> toComponent(const std::map<std::string, std::string> &options);

/// The tail of a Buffer as a component sees it.
class BufferTail : public mlb_buffer {
public:
  explicit BufferTail(Buffer &buffer) : buffer_(buffer) {
    sync();
    reserve = [](mlb_buffer *self, uint64_t capacity) -> mlb_code {
      auto *tail = static_cast<BufferTail *>(self);
      if (tail->size > tail->buffer_.capacity())
        return static_cast<mlb_code>(Code::Internal);
      (void)tail->buffer_.resize(tail->size); // so that growing keeps what was written
      Status grown = tail->buffer_.reserve(capacity);
      tail->sync();
      return static_cast<mlb_code>(grown.code());
    };
  }
  Status finish() {
    if (size > buffer_.capacity())
      return Status(Code::Internal, "the component wrote past the end of its buffer");
    return buffer_.resize(size);
  }

private:
  void sync() {
    data = buffer_.data();
    size = buffer_.size();
    capacity = buffer_.capacity();
  }
  Buffer &buffer_;
};

/// Errors: those of TensorSpec::check.
Expected<TensorSpec> fromComponent(const mlb_tensor_spec &spec);

} // namespace mlbridge

#endif
