// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scheme native: a Network behind a Model, and programs over buffers behind its Runners.
#include "core/message.h"
#include "engine/backends.h"

#include "engine/native/network.h"

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
  SharedPlan plan;
  Program program;
  Buffer values;               ///< what the plan was made for, if shapes depend on values
  std::vector<size_t> offsets; ///< of the values that it computes, and their size

  bool decides() const { return !plan->decisions.empty(); }
};

/// What is marked cold isn't part of an evaluation, and is compiled for size.
class NativeRunner final : public RunnerBackend {
public:
  NativeRunner(std::shared_ptr<Network> network, const Signature &bound)
      : network_(std::move(network)), signature_(bound) {}

  [[gnu::cold]] Status create(const Deadline &deadline) {
    inputs_.resize(signature_.inputs.size());
    outputs_.resize(signature_.outputs.size());
    bool areSized = true;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorSpec &spec = signature_.inputs[i];
      inputs_[i].shape = spec.shape;
      if (spec.isDynamic()) {
        areSized = false;
        if (Status s = reserveMost(inputs_[i], spec); !s)
          return s.withContext(join("input '", spec.name, "'"));
        continue;
      }
      if (Status s = setShape(inputs_[i], spec.type, spec.shape); !s)
        return s.withContext(join("input '", spec.name, "'"));
      std::memset(inputs_[i].memory.data(), 0, inputs_[i].memory.size());
    }
    return areSized ? prepare(deadline) : Status();
  }

  TensorView input(size_t index) override { return view(inputs_[index], signature_.inputs[index]); }

  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    Slot &slot = inputs_[index];
    const TensorSpec &spec = signature_.inputs[index];
    const uint8_t *before = slot.memory.data();
    const std::optional<size_t> count = elementCount(shape);
    if (!count || *count > network_->memoryLimit() / sizeOf(spec.type))
      return makeError(Code::LimitExceeded, "input '", spec.name, "': too many elements in ",
                       toString(shape));
    slot.isSized = false;
    if (Status s = setShape(slot, spec.type, shape); !s)
      return s.withContext(join("input '", spec.name, "'"));
    if (slot.memory.data() != before)
      bound_.clear(); // they have the old address
    active_ = deciding_ = nullptr;
    return view(slot, spec);
  }

  Status evaluate(Duration left) override {
    if (left <= Duration::zero())
      return makeError(Code::DeadlineExceeded, "native: the deadline had passed before the call");
    if (deciding_ || !active_)
      if (Status s = choose(Deadline::after(left)); !s)
        return s;
    return run(*active_, left);
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
      return makeError(Code::LimitExceeded, "too many elements in ", toString(shape));
    // An empty tensor has memory, too: a kernel may look at the address.
    if (Status s = slot.memory.resize(std::max<size_t>(*count * sizeOf(type), 1)); !s)
      return s;
    slot.shape.assign(shape.begin(), shape.end());
    slot.count = *count;
    slot.isSized = true;
    return Status();
  }

  /// Takes memory for a declared maximum, so that lengths up to it don't move the buffer.
  [[gnu::cold]] static Status reserveMost(Slot &slot, const TensorSpec &spec) {
    constexpr size_t Most = size_t(1) << 26;
    Shape longest = spec.shape;
    for (size_t i = 0; i < longest.size(); ++i)
      if (longest[i] == Dynamic)
        longest[i] = spec.maximum.empty() ? 0 : spec.maximum[i];
    const std::optional<size_t> count = elementCount(longest);
    return count && *count < Most / 8 ? slot.memory.reserve(*count * sizeOf(spec.type)) : Status();
  }

  static bool isFor(const Bound &bound, Span<const uint8_t> values) {
    return bound.values.size() == values.size() &&
           (values.empty() || std::memcmp(bound.values.data(), values.data(), values.size()) == 0);
  }
  /// A plan for the inputs' shapes, and these values if it is one for values.
  Bound *find(Span<const uint8_t> values) {
    for (const std::unique_ptr<Bound> &bound : bound_) {
      bool isIt = isFor(*bound, values);
      for (size_t i = 0; isIt && i < inputs_.size(); ++i)
        isIt = bound->plan->inputs[i].shape == inputs_[i].shape;
      if (isIt)
        return bound.get();
    }
    return nullptr;
  }

  [[gnu::cold]] Expected<Bound *> make(const Deadline &deadline, const Settled &settled,
                                       Span<const uint8_t> values) {
    std::vector<Shape> shapes;
    for (const Slot &input : inputs_)
      shapes.push_back(input.shape);
    Expected<SharedPlan> plan = network_->plan(shapes, deadline, settled);
    if (!plan)
      return plan.status();
    auto bound = std::make_unique<Bound>();
    bound->plan = std::move(*plan);
    if (Status s = bound->values.append(values.data(), values.size()); !s)
      return s;
    bound->offsets.push_back(0);
    for (const TensorSpec &spec : bound->plan->outputs)
      bound->offsets.push_back(bound->offsets.back() + (bytesOf(spec) + 64) / 64 * 64);
    if (bound_.size() >= ProgramsKept)
      bound_.erase(bound_.begin() + (bound_.front().get() == deciding_));
    bound_.push_back(std::move(bound));
    return bound_.back().get();
  }

  /// Makes a program for the inputs' shapes: the active one, or the one that decides which it is.
  [[gnu::cold]] Status prepare(const Deadline &deadline) {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!inputs_[i].isSized)
        return makeError(Code::InvalidArgument, "input '", signature_.inputs[i].name,
                         "' was neither set nor resized");
    Expected<Bound *> bound = find({});
    if (!*bound)
      bound = make(deadline, {}, {});
    if (!bound)
      return bound.status();
    if (Status s = activate(**bound); !s)
      return s;
    ((*bound)->decides() ? deciding_ : active_) = *bound;
    return Status();
  }

  /// Makes the program for the inputs' shapes and values the active one.
  Status choose(const Deadline &deadline) {
    if (!deciding_)
      if (Status s = prepare(deadline); !s || active_)
        return s;
    if (deciding_->program.isEmpty())
      if (Status s = activate(*deciding_); !s)
        return s;
    const std::vector<size_t> &offsets = deciding_->offsets;
    std::memset(values_.data(), 0, offsets.back());
    if (Status s = run(*deciding_, deadline.left()); !s)
      return s;
    const Span<const uint8_t> values(values_.data(), offsets.back());
    if (active_ && isFor(*active_, values))
      return Status();
    active_ = nullptr;
    Expected<Bound *> bound = find(values);
    if (!*bound) {
      std::vector<const void *> at;
      for (const size_t offset : offsets)
        at.push_back(values_.data() + offset);
      bound = make(deadline, {deciding_->plan.get(), at.data()}, values);
    }
    if (!bound)
      return bound.status();
    if (Status s = activate(**bound); !s)
      return s;
    active_ = *bound;
    return Status();
  }

  Status run(const Bound &bound, Duration left) {
    const std::vector<Fault> &faults = bound.plan->faults;
    if (!faults.empty())
      std::memset(workspace_.data(), 0, faults.size() * sizeof(int64_t));
    if (!bound.program.run(left))
      return makeError(Code::DeadlineExceeded,
                       "native: the deadline passed while the network was evaluated");
    for (const Fault &fault : faults) {
      int64_t set = 0;
      std::memcpy(&set, workspace_.data() + fault.offset, sizeof set);
      if (set)
        return makeError(Code::PolicyFailed, "native: ", bound.plan->nodes[fault.node],
                         ": an index is out of range");
    }
    return Status();
  }

  /// Gives its results their place, and links it.
  [[gnu::cold]] Status activate(Bound &bound) {
    const Plan &plan = *bound.plan;
    bool moved = false;
    const auto grow = [&moved](Buffer &buffer, size_t size) {
      const uint8_t *const before = buffer.data();
      Status s = buffer.resize(std::max(size, buffer.size()));
      moved |= buffer.data() != before;
      return s.withContext("native: the workspace");
    };
    if (Status s = grow(workspace_, plan.workspace); !s)
      return s;
    if (bound.decides())
      if (Status s = grow(values_, bound.offsets.back()); !s)
        return s;
    for (size_t i = 0; !bound.decides() && i < outputs_.size(); ++i) {
      const TensorSpec &spec = signature_.outputs[i];
      if (!checkShape(spec, plan.outputs[i].shape))
        return makeError(Code::PolicyFailed, "native: output '", spec.toString(), "' is in fact ",
                         plan.outputs[i].toString());
      const uint8_t *const old = outputs_[i].memory.data();
      if (Status s = setShape(outputs_[i], spec.type, plan.outputs[i].shape); !s)
        return s.withContext(join("output '", spec.name, "'"));
      moved |= outputs_[i].memory.data() != old;
    }
    if (moved)
      for (const std::unique_ptr<Bound> &other : bound_)
        other->program = Program();
    return bound.program.isEmpty() ? link(bound) : Status();
  }

  [[gnu::cold]] Status link(Bound &bound) {
    std::vector<uint8_t *> inputs, outputs;
    for (Slot &input : inputs_)
      inputs.push_back(input.memory.data());
    for (size_t i = 0; i < bound.plan->outputs.size(); ++i)
      outputs.push_back(bound.decides() ? values_.data() + bound.offsets[i]
                                        : outputs_[i].memory.data());
    return bound.program.link(*bound.plan, inputs, outputs, workspace_.data());
  }

  const std::shared_ptr<Network> network_;
  const Signature signature_;
  std::vector<Slot> inputs_, outputs_;
  Buffer workspace_;
  Buffer values_; ///< on which shapes depend
  std::vector<std::unique_ptr<Bound>> bound_;
  Bound *active_ = nullptr;
  Bound *deciding_ = nullptr; ///< says for which values the active one has to be
};

