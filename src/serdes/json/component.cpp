// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The JSON serdes as a component. simdjson is its own, shared or not: no symbol leaves.
#include "serdes/json/codec.h"

namespace {

mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **codec, mlb_error *error) {
  return mlbridge::component::give(mlbridge::json::Codec::make({specs, size}), codec, error);
}

constexpr mlb_serdes Table = mlbridge::component::table(create);

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
