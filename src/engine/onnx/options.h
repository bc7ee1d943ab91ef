// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an onnx: URI says after '?'. The README has the table.
#ifndef MLBRIDGE_ENGINE_ONNX_OPTIONS_H
#define MLBRIDGE_ENGINE_ONNX_OPTIONS_H

#include <mlbridge/component.h>
#include <mlbridge/status.h>

#include <onnxruntime_c_api.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlbridge::onnx {

/// The defaults are for networks of a compiler, which evaluates one row at a time.
struct Options {
  std::string runtime;         ///< library or folder; empty: search
  int threads = 1;             ///< of one evaluation
  std::optional<bool> prepack; ///< unless stated, engine::paysToPrepack
  bool spin = false;           ///< threads wait for work without sleeping
  bool arena = false;          ///< ONNX Runtime's own allocator of temporaries, instead of malloc
  bool pattern = true;
  GraphOptimizationLevel optimize = ORT_ENABLE_ALL;
  std::vector<std::string> customOps; ///< shared libraries
  /// Entries of ONNX Runtime's session configuration, which win over all others.
  std::vector<std::pair<std::string, std::string>> config;

  /// Errors: InvalidArgument, naming the option, what it takes and what came.
  static Expected<Options> parse(const mlb_option *options, uint64_t size);
};

} // namespace mlbridge::onnx

#endif
