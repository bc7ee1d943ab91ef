// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the parts of the protobuf serdes share: a codec is one direction of a signature.
#ifndef MLBRIDGE_SERDES_PROTOBUF_CODEC_H
#define MLBRIDGE_SERDES_PROTOBUF_CODEC_H

#include <mlbridge/component.h>
#include <mlbridge/tensor.h>

#include <memory>

namespace mlbridge::protobuf {

class Codec {
public:
  virtual ~Codec();
  virtual mlb_code encode(const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) const = 0;
  virtual mlb_code decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                          mlb_error *error) const = 0;
};

/// mlbridge.v1.TensorList of proto/mlbridge/v1/tensors.proto. Errors: InvalidArgument, and
/// Unsupported for a name that is not UTF-8, stands twice or a tensor that is too large.
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

/// What a protobuf message may have at most.
inline constexpr uint64_t MaxMessage = (uint64_t(1) << 31) - 1;

std::string noBool(const TensorSpec &spec, size_t element, uint8_t value);
/// Writes the message; the library puts "protobuf: " before it.
mlb_code fail(mlb_error *error, Code code, const std::string &message);
/// "tensor 'x'".
std::string about(const TensorSpec &spec);
/// Quoted for a message: text that a peer sent, cut if it is long.
std::string quoted(std::string_view text);
bool isUtf8(std::string_view text);
/// The first byte that is neither 0 nor 1, or `count`.
size_t findNoBool(const uint8_t *bytes, size_t count);

} // namespace mlbridge::protobuf

#endif
