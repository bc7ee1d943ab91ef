// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sweep of the round trip by a pass of stock mlir-opt-22: bench-sweep asks the models that
// BENCH_URIS names, divided by blanks, and is told and answers as round-trip-client is.
#include "../round-trip/sweep.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

#include "llvm/Config/llvm-config.h"

#include <sstream>

namespace {

class Sweep final : public mlir::PassWrapper<Sweep, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Sweep)

  llvm::StringRef getArgument() const override { return "bench-sweep"; }
  llvm::StringRef getDescription() const override { return "Asks models, and says how long"; }
  void runOnOperation() override {
    const char *given = std::getenv("BENCH_URIS");
    std::istringstream words(given ? given : "");
    std::vector<std::string> uris;
    for (std::string uri; words >> uri;)
      uris.push_back(uri);
    roundtrip::sweep(uris);
  }
};

} // namespace

extern "C" [[gnu::visibility("default")]] mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "bench-sweep", LLVM_VERSION_STRING,
          [] { mlir::PassRegistration<Sweep>(); }};
}
