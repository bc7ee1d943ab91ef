// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/onnx_guards.h"

#include "engine/onnx_file.h"
#include "engine/wire.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace mlbridge::engine {
namespace {

/// Field numbers of onnx.proto.
namespace field {
constexpr uint32_t ModelGraph = 7, ModelFunctions = 25;
constexpr uint32_t GraphNode = 1, GraphOutput = 12, FunctionNode = 7;
constexpr uint32_t NodeInput = 1, NodeOutput = 2, NodeName = 3, NodeOperator = 4, NodeAttribute = 5;
constexpr uint32_t AttributeName = 1, AttributeInteger = 3, AttributeTensor = 5;
constexpr uint32_t AttributeGraph = 6, AttributeGraphs = 11, AttributeType = 20;
constexpr uint32_t TensorShape = 1, TensorType = 2, TensorInt32s = 5, TensorInt64s = 7;
constexpr uint32_t TensorRaw = 9;
constexpr uint32_t ValueName = 1, ValueType = 2, TypeTensor = 1, TensorTypeElement = 1;
} // namespace field

constexpr int DeepestGraph = 64;
constexpr uint64_t AttributeIsInteger = 2, AttributeIsTensor = 4;
constexpr auto Int32 = onnx::DataType(6), Int64 = onnx::DataType(7);
/// Opens the name of a node that fails in place of ONNX Runtime.
constexpr std::string_view Mark = "mlbridge.guard";

/// The operators whose first result has the type of their first input.
// clang-format off
constexpr std::string_view KeepsType[] = {
    "Abs", "Add", "Clip", "Compress", "Concat", "CumSum", "Div", "Expand", "Flatten", "Gather",
    "GatherElements", "GatherND", "Identity", "Max", "Min", "Mod", "Mul", "Neg", "Pad", "Range",
    "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "ScatterElements",
    "ScatterND", "Sign", "Slice", "Split", "Squeeze", "Sub", "Sum", "Tile", "TopK", "Transpose",
    "Trilu", "Unsqueeze"};
// clang-format on
constexpr std::string_view GivesInt64[] = {"ArgMax", "ArgMin", "NonZero", "Shape", "Size"};
constexpr int64_t FirstWhere = 9; ///< the operator set that has the operator

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

std::string nodeOf(std::string_view op, const std::vector<std::string> &inputs,
                   std::string_view output, std::string_view name, std::string_view attribute) {
  std::string node;
  for (const std::string &input : inputs)
    putBytes(node, field::NodeInput, input);
  putBytes(node, field::NodeOutput, output);
  putBytes(node, field::NodeName, name);
  putBytes(node, field::NodeOperator, op);
  if (!attribute.empty())
    putBytes(node, field::NodeAttribute, attribute);
  return node;
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

bool isDivision(const onnx::Node &node) {
  return node.domain.empty() && (node.op == "Div" || node.op == "Mod");
}
bool isStft(const onnx::Node &node) { return node.domain.empty() && node.op == "STFT"; }

/// True if each element is in the file and is one of int32 or int64 for which `is` holds.
template <typename F> bool all(const onnx::Tensor &tensor, const F &is) {
  const bool isWide = tensor.type == Int64;
  if (!isWide && tensor.type != Int32)
    return false;
  size_t count = 0;
  bool hold = true;
  const auto look = [&](uint64_t bits) {
    hold = hold && is(isWide ? static_cast<int64_t>(bits) : static_cast<int32_t>(bits));
    ++count;
  };
  for (WireMessage m(tensor.message); m.next();) {
    std::string_view rest = m.payload;
    uint64_t value = 0;
    if (m.number == field::TensorRaw)
      for (const size_t width = isWide ? 8 : 4; rest.size() >= width; rest.remove_prefix(width)) {
        std::memcpy(&value, rest.data(), width);
        look(value);
      }
    else if (m.number == (isWide ? field::TensorInt64s : field::TensorInt32s)) {
      if (m.type == WireMessage::Varint)
        look(m.value);
      while (!rest.empty() && WireMessage::takeVarint(rest, value))
        look(value);
    }
  }
  return hold && count == elementCount(tensor.shape);
}

/// What the file says of the values of a graph, those of inner graphs included, or of a function.
class Values {
public:
  Values(const onnx::Graph &graph, const onnx::Opsets &opsets) : opsets_(opsets) { define(graph); }
  explicit Values(const onnx::Function &function) : opsets_(function.opsets) {
    define(function.nodes);
  }

  int64_t opset() const {
    const auto own = opsets_.find("");
    return own == opsets_.end() ? 0 : own->second;
  }
  /// 0 if that isn't known.
  onnx::DataType typeOf(std::string_view name) const { return find(name).type; }
  /// Null for what is computed.
  const onnx::Tensor *constant(std::string_view name) const { return find(name).constant; }

private:
  struct Known {
    onnx::DataType type = onnx::DataType();
    const onnx::Tensor *constant = nullptr;
    size_t definitions = 0;
  };

  // Graphs beside each other may give one name to different values.
  Known find(std::string_view name) const {
    const auto at = known_.find(name);
    return at == known_.end() || at->second.definitions != 1 ? Known() : at->second;
  }
  void define(std::string_view name, onnx::DataType type, const onnx::Tensor *constant = nullptr) {
    Known &known = known_[name];
    ++known.definitions;
    known.constant = constant;
    if (type != onnx::DataType())
      known.type = type;
  }
  void define(const onnx::Graph &graph) {
    std::set<std::string_view> inputs;
    for (const onnx::ValueInfo &input : graph.inputs)
      if (inputs.insert(input.name).second)
        define(input.name, input.type);
    for (const auto *values : {&graph.outputs, &graph.between})
      for (const onnx::ValueInfo &value : *values)
        known_[value.name].type = value.type;
    for (const onnx::Tensor &tensor : graph.initializers)
      if (inputs.count(tensor.name) == 0)
        define(tensor.name, tensor.type, &tensor);
      else
        known_[tensor.name].constant = &tensor;
    define(graph.nodes);
  }
  void define(const std::vector<onnx::Node> &nodes) {
    for (const onnx::Node &node : nodes) {
      for (const onnx::Attribute &attribute : node.attributes)
        onnx::eachGraph(attribute, [this](const onnx::Graph &graph) { define(graph); });
      for (size_t i = 0; i < node.outputs.size(); ++i)
        define(node.outputs[i], i == 0 ? resultOf(node) : onnx::DataType(), constantOf(node));
    }
  }
  static const onnx::Attribute *attribute(const onnx::Node &node, std::string_view name) {
    for (const onnx::Attribute &attribute : node.attributes)
      if (attribute.name == name)
        return &attribute;
    return nullptr;
  }
  static const onnx::Tensor *constantOf(const onnx::Node &node) {
    const onnx::Attribute *const value = attribute(node, "value");
    return node.op == "Constant" && value ? value->tensor.get() : nullptr;
  }
  onnx::DataType resultOf(const onnx::Node &node) const {
    if (!node.domain.empty())
      return {};
    if (const onnx::Attribute *const value = attribute(node, "value"); value && value->tensor)
      return value->tensor->type; // Constant, ConstantOfShape
    if (const onnx::Attribute *const to = attribute(node, "to"); to && node.op == "Cast")
      return onnx::DataType(to->integer);
    if (isOneOf(node.op, GivesInt64))
      return Int64;
    const size_t like = node.op == "Where" ? 1 : 0;
    const bool isLike = like != 0 || isOneOf(node.op, KeepsType);
    return isLike && like < node.inputs.size() ? typeOf(node.inputs[like]) : onnx::DataType();
  }

  const onnx::Opsets &opsets_;
  std::map<std::string_view, Known> known_;
};

/// The nodes of one guard, as fields of a graph or function.
class GuardNodes {
public:
  GuardNodes(uint32_t field, size_t guard)
      : field_(field), prefix_(std::string(Mark) + "." + std::to_string(guard) + ".") {}

  /// The name of the result.
  std::string add(std::string_view op, const std::vector<std::string> &inputs,
                  std::string_view attribute = {}, std::string_view name = {}) {
    std::string output = prefix_ + std::to_string(count_++);
    putBytes(text, field_,
             nodeOf(op, inputs, output, name.empty() ? std::string_view(output) : name, attribute));
    return output;
  }
  std::string constant(onnx::DataType type, const Shape &shape,
                       std::initializer_list<int64_t> values) {
    std::string tensor, attribute;
    for (const int64_t length : shape)
      putNumber(tensor, field::TensorShape, static_cast<uint64_t>(length));
    putNumber(tensor, field::TensorType, static_cast<uint64_t>(type));
    for (const int64_t value : values)
      putNumber(tensor, type == Int64 ? field::TensorInt64s : field::TensorInt32s,
                static_cast<uint64_t>(value));
    putBytes(attribute, field::AttributeName, "value");
    putBytes(attribute, field::AttributeTensor, tensor);
    putNumber(attribute, field::AttributeType, AttributeIsTensor);
    return add("Constant", {}, attribute);
  }
  std::string asInt64(const std::string &value) {
    return add("Cast", {value}, integer("to", static_cast<uint64_t>(Int64)));
  }
  /// A 1 of the type, unless `count` isn't 0: Gather fails then, in the name of the node.
  std::string unitUnless(const std::string &count, onnx::DataType type, const onnx::Node &node) {
    return add("Gather", {constant(type, {1}, {1}), count}, {},
               std::string(Mark) + "[" + describe(node) + "]");
  }
  static std::string integer(std::string_view name, uint64_t value) {
    std::string attribute;
    putBytes(attribute, field::AttributeName, name);
    putNumber(attribute, field::AttributeInteger, value);
    putNumber(attribute, field::AttributeType, AttributeIsInteger);
    return attribute;
  }

  std::string text;

private:
  const uint32_t field_;
  const std::string prefix_;
  size_t count_ = 0;
};

/// Writes messages anew where a node is to be guarded; what has none is copied as it is.
class Guard {
public:
  std::optional<std::string> model(Span<const uint8_t> bytes) {
    const onnx::Model model = onnx::scanModel(bytes);
    const Values graph(model.graph, model.opsets);
    for (const onnx::ValueInfo &input : model.graph.inputs)
      if (isNeverEmpty(input))
        neverEmpty_.insert(input.name);
    size_t function = 0;
    return rewritten(textOf(bytes), [&](const WireMessage &m, std::string &out) {
      if (m.number == field::ModelGraph)
        return replaced(m, nodes(m.payload, {field::GraphNode, 0, true, graph}), out);
      if (m.number == field::ModelFunctions && function < model.functions.size()) {
        const Values own(model.functions[function++]);
        return replaced(m, nodes(m.payload, {field::FunctionNode, 0, false, own}), out);
      }
      return false;
    });
  }

private:
  /// Where nodes are.
  struct Place {
    uint32_t field; ///< that they are
    int depth;
    bool isMain; ///< the inputs are the model's
    const Values &values;
  };
  /// The inputs of a node that are results of its guard.
  using Replaced = std::map<size_t, std::string>;

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

  std::optional<std::string> nodes(std::string_view bytes, const Place &place) {
    if (place.depth > DeepestGraph)
      return std::nullopt;
    return rewritten(bytes, [&](const WireMessage &m, std::string &out) {
      return m.number == place.field && m.type == WireMessage::Bytes && node(m.payload, place, out);
    });
  }

  bool node(std::string_view bytes, const Place &place, std::string &out) {
    const onnx::Node node = onnx::scanNode(bytes);
    GuardNodes guard(place.field, guards_);
    Replaced inputs;
    if (isRecurrent(node))
      guardLayer(node, place, guard, inputs);
    else if (isDivision(node))
      guardDivision(node, place.values, guard, inputs);
    else if (isStft(node))
      guardFrames(node, place.values, guard, inputs);
    guards_ += !inputs.empty();
    size_t input = 0;
    const std::optional<std::string> own = rewritten(bytes, [&](const WireMessage &m,
                                                                std::string &fields) {
      if (m.number != field::NodeInput)
        return m.number == field::NodeAttribute && replaced(m, attribute(m.payload, place), fields);
      const auto by = inputs.find(input++);
      if (by != inputs.end())
        putBytes(fields, m.number, by->second);
      return by != inputs.end();
    });
    if (!own)
      return false;
    out += guard.text;
    putBytes(out, place.field, *own);
    return true;
  }

  void guardLayer(const onnx::Node &node, const Place &place, GuardNodes &guard,
                  Replaced &inputs) const {
    if (node.inputs.empty() || node.inputs[0].empty() ||
        (place.isMain && neverEmpty_.count(node.inputs[0]) != 0))
      return;
    // [0, 0, -1] keeps the shape, and Reshape can't where the first two lengths give 0.
    inputs[0] =
        guard.add("Reshape", {std::string(node.inputs[0]), guard.constant(Int64, {3}, {0, 0, -1})},
                  {}, std::string(Mark) + "[" + describe(node) + "]");
  }

  static void guardDivision(const onnx::Node &node, const Values &values, GuardNodes &guard,
                            Replaced &inputs) {
    if (node.inputs.size() != 2 || values.opset() < FirstWhere)
      return;
    const std::string a(node.inputs[0]), b(node.inputs[1]);
    const onnx::DataType type = std::max(values.typeOf(a), values.typeOf(b));
    const onnx::Tensor *const divisor = values.constant(b);
    if ((type != Int32 && type != Int64) ||
        (divisor && all(*divisor, [](int64_t value) { return value != 0 && value != -1; })))
      return;
    const std::string areZero = guard.add("Equal", {b, guard.constant(type, {}, {0})});
    const std::string zeros =
        guard.add("ReduceSum", {guard.asInt64(areZero)}, GuardNodes::integer("keepdims", 0));
    const std::string unit = guard.unitUnless(zeros, type, node);
    // By −1 is to divide the negative by 1.
    const std::string isMinus = guard.add("Equal", {b, guard.constant(type, {}, {-1})});
    inputs[0] = guard.add("Where", {isMinus, guard.add("Neg", {a}), a});
    inputs[1] = guard.add("Where", {isMinus, unit, b});
  }

  static void guardFrames(const onnx::Node &node, const Values &values, GuardNodes &guard,
                          Replaced &inputs) {
    constexpr size_t Step = 1, Window = 2, Length = 3;
    const auto input = [&node](size_t i) {
      return i < node.inputs.size() ? std::string(node.inputs[i]) : std::string();
    };
    const bool isStated = !input(Length).empty();
    const std::string from = input(isStated ? Length : Window);
    const onnx::Tensor *const constant = values.constant(from);
    if (from.empty() || (constant && (isStated ? all(*constant, [](int64_t n) { return n > 0; })
                                               : elementCount(constant->shape).value_or(0) > 0)))
      return;
    const std::string length = isStated ? guard.asInt64(from) : guard.add("Size", {from});
    const std::string isNone = guard.add("Less", {length, guard.constant(Int64, {}, {1})});
    const std::string unit = guard.unitUnless(guard.asInt64(isNone), Int64, node);
    inputs[Step] = guard.add("Mul", {input(Step), guard.add("CastLike", {unit, input(Step)})});
  }

  std::optional<std::string> attribute(std::string_view bytes, const Place &place) {
    return rewritten(bytes, [&](const WireMessage &m, std::string &out) {
      return (m.number == field::AttributeGraph || m.number == field::AttributeGraphs) &&
             replaced(m, nodes(m.payload, {field::GraphNode, place.depth + 1, false, place.values}),
                      out);
    });
  }

  std::set<std::string_view> neverEmpty_; ///< inputs of the main graph
  size_t guards_ = 0;
};

} // namespace

std::optional<std::string> guardedModel(Span<const uint8_t> model) { return Guard().model(model); }

bool isHazard(const onnx::Node &node) {
  return isRecurrent(node) || isDivision(node) || isStft(node);
}

std::string guardFailure(std::string_view message) {
  const size_t at = message.find(std::string(Mark) + "[");
  const size_t end = at == message.npos ? at : message.find(']', at);
  if (end == message.npos)
    return {};
  const std::string_view node = message.substr(at + Mark.size() + 1, end - at - Mark.size() - 1);
  const auto is = [node](std::string_view op) { return node.substr(0, op.size()) == op; };
  return std::string(node) +
         (is("Div ") || is("Mod ") ? " divides an integer by 0, for which native: answers 0"
          : is("STFT ")
              ? " got a frame length below 1, with which ONNX Runtime would end the process"
              : " got a sequence without steps or rows, with which ONNX Runtime would "
                "end the process; ask with at least one of each, or open the model with "
                "native:");
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
  putNumber(tensor, field::TensorTypeElement, static_cast<uint64_t>(Int64));
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

/// The end of the function's name or signature that follows a file's in a message, as in
/// "element_wise_ops.cc:703 Compute Integer division by zero". `at`: after the colon. npos if no
/// line and function are there.
static size_t endOfFunction(std::string_view text, size_t at) {
  constexpr std::string_view Types[] = {"auto", "bool",   "const",   "constexpr", "inline",
                                        "int",  "static", "virtual", "void"};
  const size_t number = text.find_first_not_of("0123456789", at);
  if (number == text.npos || number == at || text[number] != ' ')
    return text.npos;
  const size_t function = number + 1;
  size_t end = std::min(text.find(' ', function), text.size());
  const std::string_view word = text.substr(function, end - function);
  const size_t arguments = text.find('(', function);
  if (arguments == text.npos || (word.find("::") == word.npos && !isOneOf(word, Types)))
    return end;
  const auto skip = [&](char open, char close) {
    int depth = 0;
    for (bool isIn = true; isIn && end < text.size(); isIn = depth > 0, ++end)
      depth += (text[end] == open) - (text[end] == close);
  };
  for (end = arguments; end < text.size() && text[end] == '('; end += text.substr(end, 1) == ">")
    skip('(', ')');
  if (text.substr(end, 6) == " const")
    end += 6;
  if (text.substr(end, 7) == " [with ") {
    ++end;
    skip('[', ']');
  }
  return end;
}

std::string plainMessage(std::string_view message) {
  std::string text(message.substr(0, message.find('\n')));
  constexpr std::string_view Kind = "[ONNXRuntimeError] : ",
                             Colon = " : "; // number and name follow
  for (size_t at = 0; (at = text.find(Kind, at)) != text.npos;) {
    const size_t name = text.find(Colon, at + Kind.size());
    const size_t end = name == text.npos ? name : text.find(Colon, name + Colon.size());
    text.erase(at, end == text.npos ? Kind.size() : end + Colon.size() - at);
  }
  for (const std::string_view file : {".cc:", ".h:", ".hpp:"})
    for (size_t at = 0; (at = text.find(file, at)) != text.npos;) {
      const size_t end = endOfFunction(text, at += file.size());
      if (end == text.npos)
        continue;
      const size_t word = text.rfind(' ', at) + 1, path = text.rfind("/onnxruntime_src/", at);
      const size_t begin = path == text.npos ? word : std::max(word, path);
      text.erase(begin, std::min(text.find_first_not_of(' ', end), text.size()) - begin);
      at = begin;
    }
  constexpr std::string_view Ran = "Non-zero status code returned while running ",
                             Named = " node. Name:'", Says = "' Status Message: ";
  const size_t at = text.find(Ran), name = text.find(Named, at), says = text.find(Says, name);
  if (says != text.npos) {
    const bool isNamed = says > name + Named.size();
    text.replace(says, Says.size(), isNamed ? "': " : ": ");
    text.replace(name, Named.size(), isNamed ? " '" : "");
    text.erase(at, Ran.size());
  }
  text.erase(text.find_last_not_of(". ") + 1);
  return text;
}

} // namespace mlbridge::engine
