// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs, names and nodes.
#include "engine/native/planner.h"

#include "core/message.h"
#include "engine/native/registry.h"

#include <algorithm>
#include <cstring>

namespace mlbridge::native {
namespace {

constexpr size_t MostNodes = size_t(1) << 16;
constexpr size_t MostSteps = size_t(1) << 17;
constexpr size_t MostValues = size_t(1) << 20;
constexpr size_t BetweenLooks = 256; ///< at the clock: one node may make very many values and steps
constexpr size_t MostCounted = size_t(1) << 22;
constexpr int DeepestCall = 64;
constexpr int IntegerAttribute = 2; // AttributeProto.AttributeType

} // namespace

Expected<SharedBytes> Weights::elements(const onnx::Tensor &tensor) {
  std::weak_ptr<const Buffer> &kept = elements_[&tensor];
  if (SharedBytes there = kept.lock())
    return there;
  Expected<Buffer> read = onnx::readElements(tensor, files_);
  if (!read)
    return read.status();
  auto bytes = std::make_shared<const Buffer>(std::move(*read));
  kept = bytes;
  return SharedBytes(std::move(bytes));
}

const Status &Planner::fail(Status why) {
  if (status_ && !why)
    status_ = std::move(why);
  return status_;
}

/// The lengths' product, zeros left out: the strides of an empty tensor are numbers as well.
static std::optional<size_t> extent(Shape shape) {
  std::replace(shape.begin(), shape.end(), int64_t{0}, int64_t{1});
  return elementCount(shape);
}

Expected<SharedBytes> Planner::elements(const onnx::Tensor &tensor) {
  // Memory is slow when it is new, and given back.
  const std::optional<ElementType> type = onnx::elementType(tensor.type);
  if (type && !hasTimeFor(elementCount(tensor.shape).value_or(0) * sizeOf(*type)))
    return status_;
  return weights_.elements(tensor);
}

Value *Planner::make(ElementType type, const Shape &shape) {
  Value &v = values_.emplace_back();
  v.id = static_cast<uint32_t>(values_.size() - 1);
  v.type = type;
  v.shape = shape;
  const std::optional<size_t> count = elementCount(shape), all = extent(shape);
  if (Status s = onnx::checkDimensions(shape.size()); !s)
    fail(std::move(s));
  else if (values_.size() > MostValues)
    fail(makeError(Code::LimitExceeded, "the network takes more than ", MostValues, " tensors"));
  else if (!count || *count > (limits_.memory + weights_.size()) / sizeOf(type) || !all)
    fail(
        makeError(Code::LimitExceeded, "a tensor of the shape ", toString(shape), " is too large"));
  else
    v.count = *count;
  if (values_.size() % BetweenLooks == 0)
    (void)isLate();
  if (!status_)
    v.shape.assign(shape.size(), 0); // nothing is computed with it until the failure is seen
  v.capacity = v.count * sizeOf(type);
  return &v;
}

Value *Planner::view(Value *value, const Shape &shape, uint64_t offset) {
  Value *v = make(value->type, shape);
  v->root = value->root;
  v->offset = value->offset + offset;
  v->producer = value->producer;
  v->isUnknown = value->isUnknown;
  return v;
}

Value *Planner::unknown() {
  Value *v = make(ElementType::Bool, {});
  v->isUnknown = true;
  return v;
}

Value *Planner::constant(ElementType type, const Shape &shape, SharedBytes bytes) {
  Value *v = make(type, shape);
  v->place = Place::Constant;
  v->constant = std::move(bytes);
  return v;
}

Value *Planner::fault() {
  Value *v = make(ElementType::Int64, {});
  faults_.push_back(v);
  return v;
}

void Planner::emit(KernelId kernel, const Values &results, const Values &reads,
                   const Integers &parameters) {
  if (!status_)
    return;
  if (steps_.size() >= MostSteps) {
    fail(makeError(Code::LimitExceeded, "the network takes more than ", MostSteps, " steps"));
    return;
  }
  if (steps_.size() % BetweenLooks == 0 && isLate())
    return;
  Draft draft;
  draft.kernel = kernel;
  draft.node = static_cast<uint32_t>(nodes_.size() - 1);
  draft.results = static_cast<uint32_t>(results.size());
  draft.block = blocks_.empty() ? 0 : blocks_.back();
  draft.operands = results;
  draft.operands.insert(draft.operands.end(), reads.begin(), reads.end());
  draft.parameters = parameters;
  for (Value *result : results)
    if (result)
      result->producer = result->root->producer = static_cast<int>(steps_.size());
  steps_.push_back(std::move(draft));
}

void Planner::mark(Step::Kind kind, std::initializer_list<Value *> operands) {
  if (!status_)
    return;
  Draft draft;
  draft.kind = kind;
  draft.node = static_cast<uint32_t>(nodes_.size() - 1);
  draft.operands = operands;
  if (kind == Step::Kind::If || kind == Step::Kind::Loop)
    blocks_.push_back(++nextBlock_);
  else if (kind == Step::Kind::Else)
    blocks_.back() = ++nextBlock_;
  else
    blocks_.pop_back();
  steps_.push_back(std::move(draft));
}

void Planner::countMultiplyAdds(uint64_t count) {
  multiplyAdds_ += count;
  if (status_ && !steps_.empty()) // nothing may have to be computed
    steps_.back().multiplyAdds += count;
}

Planner::Draft *Planner::onlyProducer(Value *value) {
  if (value->uses != 1 || value->root != value || value->producer < 0 ||
      value->place != Place::Workspace)
    return nullptr;
  Draft &draft = steps_[static_cast<size_t>(value->producer)];
  const uint32_t block = blocks_.empty() ? 0 : blocks_.back();
  if (draft.kind != Step::Kind::Kernel || draft.block != block)
    return nullptr;
  return &draft;
}

// ---- names -------------------------------------------------------------------------------------

Status Planner::countUses(Scope &scope, const std::vector<onnx::Node> &nodes) {
  for (const onnx::Node &node : nodes)
    countUses(node, scope.uses);
  return status_;
}

void Planner::countUses(const onnx::Node &node, UseCounts &uses) {
  counted_ += 1 + node.inputs.size();
  if (counted_ > MostCounted)
    fail(makeError(Code::LimitExceeded, "the network has too many nodes"));
  else if (counted_ % 256 == 0)
    (void)isLate();
  if (!status_)
    return;
  for (std::string_view input : node.inputs)
    if (!input.empty())
      ++uses[input];
  for (const onnx::Attribute &attribute : node.attributes)
    if (attribute.graph)
      countUses(*attribute.graph, uses);
}

// Names of inner graphs that hide outer ones only make the count too high, which is harmless; what
// an inner graph uses counts twice, so that it is never taken for used once.
void Planner::countUses(const onnx::Graph &graph, UseCounts &uses) {
  UseCounts inner;
  for (const onnx::Node &node : graph.nodes)
    countUses(node, inner);
  for (const onnx::ValueInfo &output : graph.outputs)
    ++inner[output.name];
  for (const auto &[name, count] : inner)
    uses[name] += 2 * count;
}

Status Planner::define(Scope &scope, std::string_view name, Value *value) {
  const auto uses = scope.uses.find(name);
  value->uses += uses == scope.uses.end() ? 0 : uses->second;
  if (!scope.values.emplace(name, value).second || scope.initializers.count(name))
    return makeError(Code::InvalidModel, "the name ", onnx::quoted(name), " stands for two values");
  return Status();
}

Value *Planner::find(Scope &scope, std::string_view name) {
  for (Scope *s = &scope; s; s = s->function ? nullptr : s->parent) {
    if (const auto value = s->values.find(name); value != s->values.end())
      return value->second;
    const auto initializer = s->initializers.find(name);
    if (initializer == s->initializers.end())
      continue;
    const onnx::Tensor &tensor = *initializer->second;
    Expected<SharedBytes> bytes = elements(tensor);
    if (!bytes) {
      fail(bytes.status());
      return nullptr;
    }
    Value *value = constant(*onnx::elementType(tensor.type), tensor.shape, std::move(*bytes));
    value->initializer = &tensor;
    s->values.emplace(name, value);
    return value;
  }
  return nullptr;
}

Status Planner::addInitializers(const onnx::Graph &graph, Scope &scope) {
  for (const onnx::Tensor &tensor : graph.initializers) {
    if (!scope.initializers.emplace(tensor.name, &tensor).second)
      return makeError(Code::InvalidModel, "the weights ", onnx::quoted(tensor.name),
                       " occur twice");
    if (scope.parent && find(*scope.parent, tensor.name)) // ONNX Runtime takes those outside
      return makeError(Code::InvalidModel, "the weights ", onnx::quoted(tensor.name),
                       " of a subgraph have the name of a value of the outer graph");
  }
  return Status();
}

// ---- graphs ------------------------------------------------------------------------------------

Expected<SharedPlan> Planner::plan(const std::vector<TensorSpec> &inputs) {
  Scope scope;
  scope.opsets = &model_.opsets;
  const onnx::Graph &graph = model_.graph;
  NamedValues values;
  nodes_.emplace_back("the inputs");
  const onnx::ValueInfo *declared = graph.inputs.data();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value *value = make(inputs[i].type, inputs[i].shape);
    value->place = Place::Input;
    value->index = static_cast<uint32_t>(i);
    while (declared->name != inputs[i].name) // weights
      ++declared;
    if (onnx::elementType(declared->type) == BFloat16)
      value = asHalf(value, BFloat16);
    values.emplace_back(inputs[i].name, value);
  }
  Expected<Values> planned = planIn(scope, graph, values);
  if (!planned)
    return planned.status();
  stop_ = {planned_ + 1, true, {}, {}};
  if (!missing_.isEmpty())
    return missing_.status();
  Values results = std::move(*planned);
  std::vector<TensorSpec> outputs;
  if (!decisions_.empty())
    results = decisions_;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]->type == BFloat16 && decisions_.empty())
      results[i] = asHalf(results[i], ElementType::Float32);
    TensorSpec &spec = outputs.emplace_back();
    spec.name = decisions_.empty() ? std::string(graph.outputs[i].name) : std::to_string(i);
    spec.type = results[i]->type;
    spec.shape = results[i]->shape;
  }
  return finish(inputs, outputs, results);
}

