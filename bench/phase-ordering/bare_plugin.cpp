// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the cost of asking: runs a fixed sequence of groups on the module itself, with no
// copy, no features and no model, in the place where the phase-ordering plugin would.
//   clang-22 -Oz -Xclang -fpass-plugin=PATH -Xclang -mllvm -Xclang -bare-phase-ordering=3,5,7
// The floor of an environment (opt -passes='default<Oz>'): so many episodes of that sequence, each
// on a copy, with code generated after each group if asked; prints nanoseconds.
#include "actions.h"
#include "code_size.h"
#include "middle_end.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <chrono>

using namespace llvm;
using namespace mlbridge::phase_ordering;

static cl::opt<std::string> Sequence("bare-phase-ordering", cl::value_desc("I,J,…"),
                                     cl::desc("Indices of the groups to run, in order"));
static cl::opt<std::string> ListFile("bare-phase-ordering-actions", cl::value_desc("FILE"),
                                     cl::desc("A list of actions instead of the built-in one"));

static cl::opt<unsigned> Episodes("bare-phase-ordering-episodes", cl::value_desc("N"),
                                  cl::desc("Time so many episodes; the module is not changed"));
static cl::opt<bool> Measures("bare-phase-ordering-code-size",
                              cl::desc("Generate code before the first and after each group"));

static Error runSequence(Module &M, ModuleAnalysisManager &MAM) {
  std::string Text = ActionList::builtin().str();
  if (!ListFile.empty()) {
    auto Buffer = MemoryBuffer::getFile(ListFile);
    if (!Buffer)
      return createStringError(Buffer.getError(), ListFile);
    Text = (*Buffer)->getBuffer().str();
  }
  Expected<ActionList> Actions = ActionList::parse(Text);
  if (!Actions)
    return Actions.takeError();
  const auto Measure = [&]() -> Error {
    if (!Measures)
      return Error::success();
    Expected<uint64_t> Bytes = codeSize(M);
    return Bytes ? Error::success() : Bytes.takeError();
  };
  if (Error E = runMandatoryLowering(M, MAM))
    return E;
  if (Error E = Measure())
    return E;
  SmallVector<StringRef> Indices;
  StringRef(Sequence).split(Indices, ',', -1, /*KeepEmpty=*/false);
  for (StringRef Text : Indices) {
    size_t Index = 0;
    if (!to_integer(Text, Index) || Index >= Actions->size())
      return createStringError("'" + Text + "' is not the index of an action");
    if (Error E = Actions->run(Index, M, MAM))
      return E;
    if (Error E = Measure())
      return E;
  }
  return Error::success();
}

static Error runEpisodes(Module &M, ModuleAnalysisManager &MAM) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point Start = Clock::now();
  for (unsigned I = 0; I < Episodes; ++I) {
    const std::unique_ptr<Module> Copy = CloneModule(M);
    Error E = runSequence(*Copy, MAM);
    MAM.clear(*Copy, Copy->getName());
    if (E)
      return E;
  }
  outs() << std::chrono::nanoseconds(Clock::now() - Start).count() << "\n";
  return Error::success();
}

static bool choose(Module &M, ModuleAnalysisManager &MAM, const Pipeline &Begins) {
  if (Begins.Level == "O0" || Begins.Phase != ThinOrFullLTOPhase::None)
    return false;
  if (Error E = Episodes ? runEpisodes(M, MAM) : runSequence(M, MAM)) {
    const std::string Message = "bare-phase-ordering: " + toString(std::move(E));
    M.getContext().diagnose(DiagnosticInfoGeneric(Message, DS_Error));
  }
  return true;
}

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "BarePhaseOrdering", "1",
          [](PassBuilder &PB) { replaceMiddleEnd(PB, choose); }, nullptr};
}
