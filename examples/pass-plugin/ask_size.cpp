// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks a model for each function whether to compile it for size. Without a model, or when it fails,
// functions without a loop are.
#include <mlbridge/model.h>

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Plugins/PassPlugin.h>
#include <llvm/Support/CommandLine.h>

#include <cstdint>
#include <string>

static llvm::cl::opt<std::string> modelUri("ask-size-model", llvm::cl::desc("URI of the model"));

namespace {

struct AskSize : llvm::PassInfoMixin<AskSize> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &analyses) {
    const mlbridge::Signature signature = {{mlbridge::TensorSpec::of<int64_t>("instructions"),
                                            mlbridge::TensorSpec::of<int64_t>("loops")},
                                           {mlbridge::TensorSpec::of<bool>("for_size")}};
    // Never null: it carries its failure.
    mlbridge::Runner runner = mlbridge::open(modelUri, signature);
    auto &functions =
        analyses.getResult<llvm::FunctionAnalysisManagerModuleProxy>(module).getManager();
    for (llvm::Function &function : module) {
      if (function.isDeclaration())
        continue;
      const auto &loops = functions.getResult<llvm::LoopAnalysis>(function);
      const int64_t count = std::distance(loops.begin(), loops.end());
      (void)runner.set("instructions",
                       int64_t{function.getInstructionCount()}); // a failure shows in status(), too
      (void)runner.set("loops", count);
      if (runner.evaluateOr<bool>([&] { return count == 0; }))
        function.addFnAttr(llvm::Attribute::OptimizeForSize);
    }
    if (!modelUri.empty() && !runner.status())
      module.getContext().diagnose(llvm::DiagnosticInfoGeneric(
          llvm::Twine("ask-size: ") + runner.status().toString(), llvm::DS_Warning));
    return llvm::PreservedAnalyses::none();
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK llvm::PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "AskSize", "1",
          [](llvm::PassBuilder &builder) {
            builder.registerPipelineStartEPCallback(
                [](llvm::ModulePassManager &passes, llvm::OptimizationLevel) {
                  passes.addPass(AskSize());
                });
            builder.registerPipelineParsingCallback(
                [](llvm::StringRef name, llvm::ModulePassManager &passes,
                   llvm::ArrayRef<llvm::PassBuilder::PipelineElement>) {
                  if (name != "ask-size")
                    return false;
                  passes.addPass(AskSize());
                  return true;
                });
          },
          nullptr};
}