Expected<Values> Planner::planGraph(const onnx::Graph &graph, const Values &inputs) {
  const NodeState outer = node_;
  const std::string node = nodes_.back();
  Expected<Values> results = planInner(graph, inputs);
  node_ = outer;
  node_.isWaiting = false;
  nodes_.push_back(node);
  if (!results)
    fail(results.status());
  return results;
}

Expected<Values> Planner::planInner(const onnx::Graph &graph, const Values &inputs) {
  if (graph.inputs.size() != inputs.size())
    return makeError(Code::InvalidModel, "the subgraph ", onnx::quoted(graph.name), " has ",
                     graph.inputs.size(), " inputs instead of ", inputs.size());
  if (++node_.depth > DeepestCall)
    return makeError(Code::Unsupported, "graphs are nested too deep");
  Scope scope;
  scope.parent = node_.scope;
  scope.opsets = node_.scope->opsets;
  NamedValues values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i]->uses += 2; // by the node outside too
    values.emplace_back(graph.inputs[i].name, inputs[i]);
  }
  return planIn(scope, graph, values);
}

Expected<Values> Planner::planIn(Scope &scope, const onnx::Graph &graph,
                                 const NamedValues &inputs) {
  if (Status s = countUses(scope, graph.nodes); !s)
    return s;
  for (const onnx::ValueInfo &output : graph.outputs)
    ++scope.uses[output.name];
  if (Status s = addInitializers(graph, scope); !s)
    return s;
  for (const auto &[name, value] : inputs)
    if (Status s = define(scope, name, value); !s)
      return s;
  if (Status s = planNodes(graph.nodes, scope); !s)
    return s;
  Values results;
  for (const onnx::ValueInfo &output : graph.outputs) {
    Value *value = find(scope, output.name);
    if (!status_)
      return status_;
    if (!value)
      return makeError(Code::InvalidModel, "nothing computes the output ",
                       onnx::quoted(output.name),
                       scope.parent ? " of the subgraph " + onnx::quoted(graph.name) : "");
    if (value->isUnknown && !blocks_.empty())
      return unsettled("a shape in a branch or a loop depends on values");
    results.push_back(value);
  }
  return results;
}

