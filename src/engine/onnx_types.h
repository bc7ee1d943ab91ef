// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of ONNX's element types: TensorProto.DataType, and the same ones in ONNX Runtime.
#ifndef MLBRIDGE_ENGINE_ONNX_TYPES_H
#define MLBRIDGE_ENGINE_ONNX_TYPES_H

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

} // namespace mlbridge::engine

#endif
