// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small opt, LLVM linked statically: optimizes a file of IR at -O2, with a pass at the end that
// asks a model about each function. Built with and without the bridge by bench/footprint/run.py.
//   opt-like IN OUT [URI]
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#ifdef WITH_BRIDGE
#include <mlbridge/model.h>
#endif

using namespace llvm;

namespace {

#ifdef WITH_BRIDGE
struct Advice {
  explicit Advice(const char *Uri)
      : Runner(mlbridge::open(Uri, {{mlbridge::TensorSpec::of<float>("x", {16})},
                                    {mlbridge::TensorSpec::of<float>("y", {2})}})) {}
  bool operator()(const Function &F) {
    Runner.input<float>("x")[0] = static_cast<float>(F.size());
    return Runner.evaluateOr<float>([] { return 0.0F; }) > 0;
  }
  mlbridge::Runner Runner;
};
#else
struct Advice {
  explicit Advice(const char *) {}
  bool operator()(const Function &) { return false; }
};
#endif

struct AskPass : PassInfoMixin<AskPass> {
  explicit AskPass(std::shared_ptr<Advice> A) : Ask(std::move(A)) {}
  PreservedAnalyses run(Function &F, FunctionAnalysisManager &) {
    if ((*Ask)(F))
      F.addFnAttr("advice");
    return PreservedAnalyses::all();
  }
  std::shared_ptr<Advice> Ask;
};

} // namespace

int main(int Count, char **Arguments) {
  if (Count < 3)
    return 2;
  LLVMContext Context;
  SMDiagnostic Problem;
  std::unique_ptr<Module> M = parseIRFile(Arguments[1], Problem, Context);
  if (!M) {
    Problem.print(Arguments[0], errs());
    return 1;
  }
  LoopAnalysisManager LAM;
  FunctionAnalysisManager FAM;
  CGSCCAnalysisManager CGAM;
  ModuleAnalysisManager MAM;
  PassBuilder PB;
  PB.registerModuleAnalyses(MAM);
  PB.registerCGSCCAnalyses(CGAM);
  PB.registerFunctionAnalyses(FAM);
  PB.registerLoopAnalyses(LAM);
  PB.crossRegisterProxies(LAM, FAM, CGAM, MAM);
  ModulePassManager MPM = PB.buildPerModuleDefaultPipeline(OptimizationLevel::O2);
  if (Count > 3)
    MPM.addPass(createModuleToFunctionPassAdaptor(AskPass(std::make_shared<Advice>(Arguments[3]))));
  MPM.run(*M, MAM);
  std::error_code Error;
  raw_fd_ostream Out(Arguments[2], Error);
  if (Error)
    return 1;
  WriteBitcodeToFile(*M, Out);
  return 0;
}
