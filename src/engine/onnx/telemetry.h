// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps ONNX Runtime from reporting home while it starts.
#ifndef MLBRIDGE_ENGINE_ONNX_TELEMETRY_H
#define MLBRIDGE_ENGINE_ONNX_TELEMETRY_H

#include <vector>

namespace mlbridge::onnx {

/// Since 1.29 the official builds of ONNX Runtime start a thread, write below the user's cache
/// folder and send what they see of models, unless ORT_DISABLE_TELEMETRY is in the environment when
/// they start. A compiler does none of that, and starts faster without. So the variable is there
/// while this object lives, except if the user has set it to whatever value.
///
/// setenv might move the strings under another thread's getenv; here that thread sees either the
/// old array of pointers or the new one, both of which stay valid.
class NoTelemetry {
public:
  NoTelemetry();
  ~NoTelemetry();
  NoTelemetry(const NoTelemetry &) = delete;
  NoTelemetry &operator=(const NoTelemetry &) = delete;

private:
  char **before_ = nullptr; ///< null if nothing was changed
  char **during_ = nullptr;
  std::vector<char *> entries_; ///< of before_
};

} // namespace mlbridge::onnx

#endif
