// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/plan.h"

#include <cstring>

namespace mlbridge::native {

void Program::add(Step::Kind kind, KernelId kernel, Span<void *const> operands,
                  const int64_t *parameters) {
  const Kernel *kernels = kernelsFor(bestInstructionSet());
  const bool isKernel = kind == Step::Kind::Kernel;
  code_.push_back({isKernel ? kernels[static_cast<size_t>(kernel)] : nullptr, nullptr, parameters});
  controls_.push_back({kind, operands_.size(), code_.size()});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
}

Status Program::link(const Plan &plan, Span<uint8_t *const> inputs, Span<uint8_t *const> outputs,
                     uint8_t *workspace) {
  const auto address = [&](const Operand &operand) -> uint8_t * {
    switch (operand.place) {
    case Place::None:
      return nullptr;
    case Place::Input:
      return inputs[operand.index] + operand.offset;
    case Place::Output:
      return outputs[operand.index] + operand.offset;
    case Place::Workspace:
      return workspace + operand.offset;
    case Place::Constant:
      return const_cast<uint8_t *>(plan.constants[operand.index]->data()) + operand.offset;
    }
    return nullptr;
  };
  code_.reserve(plan.steps.size());
  controls_.reserve(plan.steps.size());
  operands_.reserve(plan.operands.size());
  std::vector<void *> operands;
  for (const Step &step : plan.steps) {
    operands.clear();
    for (uint32_t i = 0; i < step.operandCount; ++i)
      operands.push_back(address(plan.operands[step.firstOperand + i]));
    add(step.kind, step.kernel, operands, plan.parameters.data() + step.firstParameter);
  }
  return finish(plan.isLong);
}

Status Program::finish(bool isLong) {
  Status notNested(Code::Internal, "native: control flow that isn't nested");
  std::vector<size_t> open;
  bool hasControl = isLong;
  for (size_t i = 0; i < code_.size(); ++i) {
    code_[i].operands = operands_.data() + controls_[i].firstOperand;
    const Step::Kind kind = controls_[i].kind;
    if (kind == Step::Kind::Kernel)
      continue;
    hasControl = true;
    if (kind == Step::Kind::If || kind == Step::Kind::Loop) {
      open.push_back(i);
      continue;
    }
    if (open.empty())
      return notNested;
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
    return notNested;
  if (!hasControl)
    controls_ = {};
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
