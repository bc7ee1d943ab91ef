// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/registry.h"

#include "core/message.h"

#include <algorithm>
#include <cctype>

namespace mlbridge::native {

bool isIn(ElementType type, uint16_t types) {
  constexpr uint16_t Sets[] = {0,     Ints,   Ints,   Ints,   Ints,  UInts, UInts, UInts,
                               UInts, Real16, Real32, Real64, Bools, 0,     Real16};
  const auto index = static_cast<size_t>(type);
  return index < std::size(Sets) && (Sets[index] & types) != 0;
}

const Operator *findOperator(std::string_view domain, std::string_view name, int64_t version) {
  const Operator *best = nullptr;
  const char initial = name.empty() ? '\0' : name.front(); // tells most rows apart
  const auto look = [&](std::initializer_list<const Span<const Operator> *> families) {
    for (const Span<const Operator> *family : families)
      for (const Operator &op : *family)
        if (op.name[0] == initial && name == op.name && op.first <= version &&
            (!best || op.first > best->first))
          best = &op;
  };
  if (domain.empty())
    look({&ElementwiseOperators, &MatrixOperators, &MovementOperators, &ReductionOperators,
          &ControlOperators, &ShapeOperators, &ConvolutionOperators, &PoolingOperators,
          &ResizeOperators, &AttentionOperators, &EinsumOperators, &LossOperators,
          &QuantizedOperators, &SignalOperators});
  else if (domain == "ai.onnx.ml")
    look({&ClassicalOperators, &TreeOperators});
  else if (domain == "com.microsoft")
    look({&FusedOperators, &RuntimeQuantizedOperators});
  else if (domain == "ai.onnx.preview")
    look({&PreviewOperators});
  return best;
}

Status unsupportedOperator(const onnx::Node &node, int64_t version) {
  std::string name(node.op), set = "opset " + std::to_string(version);
  if (!node.domain.empty()) {
    name = std::string(node.domain) + "." + name;
    set.append(" of ").append(node.domain);
  }
  std::string more;
  if (findOperator(node.domain, node.op, INT64_MAX)) {
    version = std::max<int64_t>(version, 0);
    while (!findOperator(node.domain, node.op, version))
      ++version;
    more = ", only from opset " + std::to_string(version) + " on";
  } else if (!node.domain.empty() && !isInOnnxRuntime(node)) {
    more = "; a library that has it is opened by onnx:FILE?custom_ops=LIBRARY";
  }
  return makeError(Code::Unsupported, "native does not run the operator ", name, " (", set, ")",
                   more);
}

bool isInOnnxRuntime(const onnx::Node &node) {
  if (!node.domain.empty())
    return node.domain == "ai.onnx.ml" || node.domain.substr(0, 13) == "com.microsoft";
  if (findOperator({}, node.op, INT64_MAX))
    return true;
  // The operators of version 1.32 (python/tests/onnx_test.py compares).
  constexpr std::string_view Others =
      " Bernoulli ConcatFromSequence DeformConv MaxRoiPool MelWeightMatrix Multinomial"
      " Optional OptionalGetElement OptionalHasElement RandomNormal"
      " RandomNormalLike RandomUniform RandomUniformLike RegexFullMatch RoiAlign SequenceAt"
      " SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap"
      " SplitToSequence StringConcat StringNormalizer StringSplit TfIdfVectorizer ";
  return Others.find(" " + std::string(node.op) + " ") != Others.npos;
}

Status checkAttributes(const Operator &op, const onnx::Node &node) {
  for (const onnx::Attribute &attribute : node.attributes) {
    if (attribute.name == "consumed_inputs") // a hint, until version 5
      continue;
    std::string_view known = op.attributes ? op.attributes : "";
    while (!known.empty() && known.substr(0, known.find(' ')) != attribute.name)
      known.remove_prefix(std::min(known.find(' '), known.size() - 1) + 1);
    if (known.empty())
      return makeError(Code::InvalidModel, "its attribute ", onnx::quoted(attribute.name),
                       " is none of the operator's");
  }
  return Status();
}

Status checkInputs(const Operator &op, const Values &inputs) {
  const std::string_view pattern = op.inputs;
  const bool repeats = !pattern.empty() && pattern.back() == '*';
  const size_t most = repeats ? pattern.size() - 1 : pattern.size();
  const auto where = [](size_t i) { return "its input " + std::to_string(i); };
  if (inputs.size() > most && !repeats)
    return makeError(Code::InvalidModel, "it has ", inputs.size(), " inputs; the operator takes ",
                     most);
  std::optional<ElementType> same, other;
  for (size_t i = 0; i < std::max(most, inputs.size()); ++i) {
    const char kind = pattern[std::min(i, most - 1)];
    const Value *value = i < inputs.size() ? inputs[i] : nullptr;
    if (!value) {
      if (kind >= 'a')
        continue;
      return makeError(Code::InvalidModel, where(i), " is missing");
    }
    const auto wrong = [&](const auto &...expected) {
      return makeError(Code::InvalidModel, where(i), " is ", name(value->type), " instead of ",
                       expected...);
    };
    switch (std::toupper(static_cast<unsigned char>(kind))) {
    case 'T':
      if (same && *same != value->type)
        return wrong("the ", name(*same), " of the one before");
      same = value->type;
      if (!isIn(value->type, op.types))
        return makeError(Code::Unsupported, where(i), " is ", name(value->type),
                         ", which native does not support for this operator");
      break;
    case 'U':
      if (other && *other != value->type)
        return wrong("the ", name(*other), " of the one before");
      other = value->type;
      break;
    case 'I':
      if (value->type != ElementType::Int32 && value->type != ElementType::Int64)
        return wrong("int32 or int64");
      break;
    case 'L':
      if (value->type != ElementType::Int64)
        return wrong("int64");
      break;
    case 'B':
      if (value->type != ElementType::Bool)
        return wrong("bool");
      break;
    default:
      break;
    }
  }
  return Status();
}

} // namespace mlbridge::native
