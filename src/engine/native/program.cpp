// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/program.h"

#include <cstring>

namespace mlbridge::native {

void Program::add(Step::Kind kind, KernelId kernel, Span<void *const> operands,
                  const int64_t *parameters) {
  added_.push_back({kind, kernel, operands_.size(), parameters});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
}

Status Program::finish(bool isLong) {
  const Kernel *kernels = kernelsFor(bestInstructionSet());
  std::vector<size_t> open;
  bool hasControl = isLong;
  code_.reserve(added_.size());
  for (const Added &step : added_) {
    Kernel kernel = nullptr;
    if (step.kind == Step::Kind::Kernel) {
      kernel = kernels ? kernels[static_cast<size_t>(step.kernel)] : nullptr;
      if (!kernel)
        return {Code::Internal,
                "native: there is no kernel " + std::to_string(static_cast<int>(step.kernel))};
    } else {
      hasControl = true;
    }
    code_.push_back({kernel, operands_.data() + step.firstOperand, step.parameters});
  }
  if (hasControl) {
    controls_.resize(added_.size());
    for (size_t i = 0; i < added_.size(); ++i) {
      const Step::Kind kind = added_[i].kind;
      controls_[i] = {kind, i + 1};
      if (kind == Step::Kind::If || kind == Step::Kind::Loop) {
        open.push_back(i);
        continue;
      }
      if (kind == Step::Kind::Kernel)
        continue;
      if (open.empty())
        return {Code::Internal, "native: control flow that isn't nested"};
      const size_t begin = open.back();
      controls_[begin].target = i + 1;
      if (kind == Step::Kind::Else) {
        open.back() = i;
        continue;
      }
      open.pop_back();
      if (kind == Step::Kind::EndLoop)
        controls_[i].target = begin;
    }
    if (!open.empty())
      return {Code::Internal, "native: control flow that isn't nested"};
  }
  added_ = {};
  isLong_ = isLong;
  isFinished_ = true;
  return Status();
}

bool Program::run(Duration left) const {
  if (!controls_.empty())
    return runWithControl(left);
  for (const Instruction &i : code_)
    i.kernel(i.operands, i.parameters);
  return true;
}

static bool goesOn(void *const *operands) {
  const auto *trips = static_cast<const int64_t *>(operands[1]);
  const auto *condition = static_cast<const uint8_t *>(operands[2]);
  return (!trips || *static_cast<const int64_t *>(operands[0]) < *trips) &&
         (!condition || *condition);
}

bool Program::runWithControl(Duration left) const {
  std::optional<Deadline> deadline; // made with the first loop: reading the clock costs
  if (isLong_)
    deadline = Deadline::after(left);
  for (size_t at = 0; at < code_.size();) {
    const Instruction &i = code_[at];
    const Control &control = controls_[at];
    switch (control.kind) {
    case Step::Kind::Kernel:
      i.kernel(i.operands, i.parameters);
      if (isLong_ && deadline->hasPassed())
        return false;
      ++at;
      break;
    case Step::Kind::If:
      at = *static_cast<const uint8_t *>(i.operands[0]) ? at + 1 : control.target;
      break;
    case Step::Kind::Else:
      at = control.target;
      break;
    case Step::Kind::EndIf:
      ++at;
      break;
    case Step::Kind::Loop:
      if (!deadline)
        deadline = Deadline::after(left);
      *static_cast<int64_t *>(i.operands[0]) = 0;
      at = goesOn(i.operands) ? at + 1 : control.target;
      break;
    case Step::Kind::EndLoop: {
      if (deadline->hasPassed())
        return false;
      void *const *operands = code_[control.target].operands;
      ++*static_cast<int64_t *>(operands[0]);
      at = goesOn(operands) ? control.target + 1 : at + 1;
      break;
    }
    }
  }
  return true;
}

} // namespace mlbridge::native
