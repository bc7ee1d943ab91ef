// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The environment for training: driven from outside, for as many episodes as the driver wants, on
// this module or on others.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_SERVED_ENVIRONMENT_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_SERVED_ENVIRONMENT_H

#include "environment.h"

namespace mlbridge::phase_ordering {

/// A reset's context is the path of a module (bitcode or text), or empty: the one it was on, at
/// first the host's. Every episode begins with the module as it was read. Observed besides what the
/// pass observes: `code_bytes`, the executable bytes of the object that the module would become
/// now, and `oz_code_bytes`, of the one that the stock pipeline at -Oz makes of it. The reward of a
/// step is the decrease of the former, as a part of those at the reset. The host's module is never
/// changed.
class ServedEnvironment final : public Environment {
public:
  ServedEnvironment(llvm::Module &Host, llvm::ModuleAnalysisManager &MAM, uint32_t MaxSteps);

  /// Ok, or why the built-in list of actions cannot be used.
  const Status &status() const { return Inner->status(); }
  /// What a driver is told: the actions and the kind of observation.
  Metadata metadata() const;

  const Signature &signature() const override { return Sig; }
  Status reset(Observation &First) override;
  Status step(const Action &Chosen, Observation &Next) override;

private:
  void useModule(llvm::Module &M);
  Status load(const std::string &Path);

  llvm::Module &Host;
  llvm::ModuleAnalysisManager &MAM;
  const uint32_t MaxSteps;
  std::string Path; ///< of `Loaded`
  std::unique_ptr<llvm::Module> Loaded;
  std::unique_ptr<PhaseOrderingEnvironment> Inner;
  Signature Sig;
  Status measure(Observation &To);

  int64_t FirstSize = 0, Size = 0;
  std::optional<int64_t> OzSize; ///< of the module that episodes begin with
};

} // namespace mlbridge::phase_ordering

#endif
