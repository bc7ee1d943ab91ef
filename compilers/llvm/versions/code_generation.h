// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Callbacks after a pipeline has run, and before code generation begins, of which LLVM 22 tells
// plugins.
#ifndef MLBRIDGE_VERSIONS_CODE_GENERATION_H
#define MLBRIDGE_VERSIONS_CODE_GENERATION_H

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>

#if __has_include("llvm/Target/RegisterTargetPassConfigCallback.h")
#include "llvm/Target/RegisterTargetPassConfigCallback.h"
#endif

namespace mlbridge::versions {

/// Gets the target that code is generated for, or null, and the module if it is known.
using BeforeCodeGeneration = void (*)(llvm::TargetMachine *, const llvm::Module *);

namespace detail {

// An explicit instantiation may name private members, and LLVM has no other way to this one.
llvm::TargetMachine *targetMachineOf(const llvm::PassBuilder &PB);
template <llvm::TargetMachine *llvm::PassBuilder::*Member> struct Access {
  friend llvm::TargetMachine *targetMachineOf(const llvm::PassBuilder &PB) { return PB.*Member; }
};
template struct Access<&llvm::PassBuilder::TM>;

/// Calls when its pipeline, which has run, is destroyed. In clang that is just before code
/// generation is planned.
class PipelineEnd : public llvm::PassInfoMixin<PipelineEnd> {
public:
  PipelineEnd(llvm::TargetMachine *TM, BeforeCodeGeneration Call)
      : Ending(std::make_unique<Run>(TM, Call)) {}
  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &) {
    Ending->M = &M;
    return llvm::PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }

private:
  struct Run {
    Run(llvm::TargetMachine *TM, BeforeCodeGeneration Call) : TM(TM), Call(Call) {}
    ~Run() {
      if (M)
        Call(TM, M);
    }
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    llvm::TargetMachine *TM;
    BeforeCodeGeneration Call;
    const llvm::Module *M = nullptr;
  };
  std::unique_ptr<Run> Ending;
};

} // namespace detail

/// Calls when a pipeline, which has run, is destroyed: before the host does anything else. Of a
/// pipeline that is both begun and simplified it calls twice.
inline void registerPipelineEnd(llvm::PassBuilder &PB, BeforeCodeGeneration Call) {
  const auto Add = [TM = detail::targetMachineOf(PB), Call](llvm::ModulePassManager &MPM,
                                                            llvm::OptimizationLevel, auto...) {
    MPM.addPass(detail::PipelineEnd(TM, Call));
  };
  PB.registerPipelineStartEPCallback(Add);
  // A linker's pipelines don't tell their start.
  PB.registerPipelineEarlySimplificationEPCallback(Add);
  PB.registerFullLinkTimeOptimizationEarlyEPCallback(Add);
}

#if __has_include("llvm/Target/RegisterTargetPassConfigCallback.h")

inline void registerBeforeCodeGeneration(llvm::PassBuilder &, BeforeCodeGeneration Call) {
  static const llvm::RegisterTargetPassConfigCallback Registered(
      [Call](llvm::TargetMachine &TM, llvm::PassManagerBase &, llvm::TargetPassConfig *) {
        Call(&TM, nullptr);
      });
}

#else

inline void registerBeforeCodeGeneration(llvm::PassBuilder &PB, BeforeCodeGeneration Call) {
  registerPipelineEnd(PB, Call);
}

#endif

} // namespace mlbridge::versions

#endif
