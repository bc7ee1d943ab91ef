// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protobuf serdes as a component. It registers no message type with libprotobuf, of which the
// program may have a copy of its own.
#include "serdes/protobuf/codec.h"

namespace {

using mlbridge::component::give;

mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **codec, mlb_error *error) {
  return give(mlbridge::protobuf::newTensorListCodec({specs, size}), codec, error);
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
  return give(mlbridge::protobuf::newMessageCodec({specs, size}, side ? "outputs" : "inputs", proto,
                                                  message, method),
              codec, error);
}

constexpr mlb_serdes Table = mlbridge::component::table(create, create_with);

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
