// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs, names and nodes; folding of what is constant; values on which shapes depend.
#include "engine/native/planner.h"

#include "engine/native/program.h"
#include "engine/native/registry.h"

#include <algorithm>
#include <cstring>

namespace mlbridge::native {
namespace {

constexpr size_t LargestValue = size_t(1) << 32; // bytes
constexpr size_t LargestFolded = size_t(1) << 28;
constexpr size_t MostRank = 24;
constexpr size_t MostSteps = size_t(1) << 20;
constexpr size_t MostNodes = size_t(1) << 16;
constexpr int DeepestCall = 64;

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string describe(const onnx::Node &node) {
  std::string text(node.op);
  if (!node.name.empty())
    text += " " + quoted(node.name);
  else if (!node.outputs.empty() && !node.outputs[0].empty())
    text += " that makes " + quoted(node.outputs[0]);
  return text;
}

} // namespace

Expected<std::shared_ptr<const Buffer>> Weights::elements(const onnx::Tensor &tensor) {
  std::weak_ptr<const Buffer> &kept = elements_[&tensor];
  if (std::shared_ptr<const Buffer> there = kept.lock())
    return there;
  Expected<Buffer> read = onnx::readElements(tensor, files_);
  if (!read)
    return read.status();
  auto bytes = std::make_shared<const Buffer>(std::move(*read));
  kept = bytes;
  return std::shared_ptr<const Buffer>(std::move(bytes));
}

const Status &Planner::fail(Status why) {
  if (status_)
    status_ = std::move(why);
  return status_;
}

/// The lengths' product, zeros left out: the strides of an empty tensor are numbers as well.
static std::optional<size_t> extent(Shape shape) {
  std::replace(shape.begin(), shape.end(), int64_t{0}, int64_t{1});
  return elementCount(shape);
}

Value *Planner::newValue(ElementType type, const Shape &shape) {
  Value &v = values_.emplace_back();
  v.id = static_cast<uint32_t>(values_.size() - 1);
  v.type = type;
  v.shape = shape;
  const std::optional<size_t> count = elementCount(shape), all = extent(shape);
  if (shape.size() > MostRank)
    fail({Code::Unsupported, "a tensor has " + std::to_string(shape.size()) +
                                 " dimensions; at most " + std::to_string(MostRank) +
                                 " are supported"});
  else if (!count || *count > LargestValue / sizeOf(type) || !all)
    fail({Code::LimitExceeded, "a tensor of the shape " + toString(shape) + " is too large"});
  else
    v.count = *count;
  if (!status_)
    v.shape.assign(shape.size(), 0); // nothing is computed with it until the failure is seen
  v.capacity = v.count * sizeOf(type);
  return &v;
}

Value *Planner::make(ElementType type, const Shape &shape) { return newValue(type, shape); }

Value *Planner::view(Value *value, const Shape &shape, uint64_t offset) {
  Value *v = newValue(value->type, shape);
  v->root = value->root;
  v->offset = value->offset + offset;
  v->producer = value->producer;
  return v;
}

Value *Planner::constant(ElementType type, const Shape &shape,
                         std::shared_ptr<const Buffer> bytes) {
  Value *v = newValue(type, shape);
  v->place = Place::Constant;
  v->constant = std::move(bytes);
  return v;
}

Value *Planner::fault() {
  Value *v = newValue(ElementType::Int64, {});
  faults_.push_back(v);
  return v;
}

void Planner::emit(KernelId kernel, const std::vector<Value *> &results,
                   const std::vector<Value *> &reads, const std::vector<int64_t> &parameters) {
  if (!status_)
    return;
  if (steps_.size() >= MostSteps) {
    fail({Code::LimitExceeded,
          "the network takes more than " + std::to_string(MostSteps) + " steps"});
    return;
  }
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

Planner::Draft *Planner::onlyProducer(Value *value) {
  if (value->uses != 1 || value->root != value || value->producer < 0 ||
      value->place != Place::Workspace)
    return nullptr;
  Draft &draft = steps_[static_cast<size_t>(value->producer)];
  const uint32_t block = blocks_.empty() ? 0 : blocks_.back();
  if (draft.kind != Step::Kind::Kernel || draft.block != block ||
      static_cast<size_t>(value->producer) < executed_)
    return nullptr;
  return &draft;
}

// ---- values that are known ---------------------------------------------------------------------

uint8_t *Planner::memoryOf(Value *value) {
  if (!value)
    return nullptr;
  Value *root = value->root;
  if (root->constant)
    return const_cast<uint8_t *>(root->constant->data()) + value->offset;
  if (root->place == Place::Input)
    return data_ ? static_cast<uint8_t *>(const_cast<void *>(data_[root->index])) + value->offset
                 : nullptr;
  Buffer &memory = memory_[root];
  if (memory.size() < root->capacity || !memory.data()) {
    if (Status s = memory.resize(std::max<size_t>(root->capacity, 64)); !s) {
      fail(s);
      return nullptr;
    }
    std::memset(memory.data(), 0, memory.size());
  }
  return memory.data() + value->offset;
}

Status Planner::execute(size_t from, size_t to) {
  Program program;
  std::vector<void *> operands;
  for (size_t i = from; i < to; ++i) {
    const Draft &draft = steps_[i];
    operands.clear();
    for (Value *value : draft.operands)
      operands.push_back(memoryOf(value));
    if (!status_)
      return status_;
    program.add(draft.kind, draft.kernel, operands, draft.parameters.data());
  }
  if (Status s = program.finish(); !s)
    return s;
  // Only what a network does before shapes are known is executed here, and it is finite.
  if (program.run(std::chrono::seconds(60)) != Program::Outcome::Done)
    return {Code::InvalidModel, "what shapes depend on could not be computed"};
  for (Value *fault : faults_) {
    const auto memory = memory_.find(fault);
    int64_t set = 0;
    if (memory == memory_.end())
      continue;
    std::memcpy(&set, memory->second.data(), sizeof set);
    if (set)
      return {Code::InvalidModel, "an index is out of range"};
  }
  return Status::ok();
}

// What depends on constants alone is computed now, and is a constant then.
Status Planner::fold(size_t firstStep, uint32_t firstValue) {
  if (firstStep == steps_.size())
    return Status::ok();
  size_t bytes = 0;
  for (size_t i = firstStep; i < steps_.size(); ++i)
    for (const Value *value : steps_[i].operands) {
      if (!value || value->isConstant())
        continue;
      if (value->root->id < firstValue)
        return Status::ok();
    }
  for (size_t id = firstValue; id < values_.size(); ++id)
    if (values_[id].root == &values_[id] && !values_[id].constant)
      bytes += values_[id].capacity;
  if (bytes > LargestFolded)
    return Status::ok();
  if (Status s = execute(firstStep, steps_.size()); !s)
    return s;
  steps_.resize(firstStep);
  for (size_t id = firstValue; id < values_.size(); ++id) {
    Value &value = values_[id];
    const auto memory = memory_.find(&value);
    if (memory == memory_.end())
      continue;
    value.constant = std::make_shared<const Buffer>(std::move(memory->second));
    value.place = Place::Constant;
    value.producer = -1;
    memory_.erase(memory);
  }
  return Status::ok();
}

const uint8_t *Planner::bytesOf(Value *value) {
  if (!status_)
    return nullptr;
  if (value->isConstant())
    return value->constantBytes();
  if (value->guarded)
    return value->guarded->data();
  if (!blocks_.empty()) {
    fail({Code::Unsupported, "a shape depends on what is computed in a branch or a loop"});
    return nullptr;
  }
  if (!data_) {
    needsValues_ = true;
    fail({Code::Unsupported, "a shape depends on the value of an input"});
    return nullptr;
  }
  if (Status s = execute(executed_, steps_.size()); !s) {
    fail(s);
    return nullptr;
  }
  executed_ = steps_.size();
  const uint8_t *from = memoryOf(value);
  Buffer copy;
  const size_t size = value->count * sizeOf(value->type);
  if (!from || !copy.resize(std::max<size_t>(size, 8))) {
    fail({Code::LimitExceeded, "no memory"});
    return nullptr;
  }
  std::memset(copy.data(), 0, copy.size());
  std::memcpy(copy.data(), from, size);
  auto bytes = std::make_shared<const Buffer>(std::move(copy));
  Value *expected = constant(value->type, value->shape, bytes);
  Draft draft;
  draft.kind = Step::Kind::Guard;
  draft.node = static_cast<uint32_t>(nodes_.size() - 1);
  draft.operands = {value, expected};
  draft.parameters = {static_cast<int64_t>(size)};
  steps_.push_back(std::move(draft));
  executed_ = steps_.size(); // it holds
  value->guarded = bytes;
  return bytes->data();
}

// ---- names -------------------------------------------------------------------------------------

void Planner::countUses(const onnx::Node &node,
                        std::unordered_map<std::string_view, uint32_t> &uses) {
  for (std::string_view input : node.inputs)
    if (!input.empty())
      ++uses[input];
  for (const onnx::Attribute &attribute : node.attributes)
    if (attribute.graph)
      countUses(*attribute.graph, uses);
}

// Names of inner graphs that hide outer ones only make the count too high, which is harmless; what
// an inner graph uses counts twice, so that it is never taken for used once.
void Planner::countUses(const onnx::Graph &graph,
                        std::unordered_map<std::string_view, uint32_t> &uses) {
  std::unordered_map<std::string_view, uint32_t> inner;
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
    return {Code::InvalidModel, "the name " + quoted(name) + " stands for two values"};
  return Status::ok();
}

Value *Planner::find(Scope &scope, std::string_view name) {
  for (Scope *s = &scope; s; s = s->function ? nullptr : s->parent) {
    if (const auto value = s->values.find(name); value != s->values.end())
      return value->second;
    const auto initializer = s->initializers.find(name);
    if (initializer == s->initializers.end())
      continue;
    const onnx::Tensor &tensor = *initializer->second;
    Expected<std::shared_ptr<const Buffer>> bytes = weights_.elements(tensor);
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
  for (const onnx::Tensor &tensor : graph.initializers)
    if (!scope.initializers.emplace(tensor.name, &tensor).second)
      return {Code::InvalidModel, "the weights " + quoted(tensor.name) + " stand there twice"};
  return Status::ok();
}

// ---- graphs ------------------------------------------------------------------------------------

Expected<std::shared_ptr<const Plan>> Planner::plan(const std::vector<TensorSpec> &inputs) {
  Scope scope;
  scope.opsets = &model_.opsets;
  const onnx::Graph &graph = model_.graph;
  for (const onnx::Node &node : graph.nodes)
    countUses(node, scope.uses);
  for (const onnx::ValueInfo &output : graph.outputs)
    ++scope.uses[output.name];
  if (Status s = addInitializers(graph, scope); !s)
    return s;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value *value = newValue(inputs[i].type, inputs[i].shape);
    value->place = Place::Input;
    value->index = static_cast<uint32_t>(i);
    if (Status s = define(scope, inputs[i].name, value); !s)
      return s;
  }
  if (Status s = planNodes(graph.nodes, scope); !s)
    return s;
  std::vector<Value *> results;
  for (const onnx::ValueInfo &output : graph.outputs) {
    Value *value = find(scope, output.name);
    if (!status_)
      return status_;
    if (!value)
      return Status(Code::InvalidModel, "nothing computes the output " + quoted(output.name));
    results.push_back(value);
  }
  return finish(inputs, results);
}

void Planner::goBack(const Point &point) {
  steps_.resize(point.steps);
  faults_.resize(point.faults);
  blocks_ = point.blocks;
  status_ = Status();
  needsValues_ = false;
}

Expected<std::vector<Value *>> Planner::planGraph(const onnx::Graph &graph,
                                                  const std::vector<Value *> &inputs) {
  Scope *const scope = scope_;
  const int depth = depth_;
  const std::string node = nodes_.back();
  Expected<std::vector<Value *>> results = planInner(graph, inputs);
  nodes_.push_back(node);
  scope_ = scope;
  depth_ = depth;
  if (!results)
    fail(results.status());
  return results;
}

Expected<std::vector<Value *>> Planner::planInner(const onnx::Graph &graph,
                                                  const std::vector<Value *> &inputs) {
  if (graph.inputs.size() != inputs.size())
    return Status(Code::InvalidModel, "the inner graph " + quoted(graph.name) + " has " +
                                          std::to_string(graph.inputs.size()) +
                                          " inputs instead of " + std::to_string(inputs.size()));
  if (++depth_ > DeepestCall)
    return Status(Code::Unsupported, "graphs are nested too deep");
  Scope scope;
  scope.parent = scope_;
  scope.opsets = scope_->opsets;
  for (const onnx::Node &node : graph.nodes)
    countUses(node, scope.uses);
  for (const onnx::ValueInfo &output : graph.outputs)
    ++scope.uses[output.name];
  if (Status s = addInitializers(graph, scope); !s)
    return s;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i]->uses += 2; // by the node outside too
    if (Status s = define(scope, graph.inputs[i].name, inputs[i]); !s)
      return s;
  }
  if (Status s = planNodes(graph.nodes, scope); !s)
    return s;
  std::vector<Value *> results;
  for (const onnx::ValueInfo &output : graph.outputs) {
    Value *value = find(scope, output.name);
    if (!status_)
      return status_;
    if (!value)
      return Status(Code::InvalidModel, "nothing computes the output " + quoted(output.name) +
                                            " of the inner graph " + quoted(graph.name));
    results.push_back(value);
  }
  return results;
}

