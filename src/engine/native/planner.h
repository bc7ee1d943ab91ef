// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a graph and the shapes of its inputs to a plan.
#ifndef MLBRIDGE_ENGINE_NATIVE_PLANNER_H
#define MLBRIDGE_ENGINE_NATIVE_PLANNER_H

#include "engine/native/lowering.h"
#include "engine/native/missing_features.h"

#include <deque>
#include <unordered_map>

namespace mlbridge::native {

struct Operator;

/// Weights that are kept between plans of one network.
class Weights {
public:
  Weights(std::string folder, uint64_t fileSize, const Deadline &deadline)
      : files_(std::move(folder), deadline), size_(fileSize) {}
  Status readExternal(const onnx::Tensor &tensor) { return onnx::readExternal(tensor, files_); }
  /// Bytes of the files that were read.
  uint64_t size() const { return size_ + files_.size(); }
  Expected<SharedBytes> elements(const onnx::Tensor &tensor);
  /// The packed form of an initializer under a key, or null.
  SharedBytes &packed(const onnx::Tensor *tensor, Integers key) {
    return packed_[{tensor, std::move(key)}];
  }

private:
  onnx::ExternalFiles files_;
  uint64_t size_;
  std::map<const onnx::Tensor *, std::weak_ptr<const Buffer>> elements_;
  std::map<std::pair<const onnx::Tensor *, Integers>, SharedBytes> packed_;
};

/// The node at which planning stopped, and what that may depend on if it is lengths that don't fit.
struct Stop {
  size_t progress = 0;       ///< how many nodes were planned
  bool isAtEnd = false;      ///< all of them
  std::vector<Shape> shapes; ///< of the node's inputs
  Integers numbers;          ///< its attributes, and constant inputs that are short
};

class Planner {
public:
  /// A step whose operands are still values.
  struct Draft : Step {
    uint32_t results = 0; ///< the first so many operands are written
    uint32_t block = 0;   ///< of control flow
    uint64_t multiplyAdds = 0;
    Values operands;
    Integers parameters;
  };
  using Opsets = onnx::Opsets;

  /// `missing`: features that are known to be missing, every operator that native doesn't have
  /// among them.
  Planner(const onnx::Model &model, Weights &weights, const Limits &limits,
          const Settled &settled = {}, const MissingFeatures &missing = {});

  /// `inputs`: of fixed shapes, in the order of the graph's inputs that are no initializers. If
  /// shapes depend on values that aren't settled, the plan is one that computes these values.
  /// Errors: InvalidModel, Unsupported, LimitExceeded, DeadlineExceeded.
  Expected<SharedPlan> plan(const std::vector<TensorSpec> &inputs);
  /// All missing features, as far as the plan came. The plan fails unless this is empty.
  const MissingFeatures &missing() const { return missing_; }
  const Stop &stop() const { return stop_; }

  // For operators with graphs.
  /// Plans the graph's nodes with `inputs` as its inputs, within the scope of the node at hand.
  Expected<Values> planGraph(const onnx::Graph &graph, const Values &inputs);
  /// Begins or ends a part of control flow.
  void mark(Step::Kind kind, std::initializer_list<Value *> operands);
  /// A result of which nothing is known before values are settled.
  Value *unknown();
  /// Fails as Unsupported, for shapes that nobody can settle beforehand.
  Status unsettled(const std::string &why);

  // For lowering.h.
  /// Follows references to attributes of the function that is being called.
  const onnx::Attribute *resolve(const onnx::Attribute *attribute) const;
  const Status &fail(Status why);
  const Status &status() const { return status_; }
  Value *make(ElementType type, const Shape &shape);
  Value *view(Value *value, const Shape &shape, uint64_t offset);
  Value *constant(ElementType type, const Shape &shape, SharedBytes bytes);
  Value *fault();
  void emit(KernelId kernel, const Values &results, const Values &reads,
            const Integers &parameters);
  /// The kernel's result for x: made once for all plans if x is a constant of the file.
  Value *packed(KernelId kernel, const Shape &shape, Value *x, const Integers &parameters) {
    return packed(kernel, x->type, shape, x, parameters);
  }
  Value *packed(KernelId kernel, ElementType type, const Shape &shape, Value *x,
                const Integers &parameters);
  /// Computes what the node at hand has made so far, if it is made of constants.
  void foldNode() {
    if (status_)
      fail(fold(node_.firstStep, node_.firstValue));
  }
  /// All bytes of a value on which shapes depend; null on failure.
  const uint8_t *bytesOf(Value *value);
  /// Shapes depend on these values; null is left out. False if they aren't known yet, or on
  /// failure.
  bool settle(const Values &values);
  /// Fails if the deadline has passed.
  bool isLate();
  /// Fails if there is no time for so much work.
  bool hasTimeFor(uint64_t work);
  /// The elements of a tensor in the file.
  Expected<SharedBytes> elements(const onnx::Tensor &tensor);
  /// The step that made `value`, if changing it changes nothing else.
  Draft *onlyProducer(Value *value);
  /// Adds so many to the last step.
  void countMultiplyAdds(uint64_t count);

private:
  using UseCounts = std::unordered_map<std::string_view, uint32_t>;
  using NamedValues = std::vector<std::pair<std::string_view, Value *>>;
  struct Scope {
    Scope *parent = nullptr;
    const Opsets *opsets = nullptr;
    std::unordered_map<std::string_view, Value *> values;
    std::unordered_map<std::string_view, const onnx::Tensor *> initializers;
    UseCounts uses;
    const onnx::Node *call = nullptr; ///< the call of the function that this is the inside of
    const onnx::Function *function = nullptr;
  };

