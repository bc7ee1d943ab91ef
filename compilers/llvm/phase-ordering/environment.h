// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass as an environment: the state is a copy of the module, an action runs one group on it.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_ENVIRONMENT_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_ENVIRONMENT_H

#include "actions.h"
#include "candidates.h"
#include "observation.h"
#include "working_copy.h"

#include <mlbridge/environment.h>

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

#include <memory>
#include <optional>

namespace mlbridge::phase_ordering {

inline constexpr uint32_t DefaultMaxSteps = 12;

/// One choice of an episode.
struct Decision {
  size_t Action = 0;
  std::string Name;
  uint64_t Instructions = 0; ///< before the group ran
};

/// The state of an episode: open, or the reason for its end.
enum class Outcome { Open, Stopped, LimitReached };

/// The reason for which no pass can change anything in this module: it has no function, or each of
/// them is optnone. Empty if passes can.
std::string untouchable(const llvm::Module &M);

/// One episode on one module. The module itself is not touched before commit().
///
/// A model with candidates ("phase-ordering.candidates") decides once: it sees features, and
/// embedding if it asks for that, and answers with log_ratio float32[K], what it expects of each
/// candidate: the natural logarithm of its bytes over those of the stock pipeline.
///
/// Observation: features float32[F], action_mask float32[A + 1], history float32[A + 1],
/// step int64[1], and unless counts are all that is observed embedding float32[D]; action: int64[1]
/// in 0…A, where A, the number of groups, means stop.
class PhaseOrderingEnvironment final : public Environment {
public:
  /// `MaxSteps`: 0 takes what the list of actions says, or else DefaultMaxSteps. `Vocabulary`: the
  /// file of the one for embeddings; empty: the built-in one.
  PhaseOrderingEnvironment(llvm::Module &M, llvm::ModuleAnalysisManager &MAM, uint32_t MaxSteps,
                           std::string Vocabulary = {});

  /// Takes the list of actions from the model's metadata ("phase-ordering.actions"; the built-in
  /// list if there is none), and gives the signature that follows from it. A model observes the
  /// kind that it states ("phase-ordering.observation"), or IR2Vec if it has an input `embedding`.
  /// A list, kind or vocabulary ("phase-ordering.vocabulary") that cannot be used is reported by
  /// status().
  const Signature &signatureFor(const Model &Policy);
  /// Takes this list and kind instead.
  const Signature &use(llvm::StringRef ActionsJson, Observer Observes);
  const Status &status() const { return Metadata; }

  const Signature &signature() const override { return Sig; }
  Status reset(Observation &First) override;
  Status step(const Action &Chosen, Observation &Next) override;

  /// From now on each state of an episode is kept until the next reset, at the price of a copy of
  /// the module for each step.
  void keepStates() { KeepsStates = true; }
  /// The number of states of the last episode in which another one can begin: the first one, and
  /// one after each step but the last one possible.
  size_t states() const { return std::min<size_t>(States.size(), MaxSteps); }
  /// Begins an episode in a state of the last one: after its first `Steps` steps, which count as
  /// taken. Requires Steps < states().
  void resume(size_t Steps, Observation &First);

  /// Puts the result of the episode into the module.
  void commit() { Copy->commit(); }
  /// The candidates, the smallest expected first; empty if the model chooses groups step by step.
  std::vector<Candidate> ranked() const;
  /// The groups that have been chosen, as a candidate. Requires an episode of groups.
  Candidate asCandidate() const;
  /// The module as the actions so far have made it. Requires an episode.
  const llvm::Module &module() const { return Copy->module(); }
  /// The list of actions; null if there is none that can be used.
  const ActionList *actions() const { return Actions ? &*Actions : nullptr; }
  const std::vector<Decision> &decisions() const { return Decisions; }
  Outcome outcome() const { return End; }

private:
  /// Everything that an observation and what follows depend on.
  struct State {
    std::unique_ptr<llvm::Module> Copy;
    Features Feature;
    std::vector<float> History;
    std::vector<Decision> Decisions;
  };
  Status observerFor(const Model &Policy, Observer &To) const;
  void useCandidates(llvm::StringRef Json);
  void observe(Observation &To);
  void observe(const llvm::Module &Current, Observation &To);
  bool isAllowed(size_t Action) const;
  bool isOver() const;

  llvm::Module &M;
  llvm::ModuleAnalysisManager &MAM;
  const uint32_t GivenSteps;
  uint32_t MaxSteps = 0;
  const std::string VocabularyFile;
  Observer Observes;
  std::optional<ActionList> Actions;
  std::vector<Candidate> Candidates;
  std::vector<float> Expected;
  Signature Sig;
  Status Metadata;
  std::optional<WorkingCopy> Copy;
  Features Feature;
  Counts Now{};
  std::vector<float> History;
  std::vector<Decision> Decisions;
  Outcome End = Outcome::Open;
  bool KeepsStates = false;
  std::vector<State> States;
};

} // namespace mlbridge::phase_ordering

#endif