Status Planner::planNodes(const std::vector<onnx::Node> &nodes, Scope &scope) {
  for (const onnx::Node &node : nodes)
    if (Status s = planNode(node, scope); !s)
      return s;
  return Status::ok();
}

Status Planner::planNode(const onnx::Node &node, Scope &scope) {
  if (++planned_ > MostNodes)
    return {Code::LimitExceeded, "the network takes more than " + std::to_string(MostNodes) +
                                     " nodes, those of functions and loops included"};
  std::vector<Value *> inputs;
  for (std::string_view name : node.inputs) {
    Value *value = name.empty() ? nullptr : find(scope, name);
    if (!status_)
      return status_;
    if (!value && !name.empty())
      return {Code::InvalidModel,
              describe(node) + ": its input " + quoted(name) + " is computed by nothing before it"};
    inputs.push_back(value);
  }
  const size_t firstStep = steps_.size();
  const auto firstValue = static_cast<uint32_t>(values_.size());
  for (const onnx::Function &function : model_.functions)
    if (function.name == node.op && function.domain == node.domain) {
      Status s = callFunction(function, node, scope, inputs);
      return s ? s : s.withContext(describe(node));
    }
  nodes_.push_back(describe(node));
  scope_ = &scope;
  Status s = planOperator(node, scope, inputs);
  if (s)
    s = fold(firstStep, firstValue);
  if (!s)
    status_ = needsValues_ ? s : s.withContext(describe(node));
  return status_;
}

