// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/onnx_format.h"

#include "engine/onnx_file.h"
#include "engine/wire.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace mlbridge::engine {
namespace {

/// Field numbers of onnx.proto.
namespace field {
constexpr uint32_t ModelGraph = 7, ModelFunctions = 25;
constexpr uint32_t GraphNode = 1, GraphOutput = 12, FunctionNode = 7;
constexpr uint32_t NodeInput = 1, NodeOutput = 2, NodeName = 3, NodeOperator = 4, NodeAttribute = 5;
constexpr uint32_t AttributeName = 1, AttributeTensor = 5, AttributeGraph = 6, AttributeGraphs = 11;
constexpr uint32_t AttributeType = 20;
constexpr uint32_t TensorShape = 1, TensorType = 2, TensorInt64s = 7;
constexpr uint32_t ValueName = 1, ValueType = 2, TypeTensor = 1, TensorTypeElement = 1;
} // namespace field

constexpr int DeepestGraph = 64;
constexpr uint64_t Int64 = 7, AttributeIsTensor = 4;
/// Opens the name of a node that fails in place of ONNX Runtime.
constexpr std::string_view Mark = "mlbridge.guard";
constexpr std::string_view Recurrent[] = {"GRU", "LSTM", "RNN", "DynamicQuantizeLSTM"};
/// Others that end the process if an input is empty.
constexpr std::string_view Fragile[] = {"ConvTranspose", "STFT"};

void putVarint(std::string &to, uint64_t value) {
  for (; value > 0x7f; value >>= 7)
    to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}
void putNumber(std::string &to, uint32_t number, uint64_t value) {
  putVarint(to, uint64_t(number) << 3 | WireMessage::Varint);
  putVarint(to, value);
}
void putBytes(std::string &to, uint32_t number, std::string_view bytes) {
  putVarint(to, uint64_t(number) << 3 | WireMessage::Bytes);
  putVarint(to, bytes.size());
  to.append(bytes);
}

std::string nodeOf(std::string_view op, const std::vector<std::string_view> &inputs,
                   std::string_view output, std::string_view name, std::string_view attribute) {
  std::string node;
  for (const std::string_view input : inputs)
    putBytes(node, field::NodeInput, input);
  putBytes(node, field::NodeOutput, output);
  putBytes(node, field::NodeName, name);
  putBytes(node, field::NodeOperator, op);
  if (!attribute.empty())
    putBytes(node, field::NodeAttribute, attribute);
  return node;
}

template <size_t N> bool isOneOf(std::string_view text, const std::string_view (&texts)[N]) {
  return std::find(std::begin(texts), std::end(texts), text) != std::end(texts);
}

bool isRecurrent(const onnx::Node &node) {
  return isOneOf(node.op, Recurrent) && (node.domain.empty() || node.domain == "com.microsoft");
}

bool isNeverEmpty(const onnx::ValueInfo &value) {
  return value.hasShape && std::all_of(value.shape.begin(), value.shape.end(),
                                       [](int64_t length) { return length > 0; });
}

/// "GRU 'encoder'": as it may stand in a message of ONNX Runtime, and be found there again.
std::string describe(const onnx::Node &node) {
  constexpr size_t Most = 80;
  std::string name(node.name);
  if (name.empty() && !node.outputs.empty())
    name = node.outputs[0];
  name.resize(std::min(name.size(), Most));
  for (char &c : name)
    if (c < ' ' || c == '\'' || c == '[' || c == ']')
      c = '_';
  return std::string(node.op) + " '" + name + "'";
}

/// Writes messages anew where a recurrent layer is in them; what has none is copied as it is.
class Guard {
public:
  std::optional<std::string> model(Span<const uint8_t> bytes) {
    const onnx::Model model = onnx::scanModel(bytes);
    for (const onnx::ValueInfo &input : model.graph.inputs)
      if (isNeverEmpty(input))
        neverEmpty_.insert(input.name);
    return rewritten(textOf(bytes), [this](const WireMessage &m, std::string &out) {
      if (m.number == field::ModelGraph)
        return replaced(m, nodes(m.payload, field::GraphNode, 0, true), out);
      if (m.number == field::ModelFunctions)
        return replaced(m, nodes(m.payload, field::FunctionNode, 0, false), out);
      return false;
    });
  }

private:
  /// `change` appends another field, or several, in the place of one and says so.
  template <typename F>
  std::optional<std::string> rewritten(std::string_view bytes, const F &change) {
    std::string out;
    size_t copied = 0;
    bool isChanged = false;
    for (WireMessage m(bytes); m.next();) {
      std::string fields;
      if (!change(m, fields))
        continue;
      const auto at = static_cast<size_t>(m.raw.data() - bytes.data());
      out.append(bytes.substr(copied, at - copied)).append(fields);
      copied = at + m.raw.size();
      isChanged = true;
    }
    if (!isChanged)
      return std::nullopt;
    out.append(bytes.substr(copied));
    return out;
  }
  static bool replaced(const WireMessage &m, const std::optional<std::string> &by,
                       std::string &out) {
    if (by)
      putBytes(out, m.number, *by);
    return by.has_value();
  }

  /// The nodes of a graph or function. `isMain`: its inputs are the model's.
  std::optional<std::string> nodes(std::string_view bytes, uint32_t number, int depth,
                                   bool isMain) {
    if (depth > DeepestGraph)
      return std::nullopt;
    return rewritten(bytes, [&](const WireMessage &m, std::string &out) {
      return m.number == number && m.type == WireMessage::Bytes &&
             node(m.payload, number, depth, isMain, out);
    });
  }

