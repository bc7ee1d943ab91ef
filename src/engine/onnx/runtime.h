// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX Runtime, found and opened at run time: nothing is linked to it, and only its C API is used.
#ifndef MLBRIDGE_ENGINE_ONNX_RUNTIME_H
#define MLBRIDGE_ENGINE_ONNX_RUNTIME_H

#include "c_api.h"

#include <mlbridge/status.h>

#include <mutex>
#include <string>
#include <string_view>

namespace mlbridge::onnx {

/// One loaded library with its only Env. Made once per library and process, never destroyed: the
/// end of the process may run while other threads still evaluate.
struct Runtime {
  const OrtApi *api = nullptr;
  OrtEnv *env = nullptr;
  OrtMemoryInfo *memory = nullptr;     ///< of the CPU
  OrtAllocator *allocator = nullptr;   ///< the default one, which gives out names and metadata
  OrtRunOptions *runOptions = nullptr; ///< the default ones, never changed
  std::string path;
  std::string version; ///< "1.22.0"
  int minor = 0;       ///< of version 1; a later one counts as the newest
  bool isAtLeast(int other) const { return minor >= other; }
  /// Held while a session is made.
  mutable std::mutex sessions;
};

/// The library at `named`, a file or a folder, or, if that is empty, the first one of
/// findCandidates. Thread-safe. Errors: NotFound (the message says where it looked and what to
/// install), Unsupported (a library of another ABI; the message has both versions).
Expected<const Runtime *> loadRuntime(std::string_view named);

/// Takes and releases `failure`. Ok if it is null; else `code` and its plainMessage after
/// "<where>: ". ONNX Runtime's own "not implemented" becomes Unsupported.
Status take(const OrtApi *api, OrtStatus *failure, Code code, std::string_view where);

} // namespace mlbridge::onnx

#endif