  /// The state of the node at hand.
  struct NodeState {
    Scope *scope = nullptr;
    int depth = 0; ///< of graphs and calls
    size_t firstStep = 0;
    uint32_t firstValue = 0;
    bool isPending = false; ///< its operator depends on values that aren't settled
    bool isWaiting = false; ///< and it failed because of that
  };

  Expected<Values> planInner(const onnx::Graph &graph, const Values &inputs);
  Expected<Values> planIn(Scope &scope, const onnx::Graph &graph, const NamedValues &inputs);
  Status planNodes(const std::vector<onnx::Node> &nodes, Scope &scope);
  Status planNode(const onnx::Node &node, Scope &scope);
  Status planOperator(const onnx::Node &node, Scope &scope, const Values &inputs);
  /// After a node has failed: true if planning goes on, to find the other missing features.
  bool goesOn(const onnx::Node &node, Scope &scope, const Status &failure);
  void noteStop(const onnx::Node &node, const Values &inputs);
  /// A node of which an input is unknown.
  Status skipOperator(const onnx::Node &node, const Operator &op, Scope &scope,
                      const Values &inputs);
  /// Float32 results are rounded to `narrow` if that is a half.
  Status defineResults(const onnx::Node &node, Scope &scope, Values results, ElementType narrow);
  /// A half as float32, or float32 as a half.
  Value *asHalf(Value *value, ElementType type);
  Status callFunction(const onnx::Function &function, const onnx::Node &node, Scope &scope,
                      const Values &inputs);
  Status define(Scope &scope, std::string_view name, Value *value);
  Value *find(Scope &scope, std::string_view name);
  Status countUses(Scope &scope, const std::vector<onnx::Node> &nodes);
  void countUses(const onnx::Graph &graph, UseCounts &uses);
  void countUses(const onnx::Node &node, UseCounts &uses);
  Status addInitializers(const onnx::Graph &graph, Scope &scope);
  Status fold(size_t firstStep, uint32_t firstValue);
  Status execute(size_t from, size_t to);
  uint8_t *memoryOf(Value *value);
  std::optional<uint64_t> workOf(size_t from, size_t to, bool atWorst = false) const;
  Expected<SharedPlan> finish(const std::vector<TensorSpec> &inputs,
                              const std::vector<TensorSpec> &outputs, const Values &results);
  void removeDeadSteps(const Values &results);
  Status placeValues(Plan &plan);

  const onnx::Model &model_;
  Weights &weights_;
  const Limits limits_;
  const Settled settled_;
  Status status_;
  bool isUnsettled_ = false;
  MissingFeatures missing_;
  Stop stop_;
  std::deque<Value> values_;
  std::vector<Draft> steps_;
  std::vector<std::string> nodes_;
  Values faults_;
  std::vector<uint32_t> blocks_; ///< the open ones
  uint32_t nextBlock_ = 0;
  Values decisions_; ///< on whose values shapes depend
  std::vector<uint64_t> decisionIds_;
  uint64_t nextDecision_ = 0;
  NodeState node_;
  std::unordered_map<const Value *, Buffer> memory_;
  uint64_t foldedBytes_ = 0, foldedWork_ = 0; ///< what is left for it
  uint64_t multiplyAdds_ = 0;
  size_t planned_ = 0; ///< nodes
  size_t counted_ = 0; ///< names whose uses were counted
};

inline const Status &Lowering::status() const { return planner.status(); }
inline Refused Lowering::fail(const Status &why) { return {planner.fail(why)}; }
inline Value *Lowering::make(ElementType type, const Shape &shape) {
  return planner.make(type, shape);
}
inline Value *Lowering::view(Value *value, const Shape &shape, uint64_t offset) {
  return planner.view(value, shape, offset);
}
inline Value *Lowering::fault() { return planner.fault(); }

} // namespace mlbridge::native

#endif
