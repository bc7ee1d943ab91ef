// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Looking through a whole model.
#ifndef MLBRIDGE_ENGINE_NATIVE_NODES_H
#define MLBRIDGE_ENGINE_NATIVE_NODES_H

#include "engine/native/onnx/model.h"

#include <mlbridge/model.h>

namespace mlbridge::native {

constexpr uint64_t ModelLimit = uint64_t(1) << 33;

inline std::string_view textOf(const Buffer &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// What the file says of itself; some of it under names that ONNX Runtime's engine gives it, too.
Metadata metadataOf(const onnx::Model &model);

/// All nodes, those of inner graphs and functions included.
template <typename F> void eachNode(const std::vector<onnx::Node> &nodes, const F &body) {
  for (const onnx::Node &node : nodes) {
    body(node);
    for (const onnx::Attribute &attribute : node.attributes)
      if (attribute.graph)
        eachNode(attribute.graph->nodes, body);
  }
}

} // namespace mlbridge::native

#endif
