// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_CORE_COMPONENT_BUFFER_H
#define MLBRIDGE_CORE_COMPONENT_BUFFER_H

#include "core/buffer.h"

#include <mlbridge/component.h>

namespace mlbridge {

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

} // namespace mlbridge

#endif
