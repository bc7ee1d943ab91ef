// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps whose operands are addresses: what is executed.
#ifndef MLBRIDGE_ENGINE_NATIVE_PROGRAM_H
#define MLBRIDGE_ENGINE_NATIVE_PROGRAM_H

#include "engine/native/plan.h"

#include <mlbridge/deadline.h>

namespace mlbridge::native {

class Program {
public:
  /// `parameters` are read in every run, from where they are.
  void add(Step::Kind kind, KernelId kernel, Span<void *const> operands, const int64_t *parameters);
  void reserve(size_t steps, size_t operands) {
    code_.reserve(steps);
    controls_.reserve(steps);
    operands_.reserve(operands);
  }
  bool isEmpty() const { return !isFinished_; }
  /// After the last add. Internal if a kernel is missing or the control flow isn't nested.
  /// `isLong`: the deadline is looked at after each kernel, and not just in loops.
  Status finish(bool isLong);
  /// False: the deadline passed; results are unspecified then.
  bool run(Duration left) const;

private:
  struct Instruction {
    Kernel kernel; ///< null: `control` says what
    void *const *operands;
    const int64_t *parameters;
  };
  struct Control {
    Step::Kind kind;
    size_t firstOperand;
    size_t target; ///< where to go on otherwise
  };
  bool runWithControl(Duration left) const;

  bool isFinished_ = false, isLong_ = false;
  std::vector<void *> operands_;
  std::vector<Instruction> code_;
  std::vector<Control> controls_; ///< empty if there is none, else one for each instruction
};

} // namespace mlbridge::native

#endif
