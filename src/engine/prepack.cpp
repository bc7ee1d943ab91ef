// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/onnx_format.h"

#include "engine/onnx_fields.h"
#include "engine/wire.h"

#include <map>

namespace mlbridge::engine {
namespace {

constexpr uint64_t Float = 1; // TensorProto.DataType
constexpr uint64_t PanelColumns = 16;
constexpr uint64_t FewestWeights = 1 << 15;
constexpr uint64_t LongestSide = uint64_t(1) << 31; // a file has at most 2 GiB

struct Matrix {
  uint64_t rows = 0, columns = 0;
};

/// A float32 initializer with two dimensions; others keep lengths of 0.
Matrix readMatrix(std::string_view tensor, std::string_view &name) {
  uint64_t lengths[2] = {}, rank = 0, type = 0;
  const auto add = [&](uint64_t length) {
    if (rank < 2)
      lengths[rank] = length;
    ++rank;
  };
  for (WireMessage m(tensor); m.next();) {
    if (m.number == field::TensorName) {
      name = m.payload;
    } else if (m.number == field::TensorType) {
      type = m.value;
    } else if (m.number == field::TensorShape && m.type == WireMessage::Bytes) {
      uint64_t length = 0;
      while (WireMessage::takeVarint(m.payload, length))
        add(length);
    } else if (m.number == field::TensorShape) {
      add(m.value);
    }
  }
  if (rank != 2 || type != Float || lengths[0] > LongestSide || lengths[1] > LongestSide)
    return {};
  return {lengths[0], lengths[1]};
}

struct Product {
  std::string_view weights; ///< empty: the node is none
  bool transposed = false;
};

Product readProduct(std::string_view node) {
  Product product;
  std::string_view op;
  int inputs = 0;
  for (WireMessage m(node); m.next();) {
    if (m.number == field::NodeInput && inputs++ == 1) {
      product.weights = m.payload;
    } else if (m.number == field::NodeOperator) {
      op = m.payload;
    } else if (m.number == field::NodeAttribute) {
      std::string_view name;
      uint64_t value = 0;
      for (WireMessage attribute(m.payload); attribute.next();) {
        if (attribute.number == field::AttributeName)
          name = attribute.payload;
        else if (attribute.number == field::AttributeInteger)
          value = attribute.value;
      }
      product.transposed |= name == "transB" && value != 0;
    }
  }
  if (op != "Gemm" && op != "MatMul")
    product.weights = {};
  return product;
}

} // namespace

bool paysToPrepack(Span<const uint8_t> model) {
  const std::string_view bytes(reinterpret_cast<const char *>(model.data()), model.size());
  std::map<std::string_view, Matrix> matrices;
  std::map<std::string_view, Product> products; // a matrix that two nodes share counts once
  for (WireMessage part(bytes); part.next();) {
    if (part.number != field::ModelGraph)
      continue;
    for (WireMessage m(part.payload); m.next();) {
      if (m.number == field::GraphInitializer) {
        std::string_view name;
        const Matrix matrix = readMatrix(m.payload, name);
        matrices.emplace(name, matrix);
      } else if (m.number == field::GraphNode) {
        const Product product = readProduct(m.payload);
        products.emplace(product.weights, product);
      }
    }
  }
  double weights = 0, packed = 0; // no overflow, and exact for all that a file may hold
  for (const auto &[name, product] : products) {
    const auto found = matrices.find(name);
    if (found == matrices.end())
      continue;
    auto [rows, columns] = found->second;
    if (product.transposed)
      std::swap(rows, columns);
    const uint64_t padded = (columns + PanelColumns - 1) / PanelColumns * PanelColumns;
    weights += double(rows) * double(columns);
    packed += double(rows) * double(padded);
  }
  return weights >= double(FewestWeights) && packed <= 1.25 * weights;
}

} // namespace mlbridge::engine
