// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_CODE_SIZE_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_CODE_SIZE_H

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <string>

namespace llvm {
class TargetMachine;
}

namespace mlbridge::phase_ordering {

/// Bytes of the executable sections of the object that code generation makes of a copy of the
/// module, for the module's own target. Errors: there is no such target in this process.
llvm::Expected<uint64_t> codeSize(const llvm::Module &M);

/// Bytes of the code that this code generator makes, or one for the module's target if it
/// is null. The module is used up.
llvm::Expected<uint64_t> measureCode(llvm::Module &M, llvm::TargetMachine *TM);

/// The assembly of the code that this code generator makes. The module is used up.
llvm::Expected<std::string> assemblyOf(llvm::Module &M, llvm::TargetMachine &TM);

/// Writes bitcode, or the assembly of the same code if the path ends with ".s".
llvm::Error writeModule(const llvm::Module &M, llvm::StringRef Path);

} // namespace mlbridge::phase_ordering

#endif
