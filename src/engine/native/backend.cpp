// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scheme native: a Network behind a Model, and programs over buffers behind its Runners.
#include "engine/native/backend.h"

#include "engine/native/network.h"
#include "engine/native/program.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {
namespace native {
namespace {

constexpr size_t ProgramsKept = 8;

/// Memory of one input or output, which moves when it has to grow.
struct Slot {
  Buffer memory;
  Shape shape;
  size_t count = 0;
  bool isSized = false;
};

/// A plan whose operands are addresses in the buffers of one runner.
struct Bound {
  std::shared_ptr<const Plan> plan;
  Program program;
};

class NativeRunner final : public RunnerBackend {
public:
  NativeRunner(std::shared_ptr<Network> network, const Signature &bound)
      : network_(std::move(network)), signature_(bound) {}

  Status create() {
    inputs_.resize(signature_.inputs.size());
    outputs_.resize(signature_.outputs.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorSpec &spec = signature_.inputs[i];
      inputs_[i].shape = spec.shape;
      if (spec.isDynamic()) {
        ++unsized_;
        if (Status s = reserveMost(inputs_[i], spec); !s)
          return s.withContext("input '" + spec.name + "'");
        continue;
      }
      if (Status s = setShape(inputs_[i], spec.type, spec.shape); !s)
        return s.withContext("input '" + spec.name + "'");
      std::memset(inputs_[i].memory.data(), 0, inputs_[i].memory.size());
    }
    return unsized_ ? Status::ok() : prepare(false);
  }

  TensorView input(size_t index) override { return view(inputs_[index], signature_.inputs[index]); }

  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    Slot &slot = inputs_[index];
    const TensorSpec &spec = signature_.inputs[index];
    const uint8_t *before = slot.memory.data();
    unsized_ += slot.isSized;
    slot.isSized = false;
    if (Status s = setShape(slot, spec.type, shape); !s)
      return s.withContext("input '" + spec.name + "'");
    --unsized_;
    if (slot.memory.data() != before)
      bound_.clear(); // they have the old address
    active_ = nullptr;
    return view(slot, spec);
  }

  Status evaluate(Duration left) override {
    if (left <= Duration::zero())
      return {Code::DeadlineExceeded, "native: the deadline had passed before the call"};
    if (!active_)
      if (Status s = prepare(true); !s)
        return s;
    while (true) {
      const Plan &plan = *active_->plan;
      if (!plan.faults.empty())
        std::memset(workspace_.data(), 0, plan.faults.size() * sizeof(int64_t));
      switch (active_->program.run(left)) {
      case Program::Outcome::Done:
        return plan.faults.empty() ? Status::ok() : checkFaults();
      case Program::Outcome::TimedOut:
        return {Code::DeadlineExceeded, "native: the deadline passed in a loop of the network"};
      case Program::Outcome::OtherValues:
        if (Status s = replan(); !s)
          return s;
      }
    }
  }

  TensorView output(size_t index) override {
    return view(outputs_[index], signature_.outputs[index]);
  }

private:
  static TensorView view(Slot &slot, const TensorSpec &spec) {
    if (!slot.isSized)
      return {spec.type, nullptr, 0, {}};
    return {spec.type, slot.memory.data(), slot.count, slot.shape};
  }

  static Status setShape(Slot &slot, ElementType type, Span<const int64_t> shape) {
    const std::optional<size_t> count = elementCount(shape);
    if (!count || *count > SIZE_MAX / 16)
      return {Code::LimitExceeded, "too many elements in " + toString(shape)};
    // Never without memory: a kernel may look at the address.
    if (Status s = slot.memory.resize(std::max<size_t>(*count * sizeOf(type), 1)); !s)
      return s;
    slot.shape.assign(shape.begin(), shape.end());
    slot.count = *count;
    slot.isSized = true;
    return Status::ok();
  }

  /// So that lengths up to a declared maximum don't move the buffer.
  static Status reserveMost(Slot &slot, const TensorSpec &spec) {
    constexpr size_t Most = size_t(1) << 26;
    Shape longest = spec.shape;
    for (size_t i = 0; i < longest.size(); ++i)
      if (longest[i] == Dynamic)
        longest[i] = spec.maximum.empty() ? 0 : spec.maximum[i];
    const std::optional<size_t> count = elementCount(longest);
    return count && *count < Most / 8 ? slot.memory.reserve(*count * sizeOf(spec.type))
                                      : Status::ok();
  }

  bool isFor(const Bound &bound) const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (bound.plan->inputs[i].shape != inputs_[i].shape)
        return false;
    return true;
  }

  /// Makes a program for the inputs' shapes the active one.
  Status prepare(bool hasValues) {
    if (unsized_)
      return {Code::InvalidArgument, "an input was neither set nor resized"};
    for (const std::unique_ptr<Bound> &bound : bound_)
      if (isFor(*bound))
        return activate(bound.get());
    Expected<std::shared_ptr<const Plan>> plan = makePlan(hasValues);
    if (!plan)
      return plan.status();
    return *plan ? bind(std::move(*plan)) : Status::ok();
  }

