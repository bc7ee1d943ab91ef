// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the programs of this benchmark share: examples from a file, and the loop that is timed.
#ifndef MLBRIDGE_BENCH_IN_PROCESS_EXAMPLES_H
#define MLBRIDGE_BENCH_IN_PROCESS_EXAMPLES_H

#include "../timed.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace inprocess {

using bench::fail;

/// A buffer that a model reads.
struct Input {
  unsigned char *data;
  std::size_t bytes, width; ///< of all, and of an element
};

/// Inputs and the outputs that belong to them, as raw bytes one after another.
class Examples {
public:
  Examples(const char *path, std::vector<Input> inputs, std::size_t outputs)
      : inputs_(std::move(inputs)), outputs_(outputs) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
      fail(std::string("cannot open ") + path);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    for (const Input &input : inputs_)
      size_ += input.bytes;
    size_ += outputs * sizeof(float);
    if (bytes_.size() % size_ || bytes_.size() / size_ < 2)
      fail(std::string(path) + " does not belong to this model");
  }

  /// Asks for each example, and holds the answers to the expected ones.
  template <typename Evaluate> void check(Evaluate evaluate) {
    for (std::size_t at = 0; at < bytes_.size(); at += size_) {
      const char *expected = write(at);
      const float *found = evaluate();
      for (std::size_t i = 0; i < outputs_; ++i) {
        float value = 0;
        std::memcpy(&value, expected + i * sizeof(float), sizeof(float));
        if (!(std::fabs(found[i] - value) <= 2e-4F * (1 + std::fabs(value))))
          fail("output " + std::to_string(i) + " is " + std::to_string(found[i]) + ", expected " +
               std::to_string(value));
      }
    }
    write(0);
  }

  /// Times the passes that each line of standard input asks for. One element of the first input
  /// changes each time, so that no answer can be an old one; the rest is written beforehand.
  template <typename Evaluate> void serveLines(Evaluate evaluate) {
    check(evaluate);
    const Input &first = inputs_.front();
    unsigned char element[2][8];
    std::memcpy(element[0], bytes_.data(), first.width);
    std::memcpy(element[1], bytes_.data() + size_, first.width);
    [[maybe_unused]] volatile float sink = 0; // whatever evaluates, the answers are looked at
    bench::serveLines([&](long passes) {
      float sum = 0;
      for (; passes > 0; --passes) {
        if (first.width == 4)
          std::memcpy(first.data, element[passes & 1], 4);
        else
          std::memcpy(first.data, element[passes & 1], 8);
        sum += *evaluate();
      }
      sink = sum;
    });
    check(evaluate);
  }

private:
  const char *write(std::size_t at) {
    for (const Input &input : inputs_) {
      std::memcpy(input.data, bytes_.data() + at, input.bytes);
      at += input.bytes;
    }
    return bytes_.data() + at;
  }

  std::string bytes_;
  std::vector<Input> inputs_;
  std::size_t outputs_, size_ = 0;
};

} // namespace inprocess

#endif
