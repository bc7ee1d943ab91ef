// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_SERDES_PROTOBUF_READER_H
#define MLBRIDGE_SERDES_PROTOBUF_READER_H

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace mlbridge::protobuf {

/// Reads fields where they lie.
class Reader : public google::protobuf::io::CodedInputStream {
public:
  Reader(const uint8_t *data, size_t size)
      : CodedInputStream(data, static_cast<int>(size)), data_(data), size_(size) {}
  /// The length and the bytes behind a tag.
  bool bytes(const uint8_t *&data, size_t &size) {
    uint32_t length;
    if (!ReadVarint32(&length))
      return false;
    const auto at = static_cast<size_t>(CurrentPosition());
    if (length > size_ - at || !Skip(static_cast<int>(length)))
      return false;
    data = data_ + at;
    size = length;
    return true;
  }
  bool skip(uint32_t tag) {
    return google::protobuf::internal::WireFormatLite::GetTagFieldNumber(tag) != 0 &&
           google::protobuf::internal::WireFormatLite::SkipField(this, tag);
  }

private:
  const uint8_t *data_;
  size_t size_;
};

} // namespace mlbridge::protobuf

#endif
