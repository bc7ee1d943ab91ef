// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_HOTNESS_MODELS_H
#define MLBRIDGE_LLVM_HOTNESS_MODELS_H

#include <mlbridge/tensor.h>

#include <cstdint>

namespace mlbridge::hotness {

/// What is asked: a row of features for each function, and the goal. A model may leave out any of
/// the inputs, such as the functions' linkage names, which recordings are for.
Signature signature();

/// The answer for one function.
enum class For : int64_t { Speed, Size, SmallestSize };

/// Registers what a model is compared with: function:speed, function:size and function:smallest,
/// which answer the same for all; function:frequencies?share=0.5, by LLVM's static frequencies;
/// function:random?share=0.5&seed=1.
void registerModels();

} // namespace mlbridge::hotness

#endif
