// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX file as it stands there: names, texts and weights are views into the file's bytes, which
// have to outlive it. Nothing is checked here but the encoding.
#ifndef MLBRIDGE_ENGINE_NATIVE_ONNX_MODEL_H
#define MLBRIDGE_ENGINE_NATIVE_ONNX_MODEL_H

#include "core/buffer.h"

#include <mlbridge/deadline.h>
#include <mlbridge/model.h>
#include <mlbridge/tensor.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mlbridge::native::onnx {

/// TensorProto.DataType. Those without a counterpart in ElementType are only named in errors.
enum class DataType : int32_t {};

/// Nothing for a type that no tensor here can have.
std::optional<ElementType> elementType(DataType type);
/// "FLOAT", "BFLOAT16", …
std::string name(DataType type);

struct Tensor {
  std::string_view name;
  DataType type = DataType(0);
  Shape shape;
  std::string_view message; ///< the whole TensorProto
};

struct Graph;

struct Attribute {
  std::string_view name;
  std::string_view reference; ///< of an attribute of the function that this node is in
  int type = 0;               ///< AttributeProto.AttributeType, 0 if not stated
  float real = 0;
  int64_t integer = 0;
  std::string_view text;
  std::unique_ptr<Tensor> tensor;
  std::shared_ptr<Graph> graph;
  std::vector<float> reals;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts;
};

struct Node {
  std::string_view name, op, domain;
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
  std::vector<ValueInfo> inputs, outputs;
};

using Opsets = std::map<std::string_view, int64_t>; ///< "" is ONNX's own

struct Function {
  std::string_view domain, name;
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
  std::map<std::pair<std::string_view, std::string_view>, size_t> functionsByName;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;

  /// Null if that is no function of the model.
  const Function *function(std::string_view domain, std::string_view name) const {
    const auto at = functionsByName.find({domain, name});
    return at == functionsByName.end() ? nullptr : &functions[at->second];
  }
};

/// All nodes, those of inner graphs included.
template <typename F> void eachNode(const std::vector<Node> &nodes, const F &body) {
  for (const Node &node : nodes) {
    body(node);
    for (const Attribute &attribute : node.attributes)
      if (attribute.graph)
        eachNode(attribute.graph->nodes, body);
  }
}
/// All weights, those of inner graphs and functions included.
template <typename F> void eachTensor(const Model &model, const F &body) {
  const auto inNode = [&](const Node &node) {
    for (const Attribute &attribute : node.attributes) {
      if (attribute.tensor)
        body(*attribute.tensor);
      if (attribute.graph)
        std::for_each(attribute.graph->initializers.begin(), attribute.graph->initializers.end(),
                      body);
    }
  };
  std::for_each(model.graph.initializers.begin(), model.graph.initializers.end(), body);
  eachNode(model.graph.nodes, inNode);
  for (const Function &function : model.functions)
    eachNode(function.nodes, inNode);
}

/// Unsupported if a tensor has more dimensions than the kernels have counters for.
Status checkDimensions(size_t count);

/// Errors: InvalidModel (not a ModelProto, damaged; the message says where), Unsupported (graphs
/// nested too deep, sparse weights, a tensor of too many dimensions), LimitExceeded,
/// DeadlineExceeded.
Expected<Model> readModel(Span<const uint8_t> bytes, const Deadline &deadline = {});
constexpr uint64_t ModelLimit = uint64_t(1) << 33; ///< bytes of a file

/// Puts nodes after those whose results they use, where they aren't, in inner graphs and functions
/// too. Errors: InvalidModel (a cycle; the message names a node of it), DeadlineExceeded.
Status sortNodes(Model &model, const Deadline &deadline);
/// "Gemm 'layer1'", or "Gemm that makes 'y'" where it has no name.
std::string describe(const Node &node);

/// What the file says of itself; some of it under names that ONNX Runtime's engine gives it, too.
Metadata metadataOf(const Model &model);

/// Files beside the model, each read once.
class ExternalFiles {
public:
  /// `folder` ends with a slash or is empty (no external data).
  explicit ExternalFiles(std::string folder, const Deadline &deadline = {})
      : folder_(std::move(folder)), deadline_(deadline) {}
  uint64_t size() const { return size_; } ///< bytes of those that were read
  /// Errors: those of readFile, InvalidModel (outside the folder, beyond the end).
  Expected<std::string_view> get(std::string_view location, uint64_t offset,
                                 std::optional<uint64_t> length, uint64_t wanted);

private:
  std::string folder_;
  Deadline deadline_;
  uint64_t size_ = 0;
  std::map<std::string, Buffer, std::less<>> files_;
};

/// The file beside the model in which the elements are; empty if they are in the model.
std::string_view externalFile(const Tensor &tensor);
/// Reads the file in which the elements are, if they have one. Errors: those of readElements.
Status readExternal(const Tensor &tensor, ExternalFiles &files);

/// The tensor's elements, row-major, into memory of their own. `count` bounds the elements before
/// anything is allocated. Errors: InvalidModel (the size doesn't fit the shape), Unsupported (the
/// type), LimitExceeded.
Expected<Buffer> readElements(const Tensor &tensor, ExternalFiles &files);

} // namespace mlbridge::native::onnx

#endif
