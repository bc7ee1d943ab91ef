// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which other files an ONNX model keeps weights in, found by walking its protobuf encoding.
#ifndef MLBRIDGE_ENGINE_ONNX_EXTERNAL_DATA_H
#define MLBRIDGE_ENGINE_ONNX_EXTERNAL_DATA_H

#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <map>
#include <string>

namespace mlbridge::onnx {

/// File name to the number of bytes that the model uses of it (the end of its last tensor, or 0
/// where the model doesn't say).
using ExternalFiles = std::map<std::string, uint64_t>;

/// The files that `model`, an untrusted ModelProto, names. What is not protobuf gives no files:
/// ONNX Runtime reports it. Errors: InvalidModel (an absolute path, "..", a bad range),
/// Unsupported (external data elsewhere than in the initializers of the main graph).
Expected<ExternalFiles> externalFiles(Span<const uint8_t> model);

} // namespace mlbridge::onnx

#endif
