// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the engines know of ONNX's format: the numbers of its element types (TensorProto.DataType,
// and the same ones in ONNX Runtime), and whether a network's weights should be laid out anew.
#ifndef MLBRIDGE_ENGINE_ONNX_FORMAT_H
#define MLBRIDGE_ENGINE_ONNX_FORMAT_H

#include <mlbridge/tensor.h>

#include <iterator>
#include <optional>

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

/// Whether ONNX Runtime should lay a network's weights out anew when it loads it. Decided by the
/// file alone, so that every process, in the compiler or serving it, takes the same kernels and so
/// makes the same bits.
///
/// True if the weights of the main graph's Gemm and MatMul are many (at least 32 768 float32), and
/// little of them would be padding: packed matrices have a multiple of 16 columns, and one with a
/// single column is read as if it had 16. False for what isn't a model in ONNX's format.
bool paysToPrepack(Span<const uint8_t> model);

} // namespace mlbridge::engine

#endif
