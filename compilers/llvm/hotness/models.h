// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_HOTNESS_MODELS_H
#define MLBRIDGE_LLVM_HOTNESS_MODELS_H

#include <mlbridge/tensor.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace mlbridge::hotness {

/// What the user wants, in the order of the input `goal`.
inline constexpr std::array<std::string_view, 3> Goals = {"O2-speed", "Os-size", "Oz-size"};

/// What is asked: a row of features for each function, the goal, and the functions' names, as a
/// profile has them: "FUNCTION", or "FILE;FUNCTION" for a static one. A model may leave out any.
Signature signature();

/// The answer for one function.
enum class For : int64_t { Speed, Size, SmallestSize };

/// Registers what a model is compared with: function:speed, function:size and function:smallest,
/// which answer the same for all; function:frequencies?share=0.5, by LLVM's static frequencies;
/// function:random?share=0.5&seed=1. And profile:FILE (profile.h).
void registerModels();

} // namespace mlbridge::hotness

#endif
