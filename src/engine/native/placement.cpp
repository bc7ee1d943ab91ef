// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The end of planning: steps that nobody needs go, and every value gets its place in the workspace
// for as long as it is needed.
#include "core/message.h"
#include "engine/native/planner.h"

#include <algorithm>

namespace mlbridge::native {
namespace {

constexpr uint64_t Alignment = 64;

uint64_t aligned(uint64_t size) { return (size + Alignment - 1) / Alignment * Alignment; }

/// True if the kernel may write over an operand that has as many elements as its result.
bool worksInPlace(KernelId id) {
  switch (id) {
#define MLBRIDGE_CASE(name)                                                                        \
  case KernelId::name##F32:                                                                        \
  case KernelId::name##F64:
    MLBRIDGE_NATIVE_FLOAT_UNARY(MLBRIDGE_CASE)
    MLBRIDGE_NATIVE_FLOAT_BINARY(MLBRIDGE_CASE)
    MLBRIDGE_CASE(Softmax)
    MLBRIDGE_CASE(LogSoftmax)
#undef MLBRIDGE_CASE
    return true;
  default:
    return false;
  }
}

/// First-fit in the gaps between the values that are alive.
class Arena {
public:
  explicit Arena(uint64_t begin) : size_(begin), begin_(begin) {}
  uint64_t take(uint64_t bytes) {
    bytes = std::max(aligned(bytes), Alignment);
    uint64_t at = begin_;
    auto next = taken_.begin();
    for (; next != taken_.end() && next->first - at < bytes; ++next)
      at = next->first + next->second;
    taken_.emplace_hint(next, at, bytes);
    size_ = std::max(size_, at + bytes);
    return at;
  }
  void release(uint64_t at) { taken_.erase(at); }
  uint64_t size() const { return size_; }

private:
  std::map<uint64_t, uint64_t> taken_; // offset to bytes
  uint64_t size_, begin_;
};

} // namespace

void Planner::removeDeadSteps(const Values &results) {
  std::vector<bool> needed(values_.size());
  const auto needAll = [&](const Values &values) {
    for (const Value *value : values)
      if (value)
        needed[value->root->id] = true;
  };
  needAll(results);
  // A value that a loop carries is written in it and read before that.
  std::vector<bool> written(values_.size()), carried(values_.size());
  size_t nesting = 0;
  for (const Draft &draft : steps_) {
    nesting += draft.kind == Step::Kind::Loop;
    nesting -= draft.kind == Step::Kind::EndLoop;
    for (uint32_t i = 0; i < draft.results; ++i)
      if (const Value *value = draft.operands[i]) {
        if (nesting && written[value->root->id])
          carried[value->root->id] = true;
        written[value->root->id] = true;
      }
  }
  const auto isRead = [&](const Draft &draft) {
    if (draft.kind == Step::Kind::Loop) // which writes its counter
      return bool(needed[draft.operands[0]->root->id]);
    return std::any_of(draft.operands.begin(), draft.operands.begin() + draft.results,
                       [&](const Value *v) { return v && needed[v->root->id]; });
  };
  // A branch or loop that makes nothing that is needed goes as a whole.
  std::vector<size_t> begins, ends(steps_.size()); // of each end its begin
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step::Kind kind = steps_[i].kind;
    if (kind == Step::Kind::If || kind == Step::Kind::Loop)
      begins.push_back(i);
    if (kind == Step::Kind::EndIf || kind == Step::Kind::EndLoop) {
      ends[i] = begins.back();
      begins.pop_back();
    }
  }
  std::vector<bool> keep(steps_.size());
  for (size_t i = steps_.size(); i-- > 0;) {
    const Draft &draft = steps_[i];
    const bool isEnd = draft.kind == Step::Kind::EndIf || draft.kind == Step::Kind::EndLoop;
    if (isEnd &&
        std::none_of(steps_.begin() + ptrdiff_t(ends[i]), steps_.begin() + ptrdiff_t(i), isRead)) {
      i = ends[i];
      continue;
    }
    if (isEnd) { // which looks at the operands of its begin again
      needAll(steps_[ends[i]].operands);
      for (size_t inside = ends[i]; inside < i; ++inside)
        for (uint32_t r = 0; r < steps_[inside].results; ++r)
          if (const Value *value = steps_[inside].operands[r]; value && carried[value->root->id])
            needed[value->root->id] = true;
    }
    keep[i] = draft.kind != Step::Kind::Kernel || isRead(draft);
    if (keep[i])
      needAll(draft.operands);
  }
  steps_.erase(
      std::remove_if(steps_.begin(), steps_.end(),
                     [&](const Draft &draft) { return !keep[size_t(&draft - steps_.data())]; }),
      steps_.end());
}