  /// The active program was made for other values: tries those there are, and then makes one.
  Status replan() {
    Bound *const failed = active_;
    for (size_t i = 0; i < bound_.size(); ++i)
      if (bound_[i].get() != failed && isFor(*bound_[i])) {
        if (Status s = activate(bound_[i].get()); !s)
          return s;
        const Program::Outcome outcome = active_->program.run(Duration::max());
        if (outcome == Program::Outcome::Done)
          return Status::ok(); // and is run again, which costs no more than planning
      }
    Expected<std::shared_ptr<const Plan>> plan = makePlan(true);
    if (!plan)
      return plan.status();
    return bind(std::move(*plan));
  }

  Expected<std::shared_ptr<const Plan>> makePlan(bool hasValues) {
    std::vector<Shape> shapes;
    std::vector<const void *> data;
    for (const Slot &input : inputs_) {
      shapes.push_back(input.shape);
      data.push_back(input.memory.data());
    }
    return network_->plan(shapes, hasValues ? data.data() : nullptr);
  }

  Status bind(std::shared_ptr<const Plan> plan) {
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!checkShape(signature_.outputs[i], plan->outputs[i].shape))
        return {Code::PolicyFailed, "native: output '" + signature_.outputs[i].toString() +
                                        "' is in fact " + plan->outputs[i].toString()};
    auto bound = std::make_unique<Bound>();
    bound->plan = std::move(plan);
    if (bound_.size() >= ProgramsKept)
      bound_.erase(bound_.begin());
    bound_.push_back(std::move(bound));
    return activate(bound_.back().get());
  }

  Status activate(Bound *bound) {
    active_ = nullptr;
    const Plan &plan = *bound->plan;
    const uint8_t *const before = workspace_.data();
    if (Status s = workspace_.resize(std::max<size_t>(plan.workspace, workspace_.size())); !s)
      return s.withContext("native: the workspace");
    bool moved = workspace_.data() != before;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const uint8_t *const old = outputs_[i].memory.data();
      if (Status s = setShape(outputs_[i], signature_.outputs[i].type, plan.outputs[i].shape); !s)
        return s.withContext("output '" + signature_.outputs[i].name + "'");
      moved |= outputs_[i].memory.data() != old;
    }
    if (moved)
      for (const std::unique_ptr<Bound> &other : bound_)
        other->program = Program();
    if (bound->program.isEmpty())
      if (Status s = link(*bound); !s)
        return s;
    active_ = bound;
    return Status::ok();
  }

  Status link(Bound &bound) {
    const Plan &plan = *bound.plan;
    std::vector<void *> operands;
    bound.program.reserve(plan.steps.size(), plan.operands.size());
    for (const Step &step : plan.steps) {
      operands.clear();
      for (uint32_t i = 0; i < step.operandCount; ++i)
        operands.push_back(address(plan, plan.operands[step.firstOperand + i]));
      bound.program.add(step.kind, step.kernel, operands,
                        plan.parameters.data() + step.firstParameter);
    }
    return bound.program.finish();
  }

  void *address(const Plan &plan, const Operand &operand) {
    switch (operand.place) {
    case Place::None:
      return nullptr;
    case Place::Input:
      return inputs_[operand.index].memory.data() + operand.offset;
    case Place::Output:
      return outputs_[operand.index].memory.data() + operand.offset;
    case Place::Workspace:
      return workspace_.data() + operand.offset;
    case Place::Constant:
      return const_cast<uint8_t *>(plan.constants[operand.index]->data()) + operand.offset;
    }
    return nullptr;
  }

  Status checkFaults() const {
    for (const Fault &fault : active_->plan->faults) {
      int64_t set = 0;
      std::memcpy(&set, workspace_.data() + fault.offset, sizeof set);
      if (set)
        return {Code::PolicyFailed,
                "native: " + active_->plan->nodes[fault.node] + ": an index is out of range"};
    }
    return Status::ok();
  }

  const std::shared_ptr<Network> network_;
  const Signature signature_;
  std::vector<Slot> inputs_, outputs_;
  Buffer workspace_;
  size_t unsized_ = 0;
  std::vector<std::unique_ptr<Bound>> bound_;
  Bound *active_ = nullptr;
};

class NativeModel final : public ModelBackend {
public:
  explicit NativeModel(std::shared_ptr<Network> network) : network_(std::move(network)) {}
  const Metadata &metadata() const override { return network_->metadata(); }
  const Signature *signature() const override { return &network_->signature(); }
  Expected<std::unique_ptr<RunnerBackend>> newRunner(const Signature &bound,
                                                     const OpenOptions &) override {
    auto runner = std::make_unique<NativeRunner>(network_, bound);
    if (Status s = runner->create(); !s)
      return s;
    return std::unique_ptr<RunnerBackend>(std::move(runner));
  }

private:
  const std::shared_ptr<Network> network_;
};

} // namespace
} // namespace native

Expected<std::shared_ptr<ModelBackend>> openNative(const Uri &uri) {
  for (const auto &[key, value] : uri.options)
    return Status(Code::InvalidArgument,
                  "unknown option '" + key +
                      "' of a native model; it takes deadline, agent, episode and context, as "
                      "every model does");
  Expected<std::shared_ptr<native::Network>> network = native::Network::open(uri.place);
  if (!network)
    return network.status();
  return std::shared_ptr<ModelBackend>(std::make_shared<native::NativeModel>(std::move(*network)));
}

} // namespace mlbridge