Status Planner::planNodes(const std::vector<onnx::Node> &nodes, Scope &scope) {
  for (const onnx::Node &node : nodes)
    if (Status s = planNode(node, scope); !s)
      return s;
  return Status();
}

Status Planner::planNode(const onnx::Node &node, Scope &scope) {
  if (++planned_ > MostNodes)
    return makeError(Code::LimitExceeded, "the network takes more than ", MostNodes,
                     " nodes, those of functions and loops included");
  if (isLate())
    return status_;
  Values inputs;
  for (std::string_view name : node.inputs) {
    Value *value = name.empty() ? nullptr : find(scope, name);
    if (const Status s = status_; !s) // weights
      return goesOn(node, scope, s) ? Status() : s;
    if (!value && !name.empty())
      return makeError(Code::InvalidModel, onnx::describe(node), ": its input ", onnx::quoted(name),
                       " is not computed by any node before it");
    inputs.push_back(value);
  }
  const size_t firstStep = steps_.size(), blocks = blocks_.size();
  const auto firstValue = static_cast<uint32_t>(values_.size());
  const int depth = node_.depth;
  Status s;
  if (const onnx::Function *function = model_.function(node)) {
    s = callFunction(*function, node, scope, inputs);
  } else {
    nodes_.push_back(onnx::describe(node));
    node_.scope = &scope;
    s = planOperator(node, scope, inputs);
    if (s)
      s = fold(firstStep, firstValue);
  }
  if (s)
    return s;
  blocks_.resize(blocks);
  node_.depth = depth;
  if (goesOn(node, scope, s))
    return status_;
  noteStop(node, inputs);
  status_ = s.withContext(onnx::describe(node));
  return status_;
}