Status Planner::callFunction(const onnx::Function &function, const onnx::Node &node, Scope &scope,
                             const std::vector<Value *> &inputs) {
  if (++depth_ > DeepestCall)
    return {Code::InvalidModel, "functions call each other without end"};
  if (inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    return {Code::InvalidModel, "it has more inputs or outputs than the function"};
  Scope inner;
  inner.parent = &scope;
  inner.opsets = function.opsets.empty() ? scope.opsets : &function.opsets;
  inner.call = &node;
  inner.function = &function;
  for (const onnx::Node &n : function.nodes)
    countUses(n, inner.uses);
  for (std::string_view output : function.outputs)
    ++inner.uses[output];
  for (size_t i = 0; i < function.inputs.size(); ++i)
    if (i < inputs.size() && inputs[i]) {
      inputs[i]->uses += 2;
      if (Status s = define(inner, function.inputs[i], inputs[i]); !s)
        return s;
    } else if (!inner.values.emplace(function.inputs[i], nullptr).second) {
      return {Code::InvalidModel, "an input stands there twice"};
    }
  if (Status s = planNodes(function.nodes, inner); !s)
    return s;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty())
      continue;
    Value *value = find(inner, function.outputs[i]);
    if (!value)
      return {Code::InvalidModel, "nothing computes its output " + quoted(function.outputs[i])};
    value->uses += 2;
    if (Status s = define(scope, node.outputs[i], value); !s)
      return s;
  }
  --depth_;
  return Status::ok();
}

