// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// True if programs of the 2024 release get LLVM's types, which all of them then needed: yes if its
// headers are in the include path. The same in all sources of a program; -DMLBRIDGE_COMPAT_LLVM=0
// turns it off.
#ifndef MLBRIDGE_COMPAT_LLVM_H
#define MLBRIDGE_COMPAT_LLVM_H

#ifndef MLBRIDGE_COMPAT_LLVM
#if __has_include("llvm/ADT/SmallVector.h") && __has_include("llvm/Support/CommandLine.h")
#define MLBRIDGE_COMPAT_LLVM 1
#else
#define MLBRIDGE_COMPAT_LLVM 0
#endif
#endif

namespace llvm {
class LLVMContext;
}

#endif