bool Planner::goesOn(const onnx::Node &node, Scope &scope, const Status &failure) {
  if (failure.code() != Code::Unsupported)
    return false;
  // Values that can't be settled may just follow from a missing feature.
  if (!isUnsettled_ || missing_.isEmpty())
    missing_.add(onnx::describe(node), failure.message());
  isUnsettled_ = node_.isPending = node_.isWaiting = false;
  status_ = Status();
  for (const std::string_view output : node.outputs)
    if (!output.empty() && !scope.values.count(output))
      (void)define(scope, output, unknown());
  return bool(status_);
}

void Planner::noteStop(const onnx::Node &node, const Values &inputs) {
  constexpr size_t MostNumbers = 64;
  if (stop_.progress)
    return; // it is that of an inner node
  stop_.progress = planned_;
  const auto add = [&](int64_t number) {
    if (stop_.numbers.size() < MostNumbers)
      stop_.numbers.push_back(number);
  };
  for (Value *value : inputs) {
    const bool isKnown = value && !value->isUnknown;
    stop_.shapes.push_back(isKnown ? value->shape : Shape());
    if (!isKnown || !value->isConstant() || value->count > MostNumbers ||
        (value->type != ElementType::Int64 && value->type != ElementType::Int32))
      continue;
    Integers numbers(value->count);
    convert(*value, value->constantBytes(), ElementType::Int64, numbers.data());
    std::for_each(numbers.begin(), numbers.end(), add);
  }
  for (const onnx::Attribute &attribute : node.attributes) {
    if (attribute.type == IntegerAttribute)
      add(attribute.integer);
    for (const int64_t number : attribute.integers)
      add(number);
  }
}

Status Planner::callFunction(const onnx::Function &function, const onnx::Node &node, Scope &scope,
                             const Values &inputs) {
  if (++node_.depth > DeepestCall)
    return makeError(Code::InvalidModel, "functions call each other without end");
  if (inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    return makeError(Code::InvalidModel, "it has more inputs or outputs than the function");
  Scope inner;
  inner.parent = &scope;
  inner.opsets = function.opsets.empty() ? scope.opsets : &function.opsets;
  inner.call = &node;
  inner.function = &function;
  if (Status s = countUses(inner, function.nodes); !s)
    return s;
  for (std::string_view output : function.outputs)
    ++inner.uses[output];
  for (size_t i = 0; i < function.inputs.size(); ++i)
    if (i < inputs.size() && inputs[i]) {
      inputs[i]->uses += 2;
      if (Status s = define(inner, function.inputs[i], inputs[i]); !s)
        return s;
    } else if (!inner.values.emplace(function.inputs[i], nullptr).second) {
      return makeError(Code::InvalidModel, "an input of the function occurs twice");
    }
  if (Status s = planNodes(function.nodes, inner); !s)
    return s;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty())
      continue;
    Value *value = find(inner, function.outputs[i]);
    if (!value)
      return makeError(Code::InvalidModel, "nothing computes its output ",
                       onnx::quoted(function.outputs[i]));
    value->uses += 2;
    if (Status s = define(scope, node.outputs[i], value); !s)
      return s;
  }
  --node_.depth;
  return Status();
}

const onnx::Attribute *Planner::resolve(const onnx::Attribute *attribute) const {
  const Scope *scope = node_.scope;
  while (attribute && !attribute->reference.empty()) {
    while (scope && !scope->function)
      scope = scope->parent;
    if (!scope)
      return nullptr;
    const std::string_view name = attribute->reference;
    attribute = nullptr;
    for (const onnx::Attribute &given : scope->call->attributes)
      if (given.name == name)
        attribute = &given;
    if (attribute) {
      scope = scope->parent;
      continue;
    }
    for (const onnx::Attribute &given : scope->function->defaults)
      if (given.name == name)
        attribute = &given;
  }
  return attribute;
}

static Values decidingInputs(const Operator &op, const Values &inputs) {
  Values deciding;
  for (size_t i = 0; i < inputs.size() && i < 7; ++i)
    if (op.deciding >> i & 1)
      deciding.push_back(inputs[i]);
  return deciding;
}