const onnx::Attribute *Planner::resolve(const onnx::Attribute *attribute) const {
  const Scope *scope = scope_;
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

Status Planner::planOperator(const onnx::Node &node, Scope &scope,
                             const std::vector<Value *> &inputs) {
  const auto opset = scope.opsets->find(node.domain);
  if (opset == scope.opsets->end())
    return {Code::InvalidModel, "the model doesn't say which version of the operators of domain " +
                                    quoted(node.domain) + " it uses"};
  const Operator *op = findOperator(node.domain, node.op, opset->second);
  if (!op)
    return unsupportedOperator(node, opset->second);
  Lowering lowering(*this, node, opset->second);
  lowering.inputs = inputs;
  if (Status s = checkInputs(*op, lowering.inputs); !s)
    return s;
  if (node.outputs.size() > static_cast<size_t>(op->outputs))
    return {Code::InvalidModel, "it has " + std::to_string(node.outputs.size()) +
                                    " outputs; the operator has " + std::to_string(op->outputs)};
  const bool isHalf = op->halfAsFloat && !lowering.inputs.empty() && lowering.inputs[0] &&
                      lowering.inputs[0]->type == ElementType::Float16;
  if (op->halfAsFloat)
    for (Value *&input : lowering.inputs)
      if (input && input->type == ElementType::Float16) {
        const size_t firstStep = steps_.size();
        const auto firstValue = static_cast<uint32_t>(values_.size());
        Value *wide = make(ElementType::Float32, input->shape);
        emit(KernelId::F32FromF16, {wide}, {input}, {static_cast<int64_t>(input->count)});
        input = wide;
        if (Status s = fold(firstStep, firstValue); !s)
          return s;
      }
  if (Status s = op->lower(lowering); !s)
    return fail(s);
  if (!status_)
    return status_;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty())
      continue;
    Value *result = i < lowering.results.size() ? lowering.results[i] : nullptr;
    if (!result)
      return {Code::Unsupported, "its output " + quoted(node.outputs[i]) + " is not supported"};
    if (isHalf && result->type == ElementType::Float32) {
      Value *narrow = make(ElementType::Float16, result->shape);
      emit(KernelId::F16FromF32, {narrow}, {result}, {static_cast<int64_t>(result->count)});
      result = narrow;
    }
    // A value that already has a name gets a second one: it must not be taken for used once.
    if (result->uses || result->place == Place::Input)
      result = view(result, result->shape, 0);
    if (Status s = define(scope, node.outputs[i], result); !s)
      return s;
  }
  return Status::ok();
}

} // namespace mlbridge::native
