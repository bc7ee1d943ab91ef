// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of actions: groups of passes, given as data, that an episode chooses from.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_ACTIONS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_ACTIONS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <memory>
#include <string>
#include <vector>

namespace mlbridge::phase_ordering {

/// One group of passes, as pipeline text of the new pass manager.
struct PassGroup {
  std::string Name;
  std::string Passes;
};

/// When a group that has run may run again in the same episode.
enum class Repeat { Later, Never, Always };

/// Holds the groups and the builder that parses them. The builder knows neither the host's
/// extension points nor other plugins, so that a stock pipeline ("default<Oz>") may be an action.
/// Used by one thread at a time.
class ActionList {
public:
  /// Reads {"version": 1, "actions": [{"name": …, "passes": …}, …]}, and the rules "repeat", "stop"
  /// and "max_steps" (README.md). Every pipeline is parsed; the error names the action and gives
  /// LLVM's message.
  static llvm::Expected<ActionList> parse(llvm::StringRef Json);
  /// The list that ships with the plugin.
  static llvm::StringRef builtin();

  size_t size() const { return Groups.size(); }
  const PassGroup &operator[](size_t Index) const { return Groups[Index]; }
  Repeat repeat() const { return Repeats; }
  /// True if an episode may be stopped while groups are allowed.
  bool hasStop() const { return Stops; }
  /// The most groups that an episode is meant to run, 0 if the list doesn't say.
  uint32_t maxSteps() const { return Steps; }
  /// The text that was parsed.
  const std::string &json() const { return Text; }

  /// Runs group `Index` on the module with the host's analyses. Requires Index < size().
  llvm::Error run(size_t Index, llvm::Module &M, llvm::ModuleAnalysisManager &MAM) const;

private:
  ActionList() = default;
  llvm::Error readRules(const llvm::json::Object &Top);

  std::vector<PassGroup> Groups;
  Repeat Repeats = Repeat::Later;
  bool Stops = true;
  uint32_t Steps = 0;
  std::string Text;
  std::unique_ptr<llvm::PassBuilder> Builder;
};

/// Runs pipeline text with a builder that nothing else is registered with.
llvm::Error runPipeline(llvm::PassBuilder &Builder, llvm::StringRef Passes, llvm::Module &M,
                        llvm::ModuleAnalysisManager &MAM);

} // namespace mlbridge::phase_ordering

#endif
