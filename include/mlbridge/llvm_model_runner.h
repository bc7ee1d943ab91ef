// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any model as an llvm::MLModelRunner, which is what LLVM's learned advisors ask (inlining,
// register-allocation eviction and priority). For LLVM 19 to 22; needs LLVM's headers, and is
// compiled with the flags of the LLVM that uses it (without RTTI, with its NDEBUG).
//
//   auto Runner = std::make_unique<mlbridge::LLVMModelRunner>(
//       M.getContext(), Features, llvm::InlineDecisionSpec, mlbridge::Model::open("onnx:p.onnx"));
#ifndef MLBRIDGE_LLVM_MODEL_RUNNER_H
#define MLBRIDGE_LLVM_MODEL_RUNNER_H

#include <mlbridge/model.h>

#include "llvm/Analysis/MLModelRunner.h"
#include "llvm/Analysis/TensorSpec.h"

#include <string>
#include <vector>

namespace mlbridge {

/// The same tensor; LLVM knows numbers of fixed shapes only.
inline TensorSpec fromLLVM(const llvm::TensorSpec &Spec) {
  ElementType Type = ElementType::Float32;
  const auto Try = [&](auto Zero) {
    if (Spec.isElementType<decltype(Zero)>())
      Type = ElementTypeOf<decltype(Zero)>::value;
  };
  Try(float());
  Try(double());
  Try(int8_t());
  Try(uint8_t());
  Try(int16_t());
  Try(uint16_t());
  Try(int32_t());
  Try(uint32_t());
  Try(int64_t());
  Try(uint64_t());
  return {Spec.name(), Type, Spec.shape(), {}};
}

/// The features and the advice of an advisor, as a signature to bind a model to.
inline Signature fromLLVM(const std::vector<llvm::TensorSpec> &Features,
                          const llvm::TensorSpec &Advice) {
  Signature Result;
  for (const llvm::TensorSpec &Feature : Features)
    Result.inputs.push_back(fromLLVM(Feature));
  Result.outputs.push_back(fromLLVM(Advice));
  return Result;
}

/// Adds to `Wanted` the inputs of the model that it lacks, where their shape is fixed: they stay
/// zero. A published policy may have inputs of its trainer that no compiler sends.
inline Signature withMissingInputs(Signature Wanted, const Model &Policy) {
  if (const Signature *Own = Policy.modelSignature())
    for (const TensorSpec &Input : Own->inputs)
      if (Wanted.findInput(Input.name) < 0 && !Input.isDynamic())
        Wanted.inputs.push_back(Input);
  return Wanted;
}

/// Used by one thread at a time, as every MLModelRunner. An advisor writes the features where the
/// model reads them; nothing is copied or allocated in process. Features that the model does not
/// know are ignored.
///
/// An evaluation that fails answers zero, as an advisor can't be told: status() says why, and a
/// caller that has a heuristic asks it and uses that. Evaluations block until the deadline of the
/// Model at most.
class LLVMModelRunner final : public llvm::MLModelRunner {
public:
  /// Copies the handle and binds it by name: the features and the advice keep their order. A model
  /// that was not opened, or does not fit, shows in status(): NotFound, Mismatch and others.
  LLVMModelRunner(llvm::LLVMContext &Ctx, const std::vector<llvm::TensorSpec> &Features,
                  const llvm::TensorSpec &Advice, const Model &Policy)
      : LLVMModelRunner(Ctx, Features, Advice, Policy, fromLLVM(Features, Advice)) {}

  /// With a signature whose first inputs are the features (withMissingInputs).
  LLVMModelRunner(llvm::LLVMContext &Ctx, const std::vector<llvm::TensorSpec> &Features,
                  const llvm::TensorSpec &Advice, const Model &Policy, const Signature &Wanted,
                  const CallContext &Caller = {})
      : MLModelRunner(Ctx, Kind::Release, Features.size()), Unit(Caller.unit),
        Inner(Policy.boundTo(Wanted).newRunner(Caller)),
        Nothing(Advice.getTotalTensorBufferSize()) {
    // The base class allocates where there is no buffer, that is, no model.
    for (size_t I = 0; I < Features.size(); ++I)
      setUpBufferForTensor(I, Features[I], Inner.inputAt(I).data);
  }

  ~LLVMModelRunner() override {
    if (InEpisode)
      (void)Inner.endEpisode(Status());
  }

  /// Why the last evaluation failed, or every one will; Ok after one that did not.
  const Status &status() const { return Inner.status(); }
  /// For rewards, and for inputs that LLVM does not know.
  Runner &runner() { return Inner; }

  /// LLVM calls it for each module (without a name) or function: an episode for a server.
  void switchContext(llvm::StringRef Name) override {
    if (InEpisode)
      (void)Inner.endEpisode(Status());
    InEpisode = true;
    (void)Inner.beginEpisode("", Name.empty() ? Unit : Name.str());
  }

private:
  void *evaluateUntyped() override {
    if (Inner.evaluate())
      if (const TensorView Answer = Inner.outputAt(0); Answer.bytes() == Nothing.size())
        return Answer.data;
    return Nothing.data();
  }

  const std::string Unit;
  Runner Inner;
  bool InEpisode = false;
  std::vector<char> Nothing; // aligned as operator new aligns
};

} // namespace mlbridge

#endif