  bool node(std::string_view bytes, uint32_t number, int depth, bool isMain, std::string &out) {
    const onnx::Node layer = onnx::scanNode(bytes);
    const std::string_view input = layer.inputs.empty() ? "" : layer.inputs[0];
    const bool isGuarded =
        isRecurrent(layer) && !input.empty() && !(isMain && neverEmpty_.count(input) != 0);
    const std::string output = std::string(Mark) + "." + std::to_string(guards_) + ".x";
    bool isFirst = isGuarded;
    std::optional<std::string> own = rewritten(bytes, [&](const WireMessage &m,
                                                          std::string &fields) {
      if (m.number == field::NodeInput && isFirst) {
        isFirst = false;
        putBytes(fields, m.number, output);
        return true;
      }
      return m.number == field::NodeAttribute && replaced(m, attribute(m.payload, depth), fields);
    });
    if (!own)
      return false;
    if (isGuarded) {
      // Reshape to [0, 0, -1], which keeps the shape and can't where the first two lengths give 0.
      std::string tensor, attribute;
      putNumber(tensor, field::TensorShape, 3);
      putNumber(tensor, field::TensorType, Int64);
      for (const int64_t length : {0, 0, -1})
        putNumber(tensor, field::TensorInt64s, static_cast<uint64_t>(length));
      putBytes(attribute, field::AttributeName, "value");
      putBytes(attribute, field::AttributeTensor, tensor);
      putNumber(attribute, field::AttributeType, AttributeIsTensor);
      const std::string shape = std::string(Mark) + "." + std::to_string(guards_++) + ".shape";
      putBytes(out, number, nodeOf("Constant", {}, shape, shape, attribute));
      putBytes(out, number,
               nodeOf("Reshape", {input, shape}, output,
                      std::string(Mark) + "[" + describe(layer) + "]", {}));
    }
    putBytes(out, number, *own);
    return true;
  }

  std::optional<std::string> attribute(std::string_view bytes, int depth) {
    return rewritten(bytes, [&](const WireMessage &m, std::string &out) {
      return (m.number == field::AttributeGraph || m.number == field::AttributeGraphs) &&
             replaced(m, nodes(m.payload, field::GraphNode, depth + 1, false), out);
    });
  }

  std::set<std::string_view> neverEmpty_; ///< inputs of the main graph
  size_t guards_ = 0;
};

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
    facts.hasRecurrence |= isRecurrent(node);
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

std::optional<std::string> guardedModel(Span<const uint8_t> model) { return Guard().model(model); }

std::string guardFailure(std::string_view message) {
  const size_t at = message.find(std::string(Mark) + "[");
  const size_t end = at == message.npos ? at : message.find(']', at);
  if (end == message.npos)
    return {};
  const std::string_view node = message.substr(at + Mark.size() + 1, end - at - Mark.size() - 1);
  return std::string(node) +
         " got a sequence without steps or rows, with which ONNX Runtime would end the process; "
         "ask with at least one of each, or open the model with native:";
}

std::string emptyInput(std::string_view name) {
  return "the input '" + std::string(name) +
         "' has no elements, and the model has a GRU, LSTM, RNN, ConvTranspose or STFT, with which "
         "ONNX Runtime might end the process then; ask with at least one row and step";
}

std::string shapeProbeName(std::string_view value) {
  return std::string("mlbridge.shape.").append(value);
}

std::string shapeProbe(const std::vector<std::string> &values) {
  // Two fields of the same message are one: so these nodes and outputs join the model's graph.
  std::string tensor, type, graph, out;
  putNumber(tensor, field::TensorTypeElement, Int64);
  putBytes(type, field::TypeTensor, tensor);
  for (const std::string &value : values) {
    const std::string name = shapeProbeName(value);
    std::string output;
    putBytes(output, field::ValueName, name);
    putBytes(output, field::ValueType, type);
    putBytes(graph, field::GraphNode, nodeOf("Shape", {value}, name, name, {}));
    putBytes(graph, field::GraphOutput, output);
  }
  putBytes(out, field::ModelGraph, graph);
  return out;
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
  for (const onnx::Node &node : model.graph.nodes) {
    if ((node.op != "Gemm" && node.op != "MatMul") || node.inputs.size() < 2)
      continue;
    const auto at = matrices.find(node.inputs[1]);
    if (at == matrices.end() || !counted.insert(node.inputs[1]).second)
      continue;
    const onnx::Tensor &matrix = *at->second;
    if (matrix.shape.size() != 2 || fromOnnx(int64_t(matrix.type)) != ElementType::Float32)
      continue;
    const bool isTransposed =
        std::any_of(node.attributes.begin(), node.attributes.end(),
                    [](const onnx::Attribute &a) { return a.name == "transB" && a.integer != 0; });
    const auto rows = uint64_t(matrix.shape[isTransposed]);
    const auto columns = uint64_t(matrix.shape[!isTransposed]);
    if (rows > LongestSide || columns > LongestSide)
      continue;
    const uint64_t padded = (columns + PanelColumns - 1) / PanelColumns * PanelColumns;
    weights += double(rows) * double(columns);
    packed += double(rows) * double(padded);
  }
  return weights >= FewestWeights && packed <= MostPadded * weights;
}

} // namespace mlbridge::engine
