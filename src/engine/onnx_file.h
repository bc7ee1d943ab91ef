// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX file as it stands there: names, texts and weights are views into the file's bytes, which
// have to outlive it.
#ifndef MLBRIDGE_ENGINE_ONNX_FILE_H
#define MLBRIDGE_ENGINE_ONNX_FILE_H

#include "core/buffer.h"

#include <mlbridge/deadline.h>
#include <mlbridge/tensor.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace mlbridge::engine::onnx {

/// TensorProto.DataType. Those without a counterpart in ElementType are only named in errors.
enum class DataType : int32_t {};

struct Tensor {
  std::string_view name;
  DataType type = DataType(0);
  Shape shape;
  std::string_view message; ///< the whole TensorProto
};

struct Graph;

struct Attribute {
  std::string_view name;
  std::string_view reference; ///< to an attribute of the function that this node is in
  int type = 0;               ///< AttributeProto.AttributeType, 0 if not stated
  float real = 0;
  int64_t integer = 0;
  std::string_view text;
  std::unique_ptr<Tensor> tensor;
  std::shared_ptr<Graph> graph;
  std::vector<float> reals;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts;
  std::vector<Tensor> tensors; ///< only of scanModel; the parts of sparse ones among them
  std::vector<std::shared_ptr<Graph>> graphs; ///< only of scanModel
};

struct Node {
  std::string_view name, op, domain;
  std::string_view overload; ///< of the function that op names
  std::vector<std::string_view> inputs, outputs;
  std::vector<Attribute> attributes;
};

struct ValueInfo {
  std::string_view name;
  bool isTensor = false;
  DataType type = DataType(0);
  bool hasShape = false;
  Shape shape;                              ///< Dynamic where no number stands
  std::vector<std::string_view> dimensions; ///< their names, empty where there is none
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<Tensor> sparse; ///< only of scanModel: the parts of sparse initializers
  std::vector<ValueInfo> inputs, outputs;
  std::vector<ValueInfo> between; ///< only of scanModel: values that are neither
};

using Opsets = std::map<std::string_view, int64_t>; ///< "" is ONNX's own

struct Function {
  std::string_view domain, name, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<Node> nodes;
  std::vector<Attribute> defaults;
  Opsets opsets;
};

struct Model {
  int64_t irVersion = 0;
  std::string_view producer, domain, description;
  Opsets opsets;
  Graph graph;
  std::vector<Function> functions;
  using FunctionName = std::tuple<std::string_view, std::string_view, std::string_view>;
  std::map<FunctionName, size_t> functionsByName; ///< domain, name and overload
  std::vector<std::pair<std::string_view, std::string_view>> metadata;

  /// Null if the node calls no function of the model.
  const Function *function(const Node &node) const {
    const auto at = functionsByName.find({node.domain, node.op, node.overload});
    return at == functionsByName.end() ? nullptr : &functions[at->second];
  }
};

/// The graphs of one attribute.
template <typename F> void eachGraph(const Attribute &attribute, const F &body) {
  if (attribute.graph)
    body(*attribute.graph);
  for (const std::shared_ptr<Graph> &graph : attribute.graphs)
    body(*graph);
}
/// All nodes, those of inner graphs included.
template <typename F> void eachNode(const std::vector<Node> &nodes, const F &body) {
  for (const Node &node : nodes) {
    body(node);
    for (const Attribute &attribute : node.attributes)
      eachGraph(attribute, [&](const Graph &graph) { eachNode(graph.nodes, body); });
  }
}
/// All nodes, those of functions included, each with its operator sets: body(node, opsets).
template <typename F> void eachNode(const Model &model, const F &body) {
  const auto with = [&](const Opsets &opsets) {
    return [&](const Node &node) { body(node, opsets); };
  };
  eachNode(model.graph.nodes, with(model.opsets));
  for (const Function &function : model.functions)
    eachNode(function.nodes, with(function.opsets));
}
/// All weights, those of inner graphs included.
template <typename F> void eachTensor(const std::vector<Attribute> &attributes, const F &body) {
  for (const Attribute &attribute : attributes) {
    if (attribute.tensor)
      body(*attribute.tensor);
    for (const Tensor &tensor : attribute.tensors)
      body(tensor);
    eachGraph(attribute, [&](const Graph &graph) { eachTensor(graph, body); });
  }
}
template <typename F> void eachTensor(const Graph &graph, const F &body) {
  for (const std::vector<Tensor> *tensors : {&graph.initializers, &graph.sparse})
    for (const Tensor &tensor : *tensors)
      body(tensor);
  for (const Node &node : graph.nodes)
    eachTensor(node.attributes, body);
}
/// All weights, those of functions included.
template <typename F> void eachTensor(const Model &model, const F &body) {
  eachTensor(model.graph, body);
  for (const Function &function : model.functions) {
    eachTensor(function.defaults, body);
    for (const Node &node : function.nodes)
      eachTensor(node.attributes, body);
  }
}

/// The most dimensions that a tensor of readModel's can have.
constexpr size_t MostDimensions = 24;
/// Unsupported if a tensor has more.
Status checkDimensions(size_t count);

/// Reads a model for an engine that runs it itself. Errors: InvalidModel (not a ModelProto,
/// damaged; the message says where), Unsupported (graphs nested too deep, sparse weights, a tensor
/// of too many dimensions), LimitExceeded, DeadlineExceeded.
Expected<Model> readModel(Span<const uint8_t> bytes, const Deadline &deadline = {});
/// Reads a model for ONNX Runtime, which reports what is wrong: everything up to damaged bytes or
/// to graphs that are nested too deep even for it.
Model scanModel(Span<const uint8_t> bytes);
/// Reads one NodeProto in the same way.
Node scanNode(std::string_view message);

/// Inputs that are weights as well, which are their defaults.
std::vector<std::string> defaultsOf(const Model &model);

/// The place of a tensor's elements if they are raw bytes: in the message or in a file beside the
/// model.
struct Place {
  bool isExternal = false, hasRaw = false;
  std::string_view raw;      ///< unless it is external
  std::string_view location; ///< the name of the file
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  bool isReadable = true; ///< false: offset or length is no number
};
Place placeOf(const Tensor &tensor);

} // namespace mlbridge::engine::onnx

#endif
