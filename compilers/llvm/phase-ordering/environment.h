// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass as an environment: the state is a copy of the module, an action runs one group on it.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_ENVIRONMENT_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_ENVIRONMENT_H

#include "actions.h"
#include "episode_log.h"
#include "ir_features.h"

#include <mlbridge/environment.h>

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

#include <memory>
#include <optional>

namespace mlbridge::phase_ordering {

/// A copy of the module that groups run on, so that giving up leaves the original as it was: down
/// to the order of its use lists it is not touched before commit(). Copies on construction. The
/// copy and what the host's analyses know of it die with this object.
class WorkingCopy {
public:
  WorkingCopy(llvm::Module &Original, llvm::ModuleAnalysisManager &MAM);
  ~WorkingCopy();
  WorkingCopy(const WorkingCopy &) = delete;
  WorkingCopy &operator=(const WorkingCopy &) = delete;

  /// Requires that commit() was not called.
  llvm::Module &module() { return *Copy; }
  const llvm::Module &module() const { return *Copy; }
  /// Replaces the contents of the original by those of the copy. All analyses of the original are
  /// forgotten.
  void commit();

private:
  void forgetAnalyses();

  llvm::Module &Original;
  llvm::ModuleAnalysisManager &MAM;
  std::unique_ptr<llvm::Module> Copy;
};

/// Why no pass can change anything in this module: it has no function, or each of them is optnone.
/// Empty if passes can.
std::string untouchable(const llvm::Module &M);

/// One episode on one module. The module itself is not touched before commit().
///
/// Observation: features float32[F], action_mask float32[A + 1], history float32[A + 1],
/// step int64[1]; action: int64[1] in 0…A, where A, the number of groups, means stop.
class PhaseOrderingEnvironment final : public Environment {
public:
  PhaseOrderingEnvironment(llvm::Module &M, llvm::ModuleAnalysisManager &MAM, uint32_t MaxSteps);

  /// Takes the list of actions from the model's metadata ("phase-ordering.actions"; the built-in
  /// list if there is none), and gives the signature that follows from it. A list or a kind of
  /// observation ("phase-ordering.observation") that cannot be used is reported by status().
  const Signature &signatureFor(const Model &Policy);
  const Status &status() const { return Metadata; }

  const Signature &signature() const override { return Sig; }
  Status reset(Observation &First) override;
  Status step(const Action &Chosen, Observation &Next) override;

  /// Puts the result of the episode into the module.
  void commit() { Copy->commit(); }
  /// As the actions so far made it. Requires an episode.
  const llvm::Module &module() const { return Copy->module(); }
  /// Null if there is none that can be used.
  const ActionList *actions() const { return Actions ? &*Actions : nullptr; }
  /// Everything but the model, the list of actions, the end and its message.
  const EpisodeLog &log() const { return Log; }

private:
  void observe(Observation &To);
  bool isAllowed(size_t Action) const;

  llvm::Module &M;
  llvm::ModuleAnalysisManager &MAM;
  const uint32_t MaxSteps;
  std::optional<ActionList> Actions;
  Signature Sig;
  Status Metadata;
  std::optional<WorkingCopy> Copy;
  Features Feature;
  Counts Now{};
  std::string FeaturesDigest;
  std::vector<float> History;
  EpisodeLog Log;
};

} // namespace mlbridge::phase_ordering

#endif