// The offset of a root in the workspace becomes that of its bytes there.
Status Planner::placeValues(Plan &plan) {
  struct Life {
    size_t first = SIZE_MAX, last = 0;
  };
  std::vector<Life> lives(values_.size());
  struct Loop {
    size_t begin, end;
    int parent;
  };
  std::vector<Loop> loops;
  std::vector<int> within(steps_.size()); // the innermost loop of each step, its marks included
  int open = -1;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].kind == Step::Kind::Loop) {
      loops.push_back({i, i, open});
      open = static_cast<int>(loops.size()) - 1;
    }
    within[i] = open;
    const auto touch = [&](const Values &operands) {
      for (const Value *value : operands) {
        if (!value || value->root->place != Place::Workspace)
          continue;
        Life &life = lives[value->root->id];
        life.first = std::min(life.first, i);
        life.last = std::max(life.last, i);
      }
    };
    touch(steps_[i].operands);
    if (steps_[i].kind == Step::Kind::EndLoop) { // which looks at the counter again
      touch(steps_[loops[open].begin].operands);
      loops[open].end = i;
      open = loops[open].parent;
    }
  }
  // A value that lives both inside and outside of a loop lives all through it.
  for (Life &life : lives)
    if (life.first != SIZE_MAX) {
      size_t first = life.first, last = life.last;
      for (int loop = within[life.first]; loop >= 0 && loops[loop].end < life.last;
           loop = loops[loop].parent)
        first = loops[loop].begin;
      for (int loop = within[life.last]; loop >= 0 && loops[loop].begin > life.first;
           loop = loops[loop].parent)
        last = loops[loop].end;
      life = {first, last};
    }
  std::vector<Values> dying(steps_.size()), born(steps_.size());
  for (Value &value : values_) {
    const Life &life = lives[value.id];
    if (life.first == SIZE_MAX || &value != value.root)
      continue;
    born[life.first].push_back(&value);
    dying[life.last].push_back(&value);
  }

  uint64_t faults = 0;
  std::vector<bool> isFault(values_.size());
  for (Value *fault : faults_) {
    const Life &life = lives[fault->id];
    if (fault->constant || life.first == SIZE_MAX)
      continue;
    isFault[fault->id] = true;
    fault->offset = faults;
    plan.faults.push_back({faults, steps_[life.first].node});
    faults += sizeof(int64_t);
  }
  Arena arena(aligned(faults));
  std::vector<bool> taken(values_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (isLate())
      return status_;
    const Draft &draft = steps_[i];
    Value *result = draft.results == 1 && draft.operands[0] ? draft.operands[0]->root : nullptr;
    if (draft.kind == Step::Kind::Kernel && worksInPlace(draft.kernel) &&
        result->place == Place::Workspace && lives[result->id].first == i)
      for (size_t o = 1; o < draft.operands.size(); ++o) {
        Value *from = draft.operands[o] ? draft.operands[o]->root : nullptr;
        if (!from || from->place != Place::Workspace || lives[from->id].last != i ||
            lives[from->id].first == i || from->capacity != result->capacity ||
            draft.operands[o]->count != draft.operands[0]->count || draft.operands[o]->offset ||
            std::count_if(draft.operands.begin(), draft.operands.end(),
                          [&](const Value *v) { return v && v->root == from; }) != 1)
          continue;
        result->offset = from->offset;
        taken[result->id] = true;
        dying[i].erase(std::find(dying[i].begin(), dying[i].end(), from));
        break;
      }
    for (Value *value : born[i])
      if (!isFault[value->id] && !taken[value->id])
        value->offset = arena.take(value->capacity);
    for (Value *value : dying[i])
      if (!isFault[value->id])
        arena.release(value->offset);
  }
  plan.workspace = arena.size();
  return Status();
}

