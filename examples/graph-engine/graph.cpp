// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "graph.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace graph {

namespace {
constexpr size_t Largest = 1 << 16; // of a length; rows are checked before memory is taken
}

bool Module::load(const std::string &path, std::string &why) {
  std::ifstream file(path);
  if (!file) {
    why = path + ": cannot be read";
    return false;
  }
  std::string line, word;
  size_t number = 0;
  const auto next = [&](std::istringstream &words) {
    while (std::getline(file, line)) {
      ++number;
      if (!line.empty()) {
        words = std::istringstream(line);
        return true;
      }
    }
    return false;
  };
  const auto bad = [&](const char *expected) {
    why = path + ":" + std::to_string(number) + ": " + expected + " was expected";
    return false;
  };
  std::istringstream words;
  int version = 0;
  if (!next(words) || !(words >> word >> version) || word != "graph" || version != 1)
    return bad("'graph 1'");
  if (!next(words) || !(words >> word >> input >> length) || word != "input" || length == 0 ||
      length > Largest)
    return bad("'input NAME LENGTH'");
  while (next(words) && words >> word && word == "dense") {
    Kernel kernel;
    kernel.inputs = width();
    std::string activation;
    if (!(words >> kernel.outputs >> activation) || kernel.outputs == 0 ||
        kernel.outputs > Largest || (activation != "relu" && activation != "none"))
      return bad("'dense OUTPUTS relu|none'");
    kernel.relu = activation == "relu";
    for (size_t row = 0; row < kernel.outputs; ++row) {
      if (!next(words))
        return bad("a row of weights");
      float value = 0;
      for (size_t i = 0; i <= kernel.inputs; ++i) {
        if (!(words >> value))
          return bad("a weight for each input, and the bias");
        kernel.weights.push_back(value);
      }
    }
    kernels.push_back(std::move(kernel));
  }
  std::string kind;
  if (word != "output" || !(words >> output >> kind) || (kind != "argmax" && kind != "values"))
    return bad("'output NAME argmax|values'");
  argmax = kind == "argmax";
  return true;
}

const float *Module::run(const float *input, std::vector<float> (&scratch)[2]) const {
  const float *values = input;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Kernel &kernel = kernels[k];
    std::vector<float> &out = scratch[k % 2];
    out.resize(kernel.outputs);
    const float *row = kernel.weights.data();
    for (size_t o = 0; o < kernel.outputs; ++o, row += kernel.inputs + 1) {
      float sum = row[kernel.inputs];
      for (size_t i = 0; i < kernel.inputs; ++i)
        sum += row[i] * values[i];
      out[o] = kernel.relu ? std::max(sum, 0.0F) : sum;
    }
    values = out.data();
  }
  return values;
}

} // namespace graph
