// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether ONNX Runtime should lay a network's weights out anew when it loads it. Decided by the
// file alone, so that every process, in the compiler or serving it, takes the same kernels and so
// makes the same bits.
#ifndef MLBRIDGE_ENGINE_PREPACK_H
#define MLBRIDGE_ENGINE_PREPACK_H

#include <mlbridge/tensor.h>

namespace mlbridge::engine {

/// True if the weights of the main graph's Gemm and MatMul are many (at least 32 768 float32), and
/// little of them would be padding: packed matrices have a multiple of 16 columns, and one with a
/// single column is read as if it had 16. False for what isn't a model in ONNX's format.
bool paysToPrepack(Span<const uint8_t> model);

} // namespace mlbridge::engine

#endif
