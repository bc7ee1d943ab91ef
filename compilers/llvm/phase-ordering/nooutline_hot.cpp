// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nooutline_hot.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"

#include <algorithm>
#include <vector>

using namespace llvm;

namespace mlbridge::phase_ordering {

namespace {

/// How often a program's functions are entered, and what then runs.
class Heat {
public:
  explicit Heat(Module &M) : HasProfile(M.getProfileSummary(/*IsCS=*/false) != nullptr) {
    for (llvm::Function &F : M)
      if (!F.isDeclaration()) {
        Numbers[&F] = Functions.size();
        Functions.push_back({&F});
      }
    for (size_t I = 0; I < Functions.size(); ++I)
      read(I);
  }

  /// False if there is none to spare.
  bool spare(unsigned Percent) {
    const std::vector<double> Entries = HasProfile ? counted() : spread();
    size_t Left = 0;
    std::vector<std::pair<double, size_t>> Order; // instructions that run for each that is there
    for (size_t I = 0; I < Functions.size(); ++I) {
      const Entered &F = Functions[I];
      Left += F.Instructions;
      Order.emplace_back(Entries[I] * F.Work / double(F.Instructions), I);
    }
    Left = Left * Percent / 100;
    llvm::sort(Order, [](const auto &A, const auto &B) {
      return A.first != B.first ? A.first > B.first : A.second < B.second;
    });
    bool HasSpared = false;
    for (const auto &[Density, I] : Order) {
      if (Density == 0 || Functions[I].Instructions > Left)
        break;
      Left -= Functions[I].Instructions;
      Functions[I].Code->addFnAttr("nooutline");
      HasSpared = true;
    }
    return HasSpared;
  }

private:
  /// Rounds in which frequencies spread along calls: as many as chains of calls are long.
  static constexpr unsigned Rounds = 20;
  /// Recursion multiplies without end.
  static constexpr double MostFrequent = 1e12;

  struct Call {
    size_t Caller;
    size_t Callee;
    double Frequency; ///< for each entry of the caller
  };

  struct Entered {
    llvm::Function *Code;
    size_t Instructions = 0;
    double Work = 0; ///< instructions that run for each entry
  };

  void read(size_t Number) {
    Entered &F = Functions[Number];
    DominatorTree Tree(*F.Code);
    LoopInfo Loops(Tree);
    BranchProbabilityInfo Probabilities(*F.Code, Loops);
    BlockFrequencyInfo Frequencies(*F.Code, Probabilities, Loops);
    const double Entry = std::max(1.0, double(Frequencies.getEntryFreq().getFrequency()));
    for (const BasicBlock &Block : *F.Code) {
      const double Frequency = double(Frequencies.getBlockFreq(&Block).getFrequency()) / Entry;
      F.Instructions += Block.size();
      F.Work += Frequency * double(Block.size());
      for (const Instruction &I : Block) {
        const auto *Site = dyn_cast<CallBase>(&I);
        const auto Callee = Numbers.find(Site ? Site->getCalledFunction() : nullptr);
        if (Callee != Numbers.end() && Callee->second != Number)
          Calls.push_back({Number, Callee->second, Frequency});
      }
    }
  }

  std::vector<double> counted() const {
    std::vector<double> Entries;
    for (const Entered &F : Functions) {
      const auto Count = F.Code->getEntryCount();
      Entries.push_back(Count ? double(Count->getCount()) : 0);
    }
    return Entries;
  }

  std::vector<double> spread() const {
    std::vector<double> Now(Functions.size()), Next(Functions.size());
    for (unsigned Round = 0; Round < Rounds; ++Round) {
      for (size_t I = 0; I < Functions.size(); ++I) {
        const llvm::Function &F = *Functions[I].Code;
        Next[I] = !F.hasLocalLinkage() || F.hasAddressTaken() ? 1 : 0;
      }
      for (const Call &One : Calls)
        Next[One.Callee] =
            std::min(Next[One.Callee] + Now[One.Caller] * One.Frequency, MostFrequent);
      if (Now == Next)
        break;
      std::swap(Now, Next);
    }
    return Now;
  }

  const bool HasProfile;
  std::vector<Entered> Functions;
  DenseMap<const llvm::Function *, size_t> Numbers;
  std::vector<Call> Calls;
};

} // namespace

PreservedAnalyses NoOutlineHot::run(Module &M, ModuleAnalysisManager & /*MAM*/) {
  return Heat(M).spare(Percent) ? PreservedAnalyses::none() : PreservedAnalyses::all();
}

void NoOutlineHot::registerIn(PassBuilder &Builder) {
  Builder.registerPipelineParsingCallback(
      [](StringRef Name, ModulePassManager &Passes, ArrayRef<PassBuilder::PipelineElement>) {
        unsigned Percent = 0;
        if (!Name.consume_front("nooutline-hot<") || !Name.consume_back(">") ||
            Name.getAsInteger(10, Percent) || Percent > 100)
          return false;
        Passes.addPass(NoOutlineHot(Percent));
        return true;
      });
}

} // namespace mlbridge::phase_ordering
