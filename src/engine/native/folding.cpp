// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computation while a network is planned: constants, within a budget, and nothing else. Values of
// inputs on which shapes depend are left to a plan of their own.
#include "engine/native/planner.h"

#include <algorithm>
#include <cstring>

namespace mlbridge::native {
namespace {

// The budget of computations beforehand: bytes that are kept, besides those of files, and work of
// about a nanosecond.
constexpr uint64_t MostFolded = uint64_t(1) << 26, MostFoldedWork = uint64_t(1) << 28;
constexpr uint64_t FoldedOfFiles = 12, WorkOfBytes = 4; ///< for each byte of the files, and of that
constexpr size_t LargestDecision = size_t(1) << 22;     // bytes

Status tooLate() {
  return {Code::DeadlineExceeded, "the deadline passed while the network was planned"};
}

} // namespace

Planner::Planner(const onnx::Model &model, Weights &weights, const Limits &limits,
                 const Settled &settled, const MissingFeatures &missing)
    : model_(model), weights_(weights), limits_(limits), settled_(settled), missing_(missing) {
  foldedBytes_ = MostFolded + FoldedOfFiles * weights.size();
  foldedWork_ = MostFoldedWork + WorkOfBytes * foldedBytes_;
}

uint8_t *Planner::memoryOf(Value *value) {
  if (!value)
    return nullptr;
  Value *root = value->root;
  if (root->constant)
    return const_cast<uint8_t *>(root->constant->data()) + value->offset;
  if (root->place == Place::Input)
    return nullptr;
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
  if (Status s = program.finish(true); !s)
    return s;
  if (!program.run(limits_.deadline.left()))
    return fail(tooLate());
  for (Value *fault : faults_) {
    const auto memory = memory_.find(fault);
    int64_t set = 0;
    if (memory == memory_.end())
      continue;
    std::memcpy(&set, memory->second.data(), sizeof set);
    if (set)
      return {Code::InvalidModel, "an index is out of range"};
  }
  return Status();
}

// clang-format off
/// About how many nanoseconds a kernel takes for an element of its operands when memory and values
/// are at their worst.
static uint64_t slowestOf(KernelId kernel) {
#define MLBRIDGE_F32(name) case KernelId::name##F32:
#define MLBRIDGE_F64(name) case KernelId::name##F64:
#define MLBRIDGE_BOTH(name) MLBRIDGE_F32(name) MLBRIDGE_F64(name)
  switch (kernel) {
  MLBRIDGE_NATIVE_FLOAT_UNARY(MLBRIDGE_F32)
  MLBRIDGE_NATIVE_FLOAT_BINARY(MLBRIDGE_F32)
  MLBRIDGE_F64(Add) MLBRIDGE_F64(Sub) MLBRIDGE_F64(Mul) MLBRIDGE_F64(Div)
  MLBRIDGE_BOTH(PackGemm)
  case KernelId::PackRecurrent:
  case KernelId::F32FromF16:
  case KernelId::F16FromF32:
  case KernelId::Copy:
  case KernelId::Fill:
  case KernelId::Convert:
    return 6;
  MLBRIDGE_BOTH(ReduceSum) MLBRIDGE_BOTH(ReduceMean) MLBRIDGE_BOTH(ReduceMax)
  MLBRIDGE_BOTH(ReduceMin) MLBRIDGE_BOTH(CumSum)
  case KernelId::Cast:
  case KernelId::Compare:
  case KernelId::Dequantize:
  case KernelId::IntegerBinary:
  case KernelId::Gather:
  case KernelId::PackBytes:
  case KernelId::Quantize:
  case KernelId::Where:
    return 12;
  case KernelId::CopyStrided:
  case KernelId::GatherElements:
  case KernelId::ScatterElements:
  case KernelId::ScatterNd:
    return 24;
  MLBRIDGE_NATIVE_FLOAT_UNARY(MLBRIDGE_F64)
  MLBRIDGE_F64(Pow) MLBRIDGE_F64(Softmax) MLBRIDGE_F64(LogSoftmax) MLBRIDGE_F64(ReduceLogSumExp)
    return 96;
  case KernelId::Fmod: // by the bit, where the exponents are far apart
    return 1024;
  default: // all over the memory, or element by element
    return 48;
  }
#undef MLBRIDGE_F32
#undef MLBRIDGE_F64
#undef MLBRIDGE_BOTH
}
// clang-format on

/// About how many nanoseconds steps take, as a rule or at worst; nothing if a loop has no known
/// end.
std::optional<uint64_t> Planner::workOf(size_t from, size_t to, bool atWorst) const {
  constexpr uint64_t ForStep = 64, ForElement = 4, ForSorted = 64;
  double all = 0, rounds = 1;
  std::vector<double> outer;
  for (size_t i = from; i < to; ++i) {
    const Draft &draft = steps_[i];
    if (draft.kind == Step::Kind::Loop) {
      const Value *trips = draft.operands[1];
      if (!trips || !trips->isConstant())
        return std::nullopt;
      int64_t most = 0;
      std::memcpy(&most, trips->constantBytes(), sizeof most);
      outer.push_back(rounds);
      rounds *= static_cast<double>(std::max<int64_t>(most, 0));
    }
    uint64_t work = ForStep + draft.multiplyAdds;
    const bool sorts = draft.kernel == KernelId::TopK || draft.kernel == KernelId::Unique ||
                       draft.kernel == KernelId::SuppressOverlaps;
    const uint64_t forElement = sorts ? ForSorted : atWorst ? slowestOf(draft.kernel) : ForElement;
    for (const Value *value : draft.operands)
      work += value ? forElement * value->count : 0;
    all += rounds * static_cast<double>(work);
    if (draft.kind == Step::Kind::EndLoop) {
      rounds = outer.back();
      outer.pop_back();
    }
  }
  return all < 1e18 ? std::optional<uint64_t>(all) : std::nullopt;
}

bool Planner::isLate() {
  // It takes time as well to give memory back.
  constexpr Duration ForEach = std::chrono::nanoseconds(128);
  if (limits_.deadline.left() <= ForEach * static_cast<int64_t>(values_.size() + steps_.size()))
    fail(tooLate());
  return !status_;
}

bool Planner::hasTimeFor(uint64_t work) {
  constexpr Duration Little = std::chrono::milliseconds(10);
  if (limits_.deadline.isNever())
    return true;
  const Duration left = limits_.deadline.left();
  if (left == Duration::zero() || work > static_cast<uint64_t>((left + Little).count()))
    fail(tooLate());
  return bool(status_);
}

// Steps that depend on constants alone are done now, and their results are constants then.
Status Planner::fold(size_t firstStep, uint32_t firstValue) {
  if (firstStep == steps_.size())
    return Status();
  uint64_t bytes = 0;
  for (size_t i = firstStep; i < steps_.size(); ++i)
    for (const Value *value : steps_[i].operands)
      if (value && !value->isConstant() && value->root->id < firstValue)
        return Status();
  for (size_t id = firstValue; id < values_.size(); ++id)
    if (values_[id].root == &values_[id] && !values_[id].constant)
      bytes += std::max<size_t>(values_[id].capacity, Buffer::Padding);
  const std::optional<uint64_t> work = workOf(firstStep, steps_.size());
  if (!work || bytes > foldedBytes_ || *work > foldedWork_)
    return status_; // it is done in each evaluation
  // Memory is slow when it is new, and given back: about a nanosecond for each byte.
  const uint64_t slowest = workOf(firstStep, steps_.size(), true).value_or(*work) + bytes;
  if (!hasTimeFor(std::max(*work, slowest)))
    return status_;
  foldedBytes_ -= bytes;
  foldedWork_ -= *work;
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
  return Status();
}

Value *Planner::packed(KernelId kernel, ElementType type, const Shape &shape, Value *x,
                       const Integers &parameters) {
  SharedBytes *kept = nullptr;
  if (const onnx::Tensor *tensor = x->root->initializer) {
    Integers key{static_cast<int64_t>(kernel), static_cast<int64_t>(x->offset)};
    key.insert(key.end(), parameters.begin(), parameters.end());
    kept = &weights_.packed(tensor, std::move(key));
    if (*kept)
      return constant(type, shape, *kept);
  }
  const size_t firstStep = steps_.size();
  Value *y = make(type, shape);
  emit(kernel, {y}, {x}, parameters);
  if (x->isConstant() && status_) // all of it is written: it needn't be zeroed
    fail(memory_[y].resize(std::max<size_t>(y->capacity, 64)));
  if (Status s = fold(firstStep, y->id); !s)
    fail(s);
  memory_.erase(y);
  if (kept)
    *kept = y->constant;
  return y;
}

// ---- values on which shapes depend -------------------------------------------------------------

// There is no second round: what has to be known is computed from inputs, constants and shapes that
// need no such value themselves, by one plan before the one that is made with it.

Status Planner::unsettled(const std::string &why) {
  isUnsettled_ = true;
  return fail({Code::Unsupported, why + ", which native cannot work out before evaluating"});
}

bool Planner::settle(const Values &values) {
  bool areKnown = bool(status_);
  for (Value *value : values) {
    if (!status_ || !value || value->isConstant() || value->settled)
      continue;
    const uint64_t id = uint64_t(planned_) << 8 | nextDecision_++;
    if (!blocks_.empty()) {
      (void)unsettled("a shape in a branch or a loop depends on what is computed");
    } else if (value->isUnknown) {
      (void)unsettled("a shape depends on values whose own shape depends on values");
    } else if (value->capacity > LargestDecision || value->count > LargestDecision) {
      fail({Code::LimitExceeded, "shapes depend on the values of a tensor of shape " +
                                     toString(value->shape) + ", which is too large"});
    } else if (!settled_.plan) {
      if (std::find(decisions_.begin(), decisions_.end(), value) == decisions_.end()) {
        decisions_.push_back(value);
        decisionIds_.push_back(id);
      }
    } else {
      const std::vector<uint64_t> &ids = settled_.plan->decisions;
      const auto at = std::find(ids.begin(), ids.end(), id);
      if (at == ids.end())
        fail({Code::LimitExceeded, "the values that shapes depend on are too expensive to compute "
                                   "before the evaluation"});
      else
        value->settled = settled_.values[at - ids.begin()];
    }
    areKnown = areKnown && value->settled;
  }
  node_.isPending = node_.isPending || !areKnown;
  return areKnown && status_;
}

const uint8_t *Planner::bytesOf(Value *value) {
  if (!status_)
    return nullptr;
  if (!value->isConstant() && !value->settled) // what this very node has made of constants
    foldNode();
  if (!status_)
    return nullptr;
  if (value->isConstant())
    return value->constantBytes();
  if (settle({value}))
    return static_cast<const uint8_t *>(value->settled);
  if (status_) {
    fail({Code::Unsupported, "a shape depends on values"});
    node_.isWaiting = true; // and that is no failure
  }
  return nullptr;
}

} // namespace mlbridge::native
