// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry point of the plugin:
//   clang-22 -Oz -Xclang -fpass-plugin=mlbridge-phase-ordering.so -Xclang -mllvm
//     -Xclang -phase-ordering-model=URI
//   opt-22 -load-pass-plugin mlbridge-phase-ordering.so -passes=phase-ordering
//     -phase-ordering-model=URI
#include "middle_end.h"
#include "models.h"
#include "phase_ordering_pass.h"

#include "llvm/Plugins/PassPlugin.h"

using namespace llvm;
using namespace mlbridge::phase_ordering;

static void registerCallbacks(PassBuilder &PB) {
  registerModels();
  replaceMiddleEnd(PB, choosePasses, leaveAlone);
  PB.registerPipelineParsingCallback(
      [](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name != "phase-ordering")
          return false;
        MPM.addPass(PhaseOrderingPass());
        return true;
      });
}

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "PhaseOrdering", "1", registerCallbacks, nullptr};
}
