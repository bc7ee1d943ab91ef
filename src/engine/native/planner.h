// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a graph and the shapes of its inputs to a plan.
#ifndef MLBRIDGE_ENGINE_NATIVE_PLANNER_H
#define MLBRIDGE_ENGINE_NATIVE_PLANNER_H

#include "engine/native/lowering.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace mlbridge::native {

/// Weights that are kept between plans of one network.
class Weights {
public:
  explicit Weights(std::string folder) : files_(std::move(folder)) {}
  Expected<std::shared_ptr<const Buffer>> elements(const onnx::Tensor &tensor);
  /// What was made of an initializer under a key, or null.
  std::shared_ptr<const Buffer> &packed(const onnx::Tensor *tensor, const std::string &key) {
    return packed_[{tensor, key}];
  }

private:
  onnx::ExternalFiles files_;
  std::map<const onnx::Tensor *, std::weak_ptr<const Buffer>> elements_;
  std::map<std::pair<const onnx::Tensor *, std::string>, std::shared_ptr<const Buffer>> packed_;
};

class Planner {
public:
  /// A step whose operands are still values.
  struct Draft {
    Step::Kind kind = Step::Kind::Kernel;
    KernelId kernel = KernelId::Count;
    uint32_t node = 0;
    uint32_t results = 0; ///< the first so many operands are written
    uint32_t block = 0;   ///< of control flow
    std::vector<Value *> operands;
    std::vector<int64_t> parameters;
  };
  using Opsets = onnx::Opsets;

  /// `data`: the inputs' elements, for values on which shapes depend; null: they aren't known yet.
  Planner(const onnx::Model &model, Weights &weights, const void *const *data)
      : model_(model), weights_(weights), data_(data) {}

  /// `inputs`: of fixed shapes, in the order of the graph's inputs that are no initializers.
  /// Errors: InvalidModel, Unsupported, LimitExceeded; see needsValues.
  Expected<std::shared_ptr<const Plan>> plan(const std::vector<TensorSpec> &inputs);
  /// The plan failed only because it depends on values of inputs that were not given.
  bool needsValues() const { return needsValues_; }

  // For operators with graphs.
  /// Plans the graph's nodes with `inputs` as its inputs, within the scope of the node at hand.
  Expected<std::vector<Value *>> planGraph(const onnx::Graph &graph,
                                           const std::vector<Value *> &inputs);
  /// A point to go back to where planning was tried and failed.
  struct Point {
    size_t steps, faults;
    std::vector<uint32_t> blocks;
  };
  Point here() const { return {steps_.size(), faults_.size(), blocks_}; }
  /// Nothing that was made since may be used, and what failed is forgotten.
  void goBack(const Point &point);
  /// Begins or ends a part of control flow.
  void mark(Step::Kind kind, std::initializer_list<Value *> operands);
  bool isInControlFlow() const { return !blocks_.empty(); }

  // For lowering.h.
  /// Follows references to attributes of the function that is being called.
  const onnx::Attribute *resolve(const onnx::Attribute *attribute) const;
  const Status &fail(Status why);
  const Status &status() const { return status_; }
  std::string nameOfNode() const { return nodes_.empty() ? "" : nodes_.back(); }
  Value *make(ElementType type, const Shape &shape);
  Value *view(Value *value, const Shape &shape, uint64_t offset);
  Value *constant(ElementType type, const Shape &shape, std::shared_ptr<const Buffer> bytes);
  Value *fault();
  void emit(KernelId kernel, const std::vector<Value *> &results, const std::vector<Value *> &reads,
            const std::vector<int64_t> &parameters);
  const uint8_t *bytesOf(Value *value);
  Weights &weights() { return weights_; }
  /// The step that made `value`, if changing it changes nothing else.
  Draft *onlyProducer(Value *value);
  uint64_t multiplyAdds = 0;

private:
  struct Scope {
    Scope *parent = nullptr;
    const Opsets *opsets = nullptr;
    std::unordered_map<std::string_view, Value *> values;
    std::unordered_map<std::string_view, const onnx::Tensor *> initializers;
    std::unordered_map<std::string_view, uint32_t> uses;
    const onnx::Node *call = nullptr; ///< the call of the function that this is the inside of
    const onnx::Function *function = nullptr;
  };

  Expected<std::vector<Value *>> planInner(const onnx::Graph &graph,
                                           const std::vector<Value *> &inputs);
  Status planNodes(const std::vector<onnx::Node> &nodes, Scope &scope);
  Status planNode(const onnx::Node &node, Scope &scope);
  Status planOperator(const onnx::Node &node, Scope &scope, const std::vector<Value *> &inputs);
  Status callFunction(const onnx::Function &function, const onnx::Node &node, Scope &scope,
                      const std::vector<Value *> &inputs);
  Status define(Scope &scope, std::string_view name, Value *value);
  Value *find(Scope &scope, std::string_view name);
  void countUses(const onnx::Graph &graph, std::unordered_map<std::string_view, uint32_t> &uses);
  void countUses(const onnx::Node &node, std::unordered_map<std::string_view, uint32_t> &uses);
  Status addInitializers(const onnx::Graph &graph, Scope &scope);
  Status fold(size_t firstStep, uint32_t firstValue);
  Status execute(size_t from, size_t to);
  uint8_t *memoryOf(Value *value);
  Expected<std::shared_ptr<const Plan>> finish(const std::vector<TensorSpec> &inputs,
                                               const std::vector<Value *> &results);
  Value *newValue(ElementType type, const Shape &shape);
  void removeDeadSteps(const std::vector<Value *> &results);
  void placeValues(Plan &plan);

  const onnx::Model &model_;
  Weights &weights_;
  const void *const *data_;
  Status status_;
  bool needsValues_ = false;
  std::deque<Value> values_;
  std::vector<Draft> steps_;
  std::vector<std::string> nodes_;
  std::vector<Value *> faults_;
  std::vector<uint32_t> blocks_; ///< the open ones
  uint32_t nextBlock_ = 0;
  size_t executed_ = 0; ///< steps that have been executed on the inputs
  std::unordered_map<const Value *, Buffer> memory_;
  Scope *scope_ = nullptr; ///< of the node at hand
  int depth_ = 0;
  size_t planned_ = 0; ///< nodes, those that were tried included
};

} // namespace mlbridge::native

#endif
