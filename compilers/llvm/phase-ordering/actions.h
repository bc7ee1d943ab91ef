// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of actions: groups of passes, given as data, that an episode chooses from.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_ACTIONS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_ACTIONS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace mlbridge::phase_ordering {

/// One group of passes, as pipeline text of the new pass manager.
struct PassGroup {
  std::string Name;
  std::string Passes;
};

/// Holds the groups and the builder that parses them. The builder knows neither the host's
/// extension points nor other plugins, so that a stock pipeline ("default<Oz>") may be an action.
/// Used by one thread at a time.
class ActionList {
public:
  /// From {"version": 1, "actions": [{"name": …, "passes": …}, …]}. Every pipeline is parsed; the
  /// error names the action and gives LLVM's message.
  static llvm::Expected<ActionList> parse(llvm::StringRef Json);
  /// The list that ships with the plugin.
  static llvm::StringRef builtin();

  size_t size() const { return Groups.size(); }
  const PassGroup &operator[](size_t Index) const { return Groups[Index]; }
  /// Identifies names and passes: 16 hexadecimal digits.
  const std::string &digest() const { return Digest; }
  /// What was parsed.
  const std::string &json() const { return Text; }

  /// Runs group `Index` on the module with the host's analyses. Requires Index < size().
  llvm::Error run(size_t Index, llvm::Module &M, llvm::ModuleAnalysisManager &MAM) const;

private:
  ActionList() = default;
  std::vector<PassGroup> Groups;
  std::string Text, Digest;
  std::unique_ptr<llvm::PassBuilder> Builder;
};

/// Runs pipeline text with a builder that nothing else is registered with.
llvm::Error runPipeline(llvm::PassBuilder &Builder, llvm::StringRef Passes, llvm::Module &M,
                        llvm::ModuleAnalysisManager &MAM);

} // namespace mlbridge::phase_ordering

#endif
