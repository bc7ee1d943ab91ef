// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The JSON serdes as a component. simdjson is its own, shared or not: no symbol leaves.
#include "serdes/json/codec.h"

namespace {

using mlbridge::json::Codec;

mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **codec, mlb_error *error) {
  auto made = Codec::make({specs, size});
  if (!made)
    return mlbridge::json::fail(error, made.status().code(), made.status().message());
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

constexpr mlb_serdes Table = {sizeof(mlb_serdes), create, destroy, encode, decode, nullptr};

constexpr mlb_component Component = {sizeof(mlb_component),
                                     MLB_COMPONENT_ABI,
                                     0 << 16 | 1 << 8 | 0,
                                     {"json", 4},
                                     nullptr,
                                     &Table,
                                     nullptr};

} // namespace

extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
