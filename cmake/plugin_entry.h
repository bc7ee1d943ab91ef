// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Included first into plugins that link MLBridge::core, whose symbols are hidden: LLVM's header
// doesn't say that this one is looked for from outside.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wreturn-type-c-linkage"
#endif
namespace llvm {
struct PassPluginLibraryInfo;
}
extern "C" __attribute__((visibility("default"))) ::llvm::PassPluginLibraryInfo
llvmGetPassPluginInfo();
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
