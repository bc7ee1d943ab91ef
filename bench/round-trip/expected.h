// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is asked in the round trip and what the answer must be: the experiment of Section 5.3 of
// "The Next 700 ML-Enabled Compiler Optimizations" (one fully connected layer from 500, 1000 … 50
// 000 floats to one), and a small query. All values are exact in float32.
// bench/round-trip/policy.py has the same numbers.
#ifndef MLBRIDGE_BENCH_ROUND_TRIP_EXPECTED_H
#define MLBRIDGE_BENCH_ROUND_TRIP_EXPECTED_H

#include "../timed.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace roundtrip {

constexpr int64_t LargestSize = 50000, SizeStep = 500, SmallSize = 16;

/// Times sweeps of `ask(x, size)`, which gives the answer for the first `size` floats of x.
template <typename Ask> void serveSweep(Ask ask) {
  std::vector<float> x(LargestSize);
  std::vector<double> expected(LargestSize + 1); // by size
  for (int64_t k = 0; k < LargestSize; ++k) {
    x[k] = static_cast<float>(k % 17) / 16;
    const double weight = static_cast<double>(k * 7 % 13 - 5) / 64;
    expected[k + 1] = expected[k] + static_cast<double>(x[k]) * weight;
  }
  bench::serveLines([&](long passes) {
    for (; passes > 0; --passes)
      for (int64_t size = SizeStep; size <= LargestSize; size += SizeStep) {
        const double found = ask(x.data(), static_cast<size_t>(size));
        if (!(std::fabs(found - expected[size]) <= 1e-4 * (1 + std::fabs(expected[size]))))
          bench::fail("wrong answer for " + std::to_string(size) + " floats");
      }
  });
}

/// Times small queries, each of which is written to `input`: 16 numbers, of which another one is
/// the largest each time. The answer is its place.
template <typename Ask> void serveSmall(float *input, Ask ask) {
  int64_t query = 0;
  bench::serveLines([&](long passes) {
    for (; passes > 0; --passes, ++query) {
      for (int64_t k = 0; k < SmallSize; ++k)
        input[k] = static_cast<float>(k) / 4;
      input[query % SmallSize] = 100;
      if (ask() != query % SmallSize)
        bench::fail("wrong answer");
    }
  });
}

} // namespace roundtrip

#endif
