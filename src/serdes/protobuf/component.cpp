// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protobuf serdes as a component. It registers no message type with libprotobuf, of which the
// program may have a copy of its own.
#include "core/component_values.h"
#include "serdes/protobuf/codec.h"

namespace {

using mlbridge::protobuf::Codec;

mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **codec, mlb_error *error) {
  auto made = mlbridge::protobuf::newTensorListCodec({specs, size});
  if (!made)
    return mlbridge::protobuf::fail(error, made.status().code(), made.status().message());
  *codec = (*made).release();
  return 0;
}

mlb_code create_with(const mlb_tensor_spec *specs, uint64_t size, uint32_t side,
                     const mlb_option *options, uint64_t options_size, void **codec,
                     mlb_error *error) {
  std::string proto, message, method;
  for (uint64_t i = 0; i < options_size; ++i) {
    const std::string_view key = mlbridge::fromComponent(options[i].key);
    const std::string_view value = mlbridge::fromComponent(options[i].value);
    if (key == "proto")
      proto = value;
    else if (key == (side ? "reply" : "request"))
      message = value;
    else if (key == "call")
      method = value;
  }
  auto made = mlbridge::protobuf::newMessageCodec({specs, size}, side ? "outputs" : "inputs", proto,
                                                  message, method);
  if (!made)
    return mlbridge::protobuf::fail(error, made.status().code(), made.status().message());
  *codec = (*made).release();
  return 0;
}

void destroy(void *codec) { delete static_cast<Codec *>(codec); }

mlb_code encode(void *codec, const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) {
  return static_cast<Codec *>(codec)->encode(tensors, out, error);
}

mlb_code decode(void *codec, const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                mlb_error *error) {
  return static_cast<Codec *>(codec)->decode(data, size, sink, error);
}

constexpr mlb_serdes Table = {sizeof(mlb_serdes), create, destroy, encode, decode, create_with};

constexpr mlb_component Component = {sizeof(mlb_component),
                                     MLB_COMPONENT_ABI,
                                     0 << 16 | 1 << 8 | 0,
                                     {"protobuf", 8},
                                     nullptr,
                                     &Table,
                                     nullptr};

} // namespace

extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
