// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/onnx_format.h"

#include "engine/onnx_fields.h"
#include "engine/wire.h"

#include <algorithm>
#include <set>
#include <utility>

namespace mlbridge::engine {
namespace {

constexpr int DeepestGraph = 64;
constexpr uint64_t Int64 = 7, AttributeIsTensor = 4;
/// Opens the name of a node that fails in place of ONNX Runtime.
constexpr std::string_view Mark = "mlbridge.guard";
constexpr std::string_view Recurrent[] = {"GRU", "LSTM", "RNN", "DynamicQuantizeLSTM"};
/// Others that end the process if an input is empty.
constexpr std::string_view Fragile[] = {"ConvTranspose", "STFT"};

std::string_view textOf(Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

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

std::string nameOfTensor(std::string_view tensor) {
  for (WireMessage m(tensor); m.next();)
    if (m.number == field::TensorName)
      return std::string(m.payload);
  return {};
}

struct Value {
  std::string_view name;
  bool isTensor = false, hasShape = false, isNeverEmpty = true;
};

Value readValue(std::string_view bytes) {
  Value value;
  const auto readShape = [&value](std::string_view shape) {
    for (WireMessage d(shape); d.next();) {
      uint64_t length = 0;
      for (WireMessage m(d.payload); d.number == field::ShapeDimension && m.next();)
        if (m.number == field::DimensionValue)
          length = m.value;
      value.isNeverEmpty &= static_cast<int64_t>(length) > 0;
    }
  };
  for (WireMessage m(bytes); m.next();) {
    if (m.number == field::ValueName)
      value.name = m.payload;
    if (m.number != field::ValueType)
      continue;
    for (WireMessage type(m.payload); type.next();) {
      if (type.number != field::TypeTensor)
        continue;
      value.isTensor = true;
      for (WireMessage tensor(type.payload); tensor.next();)
        if (tensor.number == field::TensorTypeShape) {
          value.hasShape = true;
          readShape(tensor.payload);
        }
    }
  }
  value.isNeverEmpty &= value.hasShape;
  return value;
}

struct Node {
  std::string_view op, domain, name, input, output; ///< the first input and output
  bool isRecurrent() const {
    return std::find(std::begin(Recurrent), std::end(Recurrent), op) != std::end(Recurrent) &&
           (domain.empty() || domain == "ai.onnx" || domain == "com.microsoft");
  }
};

Node readNode(std::string_view bytes) {
  Node node;
  bool hasInput = false, hasOutput = false;
  for (WireMessage m(bytes); m.next();) {
    if (m.number == field::NodeInput && !std::exchange(hasInput, true))
      node.input = m.payload;
    else if (m.number == field::NodeOutput && !std::exchange(hasOutput, true))
      node.output = m.payload;
    else if (m.number == field::NodeName)
      node.name = m.payload;
    else if (m.number == field::NodeOperator)
      node.op = m.payload;
    else if (m.number == field::NodeDomain)
      node.domain = m.payload;
  }
  return node;
}

/// "GRU 'encoder'": as it may stand in a message of ONNX Runtime, and be found there again.
std::string describe(const Node &node) {
  constexpr size_t Most = 80;
  std::string name(node.name.empty() ? node.output : node.name);
  name.resize(std::min(name.size(), Most));
  for (char &c : name)
    if (c < ' ' || c == '\'' || c == '[' || c == ']')
      c = '_';
  return std::string(node.op) + " '" + name + "'";
}

/// Writes messages anew where a recurrent layer is in them; what has none is copied as it is.
class Guard {
public:
  std::optional<std::string> model(std::string_view bytes) {
    for (WireMessage m(bytes); m.next();)
      if (m.number == field::ModelGraph)
        for (WireMessage g(m.payload); g.next();)
          if (g.number == field::GraphInput)
            if (const Value value = readValue(g.payload); value.isNeverEmpty)
              neverEmpty_.insert(value.name);
    return rewritten(bytes, [this](const WireMessage &m, std::string &out) {
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
    const Node read = readNode(bytes);
    const bool isGuarded = read.isRecurrent() && !read.input.empty() &&
                           !(isMain && neverEmpty_.count(read.input) != 0);
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
               nodeOf("Reshape", {read.input, shape}, output,
                      std::string(Mark) + "[" + describe(read) + "]", {}));
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

/// Whether a flat buffer has one of the texts: after its length, and before a zero.
template <size_t N> bool mentions(std::string_view buffer, const std::string_view (&texts)[N]) {
  return std::any_of(std::begin(texts), std::end(texts), [buffer](std::string_view text) {
    std::string stored{static_cast<char>(text.size()), 0, 0, 0};
    stored.append(text).push_back('\0');
    return buffer.find(stored) != buffer.npos;
  });
}

/// Looks through the nodes of a graph or function, and of the graphs in it.
void readOperators(std::string_view bytes, uint32_t number, int depth, OnnxFacts &facts) {
  if (depth > DeepestGraph)
    return;
  for (WireMessage m(bytes); m.next();) {
    if (m.number != number)
      continue;
    const Node node = readNode(m.payload);
    facts.hasRecurrence |= node.isRecurrent();
    facts.isNeverEmpty |=
        std::find(std::begin(Fragile), std::end(Fragile), node.op) != std::end(Fragile);
    for (WireMessage a(m.payload); a.next();)
      for (WireMessage g(a.payload); a.number == field::NodeAttribute && g.next();)
        if (g.number == field::AttributeGraph || g.number == field::AttributeGraphs)
          readOperators(g.payload, field::GraphNode, depth + 1, facts);
  }
}

} // namespace

OnnxFacts factsOf(Span<const uint8_t> model) {
  OnnxFacts facts;
  if (isOrtFormat(model)) {
    facts.isNeverEmpty = mentions(textOf(model), Recurrent) || mentions(textOf(model), Fragile);
    return facts;
  }
  std::set<std::string, std::less<>> initializers;
  std::vector<Value> inputs;
  for (WireMessage part(textOf(model)); part.next();) {
    if (part.number == field::ModelFunctions)
      readOperators(part.payload, field::FunctionNode, 0, facts);
    if (part.number != field::ModelGraph)
      continue;
    readOperators(part.payload, field::GraphNode, 0, facts);
    for (WireMessage m(part.payload); m.next();) {
      if (m.number == field::GraphInitializer) {
        initializers.insert(nameOfTensor(m.payload));
      } else if (m.number == field::GraphSparseInitializer) {
        for (WireMessage sparse(m.payload); sparse.next();)
          if (sparse.number == field::SparseValues)
            initializers.insert(nameOfTensor(sparse.payload));
      } else if (m.number == field::GraphInput) {
        inputs.push_back(readValue(m.payload));
      } else if (m.number == field::GraphOutput) {
        if (const Value value = readValue(m.payload); !value.hasShape)
          facts.shapelessOutputs.emplace_back(value.name);
      }
    }
  }
  for (const Value &input : inputs) {
    if (initializers.find(input.name) != initializers.end())
      facts.defaults.emplace_back(input.name);
    else if (input.isTensor && !input.hasShape)
      facts.shapelessInputs.emplace_back(input.name);
  }
  return facts;
}

std::optional<std::string> guardedModel(Span<const uint8_t> model) {
  return Guard().model(textOf(model));
}

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

} // namespace mlbridge::engine
