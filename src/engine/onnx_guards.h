// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes written into a model before ONNX Runtime opens it: guards against what ends the process,
// and probes of what ONNX Runtime doesn't tell. And its messages, in a user's words.
#ifndef MLBRIDGE_ENGINE_ONNX_GUARDS_H
#define MLBRIDGE_ENGINE_ONNX_GUARDS_H

#include "engine/onnx_file.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbridge::engine {

inline constexpr std::string_view Recurrent[] = {"GRU", "LSTM", "RNN", "DynamicQuantizeLSTM"};

template <size_t N> bool isOneOf(std::string_view text, const std::string_view (&texts)[N]) {
  for (const std::string_view other : texts)
    if (text == other)
      return true;
  return false;
}

/// True of an operator with which ONNX Runtime ends the process for some inputs.
bool isHazard(const onnx::Node &node);
/// The model with nodes before each such node for whose inputs that can't be ruled out; nothing if
/// there is none.
///
/// - GRU, LSTM and RNN with a sequence without steps or rows, STFT with a frame length below 1, and
///   Div and Mod of int32 or int64 by 0: a node fails instead.
/// - Div and Mod of the least int32 or int64 by −1: they wrap, as native: does.
std::optional<std::string> guardedModel(Span<const uint8_t> model);
/// The message for a user if such a node failed, made from ONNX Runtime's; empty if that is about
/// another node.
std::string guardFailure(std::string_view message);
/// The message about an empty input of a model that isNeverEmpty.
std::string emptyInput(std::string_view name);
/// ONNX Runtime's message on one line, without places in its source.
std::string plainMessage(std::string_view message);

/// Bytes that, after a model's, give it an output for each of `values`: its shape. Its type tells
/// whether ONNX Runtime knows the rank: it has one length then, which is the rank.
std::string shapeProbe(const std::vector<std::string> &values);
std::string shapeProbeName(std::string_view value);

} // namespace mlbridge::engine

#endif
