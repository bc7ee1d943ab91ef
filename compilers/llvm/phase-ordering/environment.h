// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass as an environment: the state is a copy of the module, an action runs one group on it.
// It asks a model, also one of the plugin's own, or is driven from outside.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_ENVIRONMENT_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_ENVIRONMENT_H

#include "actions.h"
#include "observation.h"
#include "trials.h"
#include "working_copy.h"

#include <mlbridge/environment.h>

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

#include <map>
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

enum class Outcome { Open, Stopped, LimitReached };

/// Writes how a module's trials ended, as JSON, to a new file of the folder, which is made if
/// missing. The file appears complete or not at all. Its name is that of the source, something
/// unique, and ".trials.json".
llvm::Error writeSelection(llvm::StringRef Folder, llvm::StringRef Source, llvm::StringRef Model,
                           const Selection &Its);

/// Why no pass can change anything in this module: it has no function, or each of them is optnone.
/// Empty if passes can.
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
  /// The same with this list and kind.
  const Signature &use(llvm::StringRef ActionsJson, Observer Of);
  const Status &status() const { return Metadata; }

  const Signature &signature() const override { return Sig; }
  Status reset(Observation &First) override;
  Status step(const Action &Chosen, Observation &Next) override;

  /// From now on each state of an episode is kept until the next reset, at the price of a copy of
  /// the module for each step.
  void keepStates() { KeepsStates = true; }
  /// In how many states of the last episode another one can begin: the first one, and one after
  /// each step but the last one possible.
  size_t states() const { return std::min<size_t>(States.size(), MaxSteps); }
  /// Begins an episode in a state of the last one: after its first `Steps` steps, which count as
  /// taken. Requires Steps < states().
  void resume(size_t Steps, Observation &First);

  /// Puts the result of the episode into the module.
  void commit() { Copy->commit(); }
  /// The candidates, the smallest expected first; empty if the model chooses groups step by step.
  std::vector<Candidate> ranked() const;
  /// What has been decided as a candidate. Requires an episode of groups.
  Candidate asCandidate() const;
  /// As the actions so far made it. Requires an episode.
  const llvm::Module &module() const { return Copy->module(); }
  /// Null if there is none that can be used.
  const ActionList *actions() const { return Actions ? &*Actions : nullptr; }
  const std::vector<Decision> &decisions() const { return Decisions; }
  Outcome outcome() const { return End; }

private:
  /// What an observation and all that follows depend on.
  struct State {
    std::unique_ptr<llvm::Module> Copy;
    Features Feature;
    std::vector<float> History;
    std::vector<Decision> Decisions;
  };
  Status observerFor(const Model &Policy, Observer &To) const;
  void useCandidates(llvm::StringRef Json);
  void observe(Observation &To);
  void observe(const llvm::Module &Seen, Observation &To);
  bool isAllowed(size_t Action) const;
  bool isOver() const;

  llvm::Module &M;
  llvm::ModuleAnalysisManager &MAM;
  const uint32_t GivenSteps;
  uint32_t MaxSteps = 0;
  const std::string VocabularyFile;
  Observer Of;
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

struct ServedOptions {
  uint32_t MaxSteps = 0; ///< as of PhaseOrderingEnvironment
  std::string ActionsJson;
  Observer Of;
  bool KeepStates = false;
  std::string StateFile; ///< if not empty, writeModule is called before each reply
};

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
/// With `KeepStates` the context "fork:K" begins an episode in the state that the last one had
/// after K steps; sizes stay relative to the reset.
class ServedEnvironment final : public Environment {
public:
  ServedEnvironment(llvm::Module &Host, llvm::ModuleAnalysisManager &MAM, ServedOptions Options);

  /// Ok, or why the list of actions cannot be used.
  const Status &status() const { return Inner->status(); }
  /// What a driver is told: the actions and the kind of observation.
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
  const ServedOptions Options;
  std::string Path; ///< of `Loaded`
  std::unique_ptr<llvm::Module> Loaded;
  std::unique_ptr<PhaseOrderingEnvironment> Inner;
  Signature Sig;
  Status measure(Observation &To);

  int64_t FirstSize = 0, Size = 0;
  /// What -Oz makes of each module that was read, by the hash of its file, as episodes come back to
  /// modules; and of the host's.
  std::map<uint64_t, std::optional<int64_t>> OzSizes;
  std::optional<int64_t> HostOzSize, *OzSize = &HostOzSize; ///< of the module episodes begin with
};

/// Registers, once for the process, the models that the plugin itself offers, for tests and
/// searches:
///   function:sequence?actions=I,J,…  these answers in order, then stop; with list=FILE, actions of
///                                    that list
///   function:stop                    stops at once
///   function:fail-at?step=K          the first allowed action that was taken least, and an error
///                                    at step K
///   candidates:FILE                  the candidates of a file, best first
/// Thread-safe.
void registerModels();

} // namespace mlbridge::phase_ordering

#endif
