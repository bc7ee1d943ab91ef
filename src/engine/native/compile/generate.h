// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ahead-of-time compiler: a plan of the native engine as C++ source that calls the kernels with
// constant parameters. `mlbridge aot` has it compiled once for each instruction set.
#ifndef MLBRIDGE_ENGINE_NATIVE_COMPILE_GENERATE_H
#define MLBRIDGE_ENGINE_NATIVE_COMPILE_GENERATE_H

#include "engine/native/plan.h"

#include <mlbridge/model.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mlbridge::aot {

struct GenerateOptions {
  /// Prefix of all symbols: a C identifier.
  std::string name;
  /// Lengths of dynamic dimensions by their names in the file ("batch"), and whole shapes by the
  /// names of inputs, which win.
  std::map<std::string, int64_t> dimensions;
  std::map<std::string, std::vector<int64_t>> shapes;
  /// The weights come from a file when the program runs.
  bool externalWeights = false;
  /// Bytes of inputs, outputs and workspace of one evaluation.
  uint64_t memory = uint64_t(1) << 30;
};

struct Generated {
  /// C++, which includes headers of the kernels. With MLBRIDGE_AOT_ISA (Portable, Neon, Avx2,
  /// Avx512) defined it is that instruction set's evaluation; without, all else, which takes
  /// NAME_weights.bin in by .incbin unless the weights are external.
  std::string source;
  std::string header;             ///< C, self-contained
  std::string weights;            ///< with its mlb_aot_weights in front if external
  std::vector<std::string> files; ///< that were read besides the model's own
};

/// Errors: those of native::Network::open; InvalidArgument (the name, a length that is missing or
/// of no dimension); Unsupported (shapes that depend on values); LimitExceeded (the memory).
Expected<Generated> generate(const std::string &path, const GenerateOptions &options);

/// Its last part, of a plan without decisions. `file`: the network's, for comments.
Generated print(const native::Plan &plan, const Metadata &metadata, const std::string &file,
                const GenerateOptions &options);

} // namespace mlbridge::aot

#endif
