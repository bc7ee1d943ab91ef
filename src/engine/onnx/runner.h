// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The buffers of one thread, bound to a session once.
#ifndef MLBRIDGE_ENGINE_ONNX_RUNNER_H
#define MLBRIDGE_ENGINE_ONNX_RUNNER_H

#include "core/buffer.h"
#include "model.h"

#include <memory>
#include <vector>

namespace mlbridge::onnx {

/// Inputs lie in buffers of its own; so do outputs of numbers of fixed shape. The others are ONNX
/// Runtime's, from one evaluation to the next; strings are copied in and out. Used by one thread at
/// a time; the Model must outlive it.
class Runner {
public:
  /// shapes: for each input its lengths, or Dynamic where resize follows. Errors: InvalidArgument,
  /// LimitExceeded.
  static Expected<std::unique_ptr<Runner>> create(const Model &model, const int64_t *const *shapes);
  ~Runner();
  Runner(const Runner &) = delete;
  Runner &operator=(const Runner &) = delete;

  /// Errors: InvalidArgument (no such input).
  Status input(uint64_t i, mlb_tensor &tensor);
  /// Allocates only when the shape changes. Errors: InvalidArgument, LimitExceeded.
  Status resize(uint64_t i, const int64_t *shape, mlb_tensor &tensor);
  /// Errors: InvalidArgument (an input without lengths), PolicyFailed.
  Status evaluate();
  /// Errors: InvalidArgument (no such output).
  Status output(uint64_t i, mlb_tensor &tensor);

private:
  /// One input or output: memory of our own, or what ONNX Runtime gave.
  struct Slot {
    const TensorSpec *spec = nullptr;
    Buffer own;
    Shape shape;
    void *data = nullptr;
    size_t count = 0;
    bool isSized = false;          ///< an input: has its lengths
    bool isPerCall = false;        ///< an output: allocated by each evaluation
    std::vector<mlb_string> texts; ///< what strings are passed by
    std::string characters;        ///< of the strings of an output
    std::vector<size_t> offsets;
  };

  explicit Runner(const Model &model) : model_(model), api_(model.runtime().api) {}
  /// Makes the value of a slot over its own memory.
  Status makeValue(Slot &slot, const int64_t *shape, OrtValue *&value);
  Status makeBinding();
  /// After the first evaluation: finds the outputs that aren't in the memory given for them.
  Status adoptOutputs();
  Status makeStrings(Slot &slot, Span<const int64_t> shape, uint64_t count, OrtValue *&value);
  Status writeStrings();
  Status readStrings(Slot &slot, const OrtValue *value, size_t count);
  Status readPerCallOutput(Slot &slot, OrtValue *value);
  void releasePerCallOutputs();

  const Model &model_;
  const OrtApi *const api_;
  std::vector<Slot> inputs_, outputs_;
  std::vector<OrtValue *> inputValues_, outputValues_;
  /// Binding is a tenth faster than Run for small networks. Null from the first evaluation on if an
  /// output is allocated by each.
  OrtIoBinding *binding_ = nullptr;
  bool isSettled_ = false; ///< adoptOutputs() has run
  size_t unsized_ = 0;
  bool hasPerCallOutputs_ = false;
  bool hasStringInputs_ = false; ///< among the inputs
};

} // namespace mlbridge::onnx

#endif