Expected<SharedPlan> Planner::finish(const std::vector<TensorSpec> &inputs,
                                     const std::vector<TensorSpec> &outputs,
                                     const Values &results) {
  auto plan = std::make_shared<Plan>();
  plan->inputs = inputs;
  plan->outputs = outputs;
  plan->decisions = decisionIds_;
  nodes_.emplace_back("the outputs");
  for (size_t i = 0; i < results.size(); ++i) {
    Value *value = results[i];
    Value *root = value->root;
    if (root->place == Place::Workspace && value->offset == 0 &&
        root->capacity == value->count * sizeOf(value->type)) {
      root->place = Place::Output;
      root->index = static_cast<uint32_t>(i);
      continue;
    }
    Value *copy = make(value->type, value->shape);
    copy->place = Place::Output;
    copy->index = static_cast<uint32_t>(i);
    emit(KernelId::Copy, {copy}, {value}, {static_cast<int64_t>(copy->capacity)});
  }
  if (!status_)
    return status_;
  Values roots;
  for (Value &value : values_)
    if (value.place == Place::Output)
      roots.push_back(&value);
  removeDeadSteps(roots);
  if (Status s = placeValues(*plan); !s)
    return s;
  // Each is at most what a value may have, so that there is no overflow.
  double bytes = static_cast<double>(plan->workspace);
  for (const std::vector<TensorSpec> *specs : {&plan->inputs, &plan->outputs})
    for (const TensorSpec &spec : *specs)
      bytes += static_cast<double>(native::bytesOf(spec));
  if (bytes > static_cast<double>(limits_.memory))
    return makeError(Code::LimitExceeded, "an evaluation needs ", static_cast<uint64_t>(bytes),
                     " bytes; the limit is ", limits_.memory, " (option memory)");

  std::unordered_map<const Buffer *, uint32_t> constants;
  std::unordered_map<uint32_t, uint32_t> nodes;
  const auto nodeOf = [&](uint32_t node) {
    const auto [it, isNew] = nodes.emplace(node, static_cast<uint32_t>(plan->nodes.size()));
    if (isNew)
      plan->nodes.push_back(nodes_[node]);
    return it->second;
  };
  for (Fault &fault : plan->faults)
    fault.node = nodeOf(fault.node);
  for (Draft &draft : steps_) {
    if (plan->steps.size() % 256 == 0 && isLate())
      return status_;
    Step step = draft;
    step.node = nodeOf(draft.node);
    step.firstOperand = static_cast<uint32_t>(plan->operands.size());
    step.operandCount = static_cast<uint32_t>(draft.operands.size());
    step.firstParameter = static_cast<uint32_t>(plan->parameters.size());
    step.parameterCount = static_cast<uint32_t>(draft.parameters.size());
    plan->hasLoops |= step.kind == Step::Kind::Loop;
    for (const Value *value : draft.operands) {
      Operand operand;
      if (value) {
        const Value *root = value->root;
        operand.place = root->place;
        operand.index = root->index;
        operand.offset = value == root ? 0 : value->offset;
        if (root->place == Place::Constant) {
          const auto [it, isNew] = constants.emplace(root->constant.get(),
                                                     static_cast<uint32_t>(plan->constants.size()));
          if (isNew)
            plan->constants.push_back(root->constant);
          operand.index = it->second;
        } else if (root->place == Place::Workspace) {
          operand.offset += root->offset;
          operand.index = 0;
        }
      }
      plan->operands.push_back(operand);
    }
    plan->parameters.insert(plan->parameters.end(), draft.parameters.begin(),
                            draft.parameters.end());
    plan->steps.push_back(step);
  }
  constexpr uint64_t Long = 5'000'000;
  plan->multiplyAdds = multiplyAdds_;
  plan->isLong = workOf(0, steps_.size()).value_or(Long) >= Long;
  return SharedPlan(std::move(plan));
}

} // namespace mlbridge::native