class NativeModel final : public ModelBackend {
public:
  explicit NativeModel(std::shared_ptr<Network> network) : network_(std::move(network)) {}
  const Metadata &metadata() const override { return network_->metadata(); }
  const Signature *signature() const override { return &network_->signature(); }
  [[gnu::cold]] Expected<std::unique_ptr<RunnerBackend>>
  newRunner(const Signature &bound, const CallContext &, Duration deadline) override {
    auto runner = std::make_unique<NativeRunner>(network_, bound);
    if (Status s = runner->create(Deadline::after(deadline)); !s)
      return s;
    return std::unique_ptr<RunnerBackend>(std::move(runner));
  }

private:
  const std::shared_ptr<Network> network_;
};

} // namespace
} // namespace native

[[gnu::cold]] Expected<std::shared_ptr<ModelBackend>>
openNative(const Uri &uri, const OpenOptions &options, const Span<const uint8_t> *model) {
  if (Status s = uri.allowOnly({"memory"}); !s)
    return s;
  if (const auto wanted = wantedInstructionSet(); !wanted)
    return wanted.status();
  native::Limits limits;
  const Expected<uint64_t> memory = uri.number("memory", limits.memory);
  if (!memory)
    return memory.status();
  limits.deadline = Deadline::after(deadlineOf(options));
  limits.memory = std::min(*memory, uint64_t(1) << 40);
  Expected<std::shared_ptr<native::Network>> network =
      native::Network::open(uri.place, limits, model);
  if (!network)
    return network.status();
  return std::shared_ptr<ModelBackend>(std::make_shared<native::NativeModel>(std::move(*network)));
}

} // namespace mlbridge
