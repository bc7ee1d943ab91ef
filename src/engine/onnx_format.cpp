// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/onnx_format.h"

#include "engine/onnx_guards.h"
#include "engine/wire.h"

#include <algorithm>
#include <map>
#include <set>

namespace mlbridge::engine {
namespace {

/// Others that end the process if an input is empty.
constexpr std::string_view Fragile[] = {"ConvTranspose", "STFT"};

/// True if a flat buffer has one of the texts: after its length, and before a zero.
template <size_t N> bool mentions(std::string_view buffer, const std::string_view (&texts)[N]) {
  return std::any_of(std::begin(texts), std::end(texts), [buffer](std::string_view text) {
    std::string stored{static_cast<char>(text.size()), 0, 0, 0};
    stored.append(text).push_back('\0');
    return buffer.find(stored) != buffer.npos;
  });
}

} // namespace

OnnxFacts factsOf(Span<const uint8_t> bytes) {
  OnnxFacts facts;
  if (isOrtFormat(bytes)) {
    facts.isNeverEmpty = mentions(textOf(bytes), Recurrent) || mentions(textOf(bytes), Fragile);
    return facts;
  }
  const onnx::Model model = onnx::scanModel(bytes);
  onnx::eachNode(model, [&](const onnx::Node &node, const onnx::Opsets &) {
    facts.hasHazard |= isHazard(node);
    facts.isNeverEmpty |= isOneOf(node.op, Fragile);
  });
  facts.defaults = onnx::defaultsOf(model);
  for (const onnx::ValueInfo &input : model.graph.inputs)
    if (input.isTensor && !input.hasShape &&
        std::find(facts.defaults.begin(), facts.defaults.end(), input.name) == facts.defaults.end())
      facts.shapelessInputs.emplace_back(input.name);
  for (const onnx::ValueInfo &output : model.graph.outputs)
    if (!output.hasShape)
      facts.shapelessOutputs.emplace_back(output.name);
  return facts;
}

bool paysToPrepack(Span<const uint8_t> bytes) {
  constexpr uint64_t PanelColumns = 16;
  constexpr double FewestWeights = 1 << 15, MostPadded = 1.25;
  constexpr uint64_t LongestSide = uint64_t(1) << 31; // a file has at most 2 GiB
  const onnx::Model model = onnx::scanModel(bytes);
  std::map<std::string_view, const onnx::Tensor *> matrices;
  for (const onnx::Tensor &tensor : model.graph.initializers)
    matrices.emplace(tensor.name, &tensor);
  std::set<std::string_view> counted; // a matrix that two nodes share counts once
  double weights = 0, packed = 0;     // no overflow, and exact for all that a file may hold
  bool hasGates = false;
  /// Counts the matrix of this name, if it has this rank and is constant; its last two dimensions
  /// are swapped if it is transposed.
  const auto count = [&](std::string_view name, size_t rank, bool isTransposed) {
    const auto at = matrices.find(name);
    if (at == matrices.end() || !counted.insert(name).second)
      return false;
    const Shape &shape = at->second->shape;
    if (shape.size() != rank || fromOnnx(int64_t(at->second->type)) != ElementType::Float32)
      return false;
    const auto rows = uint64_t(shape[rank - 2 + isTransposed]);
    const auto columns = uint64_t(shape[rank - 1 - isTransposed]);
    if (rows > LongestSide || columns > LongestSide)
      return false;
    // Gates gain at each step, more than their padding costs: also three of 8 columns, measured.
    const uint64_t padded =
        rank == 3 ? columns : (columns + PanelColumns - 1) / PanelColumns * PanelColumns;
    weights += double(rows) * double(columns);
    packed += double(rows) * double(padded);
    return true;
  };
  for (const onnx::Node &node : model.graph.nodes) {
    if (node.op == "LSTM" || node.op == "GRU") {
      for (size_t operand = 1; operand < std::min<size_t>(node.inputs.size(), 3); ++operand)
        hasGates |= count(node.inputs[operand], 3, true);
    } else if ((node.op == "Gemm" || node.op == "MatMul") && node.inputs.size() >= 2) {
      const bool isTransposed =
          std::any_of(node.attributes.begin(), node.attributes.end(), [](const onnx::Attribute &a) {
            return a.name == "transB" && a.integer != 0;
          });
      (void)count(node.inputs[1], 2, isTransposed);
    }
  }
  return (hasGates || weights >= FewestWeights) && packed <= MostPadded * weights;
}

} // namespace mlbridge::engine
