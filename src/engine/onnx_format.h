// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts of ONNX's format: the numbers of its element types (TensorProto.DataType, and the same ones
// in ONNX Runtime), and what has to be known of a model before ONNX Runtime opens it.
#ifndef MLBRIDGE_ENGINE_ONNX_FORMAT_H
#define MLBRIDGE_ENGINE_ONNX_FORMAT_H

#include <mlbridge/tensor.h>

#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace mlbridge::engine {

inline constexpr std::optional<ElementType> OnnxTypes[] = {
    std::nullopt,        ElementType::Float32, ElementType::UInt8,   ElementType::Int8,
    ElementType::UInt16, ElementType::Int16,   ElementType::Int32,   ElementType::Int64,
    ElementType::String, ElementType::Bool,    ElementType::Float16, ElementType::Float64,
    ElementType::UInt32, ElementType::UInt64};

/// Nothing for a type without a counterpart here.
inline std::optional<ElementType> fromOnnx(int64_t type) {
  return type >= 0 && type < int64_t(std::size(OnnxTypes)) ? OnnxTypes[type] : std::nullopt;
}
inline int toOnnx(ElementType type) {
  int number = 0;
  while (OnnxTypes[number] != type)
    ++number;
  return number;
}

/// Decides if ONNX Runtime should lay a network's weights out anew when it loads it: by the file
/// alone, so that every process, in the compiler or serving it, takes the same kernels and so makes
/// the same bits.
///
/// True if the weights of the main graph's Gemm and MatMul are many (at least 32 768 float32), and
/// little of them would be padding: packed matrices have a multiple of 16 columns, and one with a
/// single column is read as if it had 16. The matrices of LSTM and GRU count too, and pay however
/// few they are, since each step multiplies by them. False for what isn't a model in ONNX's format.
bool paysToPrepack(Span<const uint8_t> model);

/// True for ONNX Runtime's own format (a flat buffer, with this identifier).
inline bool isOrtFormat(Span<const uint8_t> bytes) {
  return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, "ORTM", 4) == 0;
}

/// Facts that ONNX Runtime doesn't tell about a file, or tells wrongly. A file in its own format
/// has only isNeverEmpty.
struct OnnxFacts {
  std::vector<std::string> defaults;        ///< inputs that are initializers as well
  std::vector<std::string> shapelessInputs; ///< a rank of 0 is not what they have
  std::vector<std::string> shapelessOutputs;
  bool hasHazard = false; ///< there is a node that guardedModel may guard
  /// An input without elements may reach an operator with which ONNX Runtime ends the process, and
  /// no guard is in its way.
  bool isNeverEmpty = false;
};
OnnxFacts factsOf(Span<const uint8_t> model);

/// Under this name a model's metadata list its inputs with defaults, with commas between them.
inline constexpr char DefaultsKey[] = "onnx.defaults";
/// Before the name of an output that is left out of the signature; the value says why.
inline constexpr char LeftOutKey[] = "onnx.left_out.";
inline std::string defaultsText(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text.append(text.empty() ? "" : ",").append(name);
  return text;
}

} // namespace mlbridge::engine

#endif
