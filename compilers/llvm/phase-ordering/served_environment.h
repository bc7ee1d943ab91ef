// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_SERVED_ENVIRONMENT_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_SERVED_ENVIRONMENT_H

#include "environment.h"
#include "options.h"

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

#include <map>
#include <memory>
#include <string>

namespace mlbridge::phase_ordering {

/// For training: an environment that is driven from outside, for as many episodes as the driver
/// wants, on this module or on others.
///
/// A reset's context is the path of a module (bitcode or text), or empty: the one it was on, at
/// first the host's. Every episode begins with the module as it was read. Observed besides what the
/// pass observes: `code_bytes`, the executable bytes of the object that the module would become
/// now, and `oz_code_bytes`, of the one that the stock pipeline at -Oz makes of it. The reward of a
/// step is the decrease of the former, as a part of those at the reset. The host's module is never
/// changed.
///
/// With the option `rewards` "last" code is generated when an episode ends: by stop, after the last
/// group that may run, or at the limit of steps. That step has the reward of all; in others it is
/// 0, and `code_bytes` is NotMeasured.
///
/// With the option `keep-states` the context "fork:K" begins an episode in the state that the last
/// one had after K steps; sizes stay relative to the reset.
class ServedEnvironment final : public Environment {
public:
  static constexpr int64_t NotMeasured = -1;

  /// With the option `state`, writeModule is called before each reply.
  ServedEnvironment(llvm::Module &Host, llvm::ModuleAnalysisManager &MAM, Options Given,
                    std::string ActionsJson, Observer Observes);

  /// Ok, or why the list of actions cannot be used.
  const Status &status() const { return Inner->status(); }
  /// The actions and the kind of observation, for the driver.
  Metadata metadata() const;

  const Signature &signature() const override { return Sig; }
  Status reset(Observation &First) override;
  Status step(const Action &Chosen, Observation &Next) override;

private:
  void useModule(llvm::Module &M);
  Status fork(llvm::StringRef Steps, Observation &First);
  Status load(const std::string &Path);

  llvm::Module &Host;
  llvm::ModuleAnalysisManager &MAM;
  const Options Given;
  const std::string ActionsJson;
  const Observer Observes;
  std::string Path; ///< of `Loaded`
  std::unique_ptr<llvm::Module> Loaded;
  std::unique_ptr<PhaseOrderingEnvironment> Inner;
  Signature Sig;
  Status measure(Observation &To);
  Status tell(int64_t Bytes, Observation &To) const;

  /// The bytes of a module's code when an episode begins, and at -Oz; negative: not yet known.
  struct Known {
    int64_t First = NotMeasured;
    int64_t Oz = NotMeasured;
  };
  /// What is known of each module that was read, by the hash of its file, as episodes come back to
  /// modules.
  std::map<uint64_t, Known> Sizes;
  Known HostSizes, *Current = &HostSizes; ///< of the module that episodes begin with
  int64_t Size = 0;                       ///< when it was measured last
};

/// Lets a driver play episodes until it leaves. Returns why that was not possible.
Status serveEpisodes(const Options &Given, llvm::Module &M, llvm::ModuleAnalysisManager &MAM);

} // namespace mlbridge::phase_ordering

#endif
