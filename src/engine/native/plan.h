// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A network planned for inputs of certain shapes: a flat list of kernel calls, where each operand
// lies, and how much memory they need. Immutable; shared by runners, read by the ahead-of-time
// compiler.
#ifndef MLBRIDGE_ENGINE_NATIVE_PLAN_H
#define MLBRIDGE_ENGINE_NATIVE_PLAN_H

#include "core/buffer.h"
#include "engine/native/kernels/kernel.h"

#include <mlbridge/deadline.h>
#include <mlbridge/tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace mlbridge::native {

struct Plan;
using SharedPlan = std::shared_ptr<const Plan>;
using SharedBytes = std::shared_ptr<const Buffer>;
using Integers = std::vector<int64_t>;

inline uint64_t bytesOf(const TensorSpec &spec) {
  return spec.count().value_or(0) * sizeOf(spec.type);
}

enum class Place : uint8_t { None, Input, Output, Workspace, Constant };

/// The place of an operand: `offset` bytes into input, output or constant `index`, or into the
/// workspace. None is a null pointer.
struct Operand {
  Place place = Place::None;
  uint32_t index = 0;
  uint64_t offset = 0;
};

struct Step {
  enum class Kind : uint8_t {
    Kernel,
    /// {bool condition}: what follows up to Else or EndIf is done if it is not 0.
    If,
    Else,
    EndIf,
    /// {int64 counter, int64 trips?, bool condition?}: counter = 0; as long as counter < trips and
    /// the condition hold, what follows up to EndLoop, and ++counter.
    Loop,
    EndLoop,
  };
  Kind kind = Kind::Kernel;
  KernelId kernel = KernelId::Count;
  uint32_t node = 0; ///< of Plan::nodes
  uint32_t firstOperand = 0, operandCount = 0;
  uint32_t firstParameter = 0, parameterCount = 0;
};

/// A fault that a kernel may set (an index out of range): an int64 of the workspace.
struct Fault {
  uint64_t offset = 0;
  uint32_t node = 0;
};

struct Plan {
  /// All have fixed shapes.
  std::vector<TensorSpec> inputs, outputs;
  /// Not empty: this plan computes values on which the network's shapes depend, its outputs, and
  /// these say which ones. The network is then planned for these values: see Network::plan.
  std::vector<uint64_t> decisions;
  std::vector<Step> steps;
  std::vector<Operand> operands;
  std::vector<int64_t> parameters;
  std::vector<SharedBytes> constants; ///< aligned to 64 bytes
  uint64_t workspace = 0;             ///< bytes, to be aligned to 64
  std::vector<Fault> faults;      ///< at the workspace's beginning; cleared before an evaluation
  std::vector<std::string> nodes; ///< "Gemm 'layer1'", for messages
  uint64_t multiplyAdds = 0;
  bool hasLoops = false;
  bool isLong = false; ///< an evaluation takes milliseconds, or nobody knows
};

/// Limits of opening and planning. Computations beforehand are bounded by numbers that are the same
/// on each machine, so that plans are, too.
struct Limits {
  Deadline deadline;
  uint64_t memory = uint64_t(1) << 30; ///< bytes of inputs, outputs and workspace of one evaluation
};

/// Values on which shapes depend: the outputs of a plan that has decisions.
struct Settled {
  const Plan *plan = nullptr;
  const void *const *values = nullptr;
};

/// Steps whose operands are addresses: what is executed.
class Program {
public:
  /// `parameters` are read in every run, from where they are.
  void add(Step::Kind kind, KernelId kernel, Span<void *const> operands, const int64_t *parameters);
  bool isEmpty() const { return !isFinished_; }
  /// All steps of a plan, over the memory of its inputs, outputs and workspace. Errors: of finish.
  Status link(const Plan &plan, Span<uint8_t *const> inputs, Span<uint8_t *const> outputs,
              uint8_t *workspace);
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
