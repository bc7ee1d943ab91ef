// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models that were compiled to a graph of kernels, as TVM's graph executor runs them:
//
//   graph 1                       the format and its version
//   input embedding 3             name, length
//   dense 4 relu                  outputs, activation (relu or none); then a row of weights for
//   each 1 0 0  0                      output, and its bias last
//   ...
//   output action argmax          name, and what is made of the last kernel's values (argmax,
//   values)
#ifndef GRAPH_H
#define GRAPH_H

#include <cstddef>
#include <string>
#include <vector>

namespace graph {

struct Kernel {
  size_t inputs = 0, outputs = 0;
  bool relu = false;
  std::vector<float> weights; ///< a row for each output, its bias last
};

struct Module {
  std::string input, output;
  size_t length = 0;
  bool argmax = false;
  std::vector<Kernel> kernels;

  size_t width() const { return kernels.empty() ? length : kernels.back().outputs; }
  /// Reads the file; untrusted. False, with a reason, if it is none.
  bool load(const std::string &path, std::string &why);
  /// `scratch` keeps its memory from call to call. The values of the last kernel.
  const float *run(const float *input, std::vector<float> (&scratch)[2]) const;
};

} // namespace graph

#endif
