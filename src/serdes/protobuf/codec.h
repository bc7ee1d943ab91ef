// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations that the parts of the protobuf serdes share: a codec is one direction of a
// signature.
#ifndef MLBRIDGE_SERDES_PROTOBUF_CODEC_H
#define MLBRIDGE_SERDES_PROTOBUF_CODEC_H

#include "serdes/component_codec.h"
#include "serdes/serdes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace mlbridge::protobuf {

using component::about, component::fail;
using Codec = component::Codec;
using google::protobuf::internal::WireFormatLite;

/// mlbridge.v1.TensorList. Errors: InvalidArgument, and Unsupported for a name that is not UTF-8 or
/// occurs twice, or a tensor that is too large.
Expected<std::unique_ptr<Codec>> newTensorListCodec(Span<const mlb_tensor_spec> specs);

/// The message `name` of the file `proto`, whose fields are matched to the tensors by name; see
/// docs/protocol.md. `side` is "inputs" or "outputs". If `name` is empty, the message is that of
/// `method` ("pkg.Service/Method") on this side. Errors: NotFound (no such file, method or
/// message), InvalidArgument (a file that is not correct), Unsupported (a method that streams),
/// Mismatch (both sides are printed).
Expected<std::unique_ptr<Codec>> newMessageCodec(Span<const mlb_tensor_spec> specs,
                                                 const std::string &side, const std::string &proto,
                                                 const std::string &name,
                                                 const std::string &method);

/// The most bytes of a protobuf message.
inline constexpr uint64_t MaxMessage = (uint64_t(1) << 31) - 1;

std::string noBool(const TensorSpec &spec, size_t element, uint8_t value);
/// Makes room for `size` more bytes of a message. Errors: LimitExceeded.
mlb_code reserve(mlb_buffer &out, uint64_t size, mlb_error *error);
/// True if so many bytes can be a message. Errors: Protocol.
Status checkSize(uint64_t size);
/// Quoted for a message: text that a peer sent, cut if it is long.
std::string quoted(std::string_view text);

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
    return WireFormatLite::GetTagFieldNumber(tag) != 0 && WireFormatLite::SkipField(this, tag);
  }

private:
  const uint8_t *data_;
  size_t size_;
};

// How the tensors of one side of a signature lie in a message of the user's.

/// A field that is used: one with a tensor, or a message on the way to some.
struct Field {
  std::string path; ///< "profiles.weight"
  int number = 0;
  WireFormatLite::FieldType type = WireFormatLite::TYPE_MESSAGE;
  bool repeated = false;
  bool packed = false;   ///< written so; both are read
  bool presence = false; ///< absent is not the same as zero
  bool utf8 = false;
  size_t id = 0; ///< of what is known of it while a message is written or read

  /// A message's fields: ordered by number, each with a tensor somewhere in it.
  std::vector<Field> fields;

  /// The tensor of any other field.
  size_t tensor = 0;
  /// The tensor of the lengths of rows that differ in length, or none.
  std::optional<size_t> lengths;
  /// The repeated messages that it is in, from the outermost: the first dimensions of its tensor.
  std::vector<size_t> around;
  /// The product of the fixed dimensions of a row, and whether another one is not.
  size_t unit = 1;
  bool rowsVary = false;

  bool isMessage() const { return type == WireFormatLite::TYPE_MESSAGE; }
  uint32_t tag(WireFormatLite::WireType wire) const {
    return static_cast<uint32_t>(number) << 3 | static_cast<uint32_t>(wire);
  }
  WireFormatLite::WireType wire() const { return WireFormatLite::WireTypeForFieldType(type); }
};

struct Plan {
  std::vector<TensorSpec> specs;
  Field root;
  size_t fields = 0; ///< ids are below
};

/// Errors: see newMessageCodec.
Expected<Plan> makePlan(std::vector<TensorSpec> specs, const std::string &side,
                        const std::string &proto, const std::string &name,
                        const std::string &method);

} // namespace mlbridge::protobuf

#endif