Status Planner::planOperator(const onnx::Node &node, Scope &scope, const Values &inputs) {
  const auto opset = scope.opsets->find(node.domain);
  if (opset == scope.opsets->end())
    return makeError(Code::InvalidModel,
                     "the model doesn't say which version of the operators of domain ",
                     onnx::quoted(node.domain), " it uses");
  const Operator *op = findOperator(node.domain, node.op, opset->second);
  if (!op && missing_.isEmpty())
    return unsupportedOperator(node, opset->second);
  if (!op) { // it is known to be missing
    for (const std::string_view output : node.outputs)
      if (!output.empty())
        if (Status s = define(scope, output, unknown()); !s)
          return s;
    return Status();
  }
  if (std::any_of(inputs.begin(), inputs.end(), [](auto *v) { return v && v->isUnknown; }))
    return skipOperator(node, *op, scope, inputs);
  Lowering lowering(*this, node);
  lowering.inputs = inputs;
  if (Status s = checkAttributes(*op, node); !s)
    return s;
  if (Status s = checkInputs(*op, lowering.inputs); !s)
    return s;
  if (op->outputs != AnyNumber && node.outputs.size() > op->outputs)
    return makeError(Code::InvalidModel, "it has ", node.outputs.size(),
                     " outputs; the operator has ", op->outputs);
  ElementType narrow = ElementType::Float32; // that of the results
  if (op->halfAsFloat && !lowering.inputs.empty() && lowering.inputs[0] &&
      isHalf(lowering.inputs[0]->type))
    narrow = lowering.inputs[0]->type;
  if (op->halfAsFloat)
    for (Value *&input : lowering.inputs)
      if (input && isHalf(input->type)) {
        const size_t firstStep = steps_.size();
        const auto firstValue = static_cast<uint32_t>(values_.size());
        input = asHalf(input, ElementType::Float32);
        if (Status s = fold(firstStep, firstValue); !s)
          return s;
      }
  node_.isPending = node_.isWaiting = false;
  nextDecision_ = 0;
  node_.firstStep = steps_.size();
  node_.firstValue = static_cast<uint32_t>(values_.size());
  if (settle(decidingInputs(*op, lowering.inputs)))
    if (Status s = op->lower(lowering); !s && !node_.isWaiting)
      return fail(s);
  if (node_.isWaiting)
    status_ = Status();
  if (!status_)
    return status_;
  if (node_.isPending)
    lowering.results.resize(node.outputs.size());
  for (Value *&result : lowering.results)
    if (node_.isPending && !result)
      result = unknown();
  node_.isPending = false;
  return defineResults(node, scope, std::move(lowering.results), narrow);
}

Value *Planner::asHalf(Value *value, ElementType type) {
  const bool widens = isHalf(value->type);
  Value *result = make(type, value->shape);
  emit(halfKernel(widens ? value->type : type, widens), {result}, {value},
       {static_cast<int64_t>(value->count)});
  return result;
}

Status Planner::defineResults(const onnx::Node &node, Scope &scope, Values results,
                              ElementType narrow) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty())
      continue;
    Value *result = i < results.size() ? results[i] : nullptr;
    if (!result && !scope.uses.count(node.outputs[i]))
      continue; // texts that nobody reads
    if (!result)
      return makeError(Code::Unsupported, "its output ", onnx::quoted(node.outputs[i]),
                       " is not supported");
    if (isHalf(narrow) && result->type == ElementType::Float32)
      result = asHalf(result, narrow);
    // A value that already has a name gets a second one: it must not be taken for used once.
    if (result->uses || result->place == Place::Input)
      result = view(result, result->shape, 0);
    if (Status s = define(scope, node.outputs[i], result); !s)
      return s;
  }
  return status_;
}

Status Planner::skipOperator(const onnx::Node &node, const Operator &op, Scope &scope,
                             const Values &inputs) {
  const bool hasGraph = std::any_of(node.attributes.begin(), node.attributes.end(),
                                    [](const auto &a) { return a.graph != nullptr; });
  if (hasGraph || !blocks_.empty())
    return unsettled("a shape in a branch or a loop depends on values");
  nextDecision_ = 0;
  (void)settle(decidingInputs(op, inputs));
  if (status_ && op.deciding == SelfDeciding)
    (void)settle({inputs[0]});
  node_.isPending = false;
  return defineResults(node, scope, Values(node.outputs.size(), unknown()), ElementType::Float32);
}

} // namespace mlbridge::native
