// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_MULTIVERSIONING_PROCESSOR_H
#define MLBRIDGE_LLVM_MULTIVERSIONING_PROCESSOR_H

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace mlbridge::multiversioning {

/// What the level x86-64-v3 of the System V ABI has more than x86-64, without FMA: a product that
/// isn't rounded gives other results.
constexpr llvm::StringLiteral Features = "+avx2,+bmi,+bmi2,+lzcnt,+movbe,+popcnt";

/// Code that asks, in a program that runs, whether its processor and operating system have these.
/// What is there to ask is added to the module: a constructor asks `cpuid`, before others run.
class Processor {
public:
  explicit Processor(llvm::Module &M);
  /// An `i1`; false before the constructor has run.
  llvm::Value *has(llvm::IRBuilder<> &Code) const;

private:
  llvm::GlobalVariable *Known;
};

} // namespace mlbridge::multiversioning

#endif
