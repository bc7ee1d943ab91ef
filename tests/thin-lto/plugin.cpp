// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For tests: a pass that asks a model from as many threads as the host compiles with. Where
// ThinLTO's back ends run, and in an ordinary pipeline, it asks about each function that is
// defined; the answer is how to optimize it: 1 for size. MLBRIDGE_TEST_MODEL names the
// model.
#include <mlbridge/model.h>

#include "llvm/IR/Function.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"

#include <cstdlib>

using namespace llvm;

namespace {

const mlbridge::Signature Sizes{{mlbridge::TensorSpec::of<int64_t>("instructions"),
                                 mlbridge::TensorSpec::of<std::string>("function")},
                                {mlbridge::TensorSpec::of<int64_t>("for_size")}};

/// Opened once for all threads.
const mlbridge::Model &model() {
  static const mlbridge::Model Shared = [] {
    const char *Uri = ::secure_getenv("MLBRIDGE_TEST_MODEL");
    mlbridge::OpenOptions Patient;
    Patient.deadline = std::chrono::seconds(60);
    mlbridge::Model Opened = mlbridge::Model::open(Uri ? Uri : "", Patient);
    (void)Opened.bind(Sizes);
    return Opened;
  }();
  return Shared;
}

class AskPass : public PassInfoMixin<AskPass> {
public:
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    mlbridge::Runner Runner = model().newRunner({"", "", M.getModuleIdentifier()});
    for (Function &F : M) {
      if (F.isDeclaration() || F.hasAvailableExternallyLinkage())
        continue;
      (void)Runner.set("instructions", int64_t(F.getInstructionCount()));
      (void)Runner.set("function", F.getName().str());
      if (Runner.evaluateOr<int64_t>([] { return int64_t(0); }) == 1)
        F.addFnAttr(Attribute::OptimizeForSize);
      if (!Runner.status())
        F.addFnAttr("mlbridge-failed", Runner.status().message());
    }
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

} // namespace

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "ParallelTest", "1",
          [](PassBuilder &PB) {
            PB.registerOptimizerLastEPCallback(
                [](ModulePassManager &MPM, OptimizationLevel, ThinOrFullLTOPhase Phase) {
                  if (Phase != ThinOrFullLTOPhase::ThinLTOPreLink)
                    MPM.addPass(AskPass());
                });
          },
          nullptr};
}
