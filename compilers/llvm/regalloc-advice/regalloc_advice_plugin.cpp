// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models for the greedy register allocator of stock clang and llc.
//   clang-22 -O2 -Xclang -fpass-plugin=mlbridge-regalloc-advice.so -Xclang -mllvm
//     -Xclang -regalloc-eviction-model=URI
//   llc-22 -load mlbridge-regalloc-advice.so -regalloc-eviction-model=URI
#include "eviction.h"
#include "priority.h"
#include "versions/pass_plugin.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/RegisterTargetPassConfigCallback.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace mlbridge::regalloc {

namespace {

/// The options of one question; each has a model of its own.
class Flags {
public:
  Flags(StringRef Prefix, StringRef What)
      : Prefix(Prefix), Model(StringRef(Names[0]), cl::value_desc("URI"), cl::desc(What)),
        Deadline(StringRef(Names[1]), cl::init("5s"), cl::value_desc("TIME"),
                 cl::desc("The longest wait for the model: 5s, 250ms, or a number of seconds")),
        OnFailure(StringRef(Names[2]), cl::init("stock"), cl::value_desc("stock|fail"),
                  cl::desc("If the model fails: LLVM's heuristic and a warning, or an error")),
        Levels(StringRef(Names[3]), cl::init("O1,O2,O3,Os,Oz"), cl::value_desc("LIST"),
               cl::desc("The -O levels of the functions for which the model is asked")),
        Missing(StringRef(Names[4]), cl::init("refuse"), cl::value_desc("refuse|zero"),
                cl::desc("Inputs of the model that LLVM does not have: an error, or zero")),
        Log(StringRef(Names[5]), cl::value_desc("DIR"),
            cl::desc("Record what is asked and answered")) {}

  bool given() const { return !value(Model).empty(); }
  advice::Settings settings() const {
    advice::Settings Its;
    Its.Prefix = Prefix;
    Its.Model = value(Model);
    Its.Deadline = value(Deadline);
    Its.OnFailure = value(OnFailure);
    Its.Levels = value(Levels);
    Its.Missing = value(Missing);
    Its.Log = value(Log);
    return Its;
  }

private:
  std::string named(StringRef Option) const { return (Prefix + "-" + Option).str(); }
  /// For -regalloc-eviction-model also MLBRIDGE_REGALLOC_EVICTION_MODEL.
  static std::string value(const cl::opt<std::string> &Option) {
    std::string Name = Option.ArgStr.upper();
    std::replace(Name.begin(), Name.end(), '-', '_');
    return advice::value(Option, Name);
  }

  const StringRef Prefix;
  const std::string Names[6] = {named("model"),  named("deadline"), named("on-failure"),
                                named("levels"), named("missing"),  named("log")};
  cl::opt<std::string> Model, Deadline, OnFailure, Levels, Missing, Log;
};

Flags Eviction("regalloc-eviction", "The model that decides which live range is evicted");
Flags Priority("regalloc-priority", "The model that decides which live range is allocated next");

/// Takes the place of LLVM's analyses of the same ID, which the allocator asks for its advisors.
class EvictionAnalysis final : public RegAllocEvictionAdvisorAnalysisLegacy {
public:
  explicit EvictionAnalysis(CodeGenOptLevel Level)
      : RegAllocEvictionAdvisorAnalysisLegacy(AdvisorMode::Release), Level(Level) {}

private:
  bool doInitialization(Module &M) override {
    Provider = newEvictionProvider(Eviction.settings(), M, Level);
    return false;
  }
  const CodeGenOptLevel Level;
};

class PriorityAnalysis final : public RegAllocPriorityAdvisorAnalysisLegacy {
public:
  explicit PriorityAnalysis(CodeGenOptLevel Level)
      : RegAllocPriorityAdvisorAnalysisLegacy(AdvisorMode::Release), Level(Level) {}

private:
  bool doInitialization(Module &M) override {
    Provider = newPriorityProvider(Priority.settings(), M, Level);
    return false;
  }
  const CodeGenOptLevel Level;
};

const RegisterTargetPassConfigCallback AddAnalyses([](TargetMachine &Target,
                                                      PassManagerBase &Passes, TargetPassConfig *) {
  if (Target.getOptLevel() == CodeGenOptLevel::None) // another allocator
    return;
  if (Eviction.given())
    Passes.add(new EvictionAnalysis(Target.getOptLevel()));
  if (Priority.given())
    Passes.add(new PriorityAnalysis(Target.getOptLevel()));
});

} // namespace

} // namespace mlbridge::regalloc

// What clang loads has this; the passes that it could add are of no use here.
extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "RegAllocAdvice", "1", [](PassBuilder &) {}};
}
