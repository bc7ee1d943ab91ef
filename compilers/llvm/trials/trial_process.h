// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes in which a compiler tries something that cannot be undone.
#ifndef MLBRIDGE_LLVM_TRIAL_PROCESS_H
#define MLBRIDGE_LLVM_TRIAL_PROCESS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/LLVMContext.h"

#include <chrono>
#include <memory>
#include <string>
#include <sys/types.h>

namespace mlbridge::trial {

/// The last resort against a trial that doesn't end.
inline constexpr std::chrono::seconds Longest(60);

/// The reason for which nothing can be tried in this process, as other threads would disturb; empty
/// if there is none.
std::string whyNot();

/// A forked process, and a pipe that ends with it.
struct Child {
  pid_t Id = -1;
  int Alive = -1; ///< readable, at its end, once the process is gone; in the child the other end

  /// Returns true in the child. In the caller, Id stays -1 if there could be no process (errno).
  bool fork();
  /// Kills it, unless it was reaped.
  void end();
  /// Waits for its end; returns what waitpid says of it.
  int reap();
  /// Waits for its end, and after this time kills it.
  void reapWithin(std::chrono::seconds Limit);
};

/// In a child: whatever happens, nothing of it is seen from outside. Files that were open for
/// writing, all but those of `Keep` (such as Child::Alive), are no longer. No file can be written
/// but by writeAll, and where the kernel has Landlock, none can be made, truncated, renamed or
/// removed. Signals and fatal errors end the process and nothing else; exit() also does what was
/// registered for it after the first fork.
void isolate(llvm::ArrayRef<int> Keep = {});

/// True in a child that isolate() was called in.
bool isTrial();

/// Ends a trial, which should have ended before, as failed. Does nothing in other processes.
void mustNotBeTrial();

/// In a child: writes to one of the files that were kept; false if it can't.
bool writeAll(int File, llvm::StringRef Bytes);

/// In a child: no remarks, and diagnostics go to this handler.
void divert(llvm::LLVMContext &Context, std::unique_ptr<llvm::DiagnosticHandler> To);

} // namespace mlbridge::trial

#endif
