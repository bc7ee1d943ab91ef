// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Field numbers of onnx.proto, for those who look for a few things in a model.
#ifndef MLBRIDGE_ENGINE_ONNX_FIELDS_H
#define MLBRIDGE_ENGINE_ONNX_FIELDS_H

#include <cstdint>

namespace mlbridge::engine::field {

inline constexpr uint32_t ModelGraph = 7, ModelFunctions = 25;
inline constexpr uint32_t GraphNode = 1, GraphInitializer = 5, GraphInput = 11, GraphOutput = 12;
inline constexpr uint32_t GraphSparseInitializer = 15;
inline constexpr uint32_t FunctionNode = 7, FunctionAttribute = 11;
inline constexpr uint32_t NodeInput = 1, NodeOutput = 2, NodeName = 3, NodeOperator = 4;
inline constexpr uint32_t NodeAttribute = 5, NodeDomain = 7;
inline constexpr uint32_t AttributeName = 1, AttributeInteger = 3, AttributeTensor = 5;
inline constexpr uint32_t AttributeGraph = 6, AttributeTensors = 10, AttributeGraphs = 11;
inline constexpr uint32_t AttributeType = 20, AttributeSparse = 22, AttributeSparses = 23;
inline constexpr uint32_t SparseValues = 1, SparseIndices = 2;
inline constexpr uint32_t TensorShape = 1, TensorType = 2, TensorInt64s = 7, TensorName = 8;
inline constexpr uint32_t TensorExternal = 13, TensorLocation = 14;
inline constexpr uint32_t ValueName = 1, ValueType = 2;
inline constexpr uint32_t TypeTensor = 1, TensorTypeElement = 1, TensorTypeShape = 2;
inline constexpr uint32_t ShapeDimension = 1, DimensionValue = 1;

} // namespace mlbridge::engine::field

#endif
