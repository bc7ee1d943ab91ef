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

inline std::vector<float> sweepInput() {
  std::vector<float> x;
  for (int64_t k = 0; k < LargestSize; ++k)
    x.push_back(static_cast<float>(k % 17) / 16);
  return x;
}

inline double weight(int64_t k) { return static_cast<double>(k * 7 % 13 - 5) / 64; }

/// By size.
inline std::vector<double> sweepAnswers() {
  std::vector<double> answers(LargestSize + 1);
  for (int64_t k = 0; k < LargestSize; ++k)
    answers[k + 1] = answers[k] + static_cast<double>(k % 17) / 16 * weight(k);
  return answers;
}

inline bool isClose(double found, double expected) {
  return std::fabs(found - expected) <= 1e-4 * (1 + std::fabs(expected));
}

/// The place of the largest of 16 numbers, another one for each query.
inline void fillSmall(float *x, int64_t query) {
  for (int64_t k = 0; k < SmallSize; ++k)
    x[k] = static_cast<float>(k) / 4;
  x[query % SmallSize] = 100;
}
inline int64_t smallAnswer(int64_t query) { return query % SmallSize; }

/// Times sweeps of `ask(x, size)`, which gives the answer for the first `size` floats of x.
template <typename Ask> void serveSweep(Ask ask) {
  const std::vector<float> x = sweepInput();
  const std::vector<double> expected = sweepAnswers();
  bench::serveLines([&](long passes) {
    for (; passes > 0; --passes)
      for (int64_t size = SizeStep; size <= LargestSize; size += SizeStep)
        if (!isClose(ask(x.data(), static_cast<size_t>(size)), expected[size]))
          bench::fail("wrong answer for " + std::to_string(size) + " floats");
  });
}

/// Times small queries, each of which is written to `input`.
template <typename Ask> void serveSmall(float *input, Ask ask) {
  int64_t query = 0;
  bench::serveLines([&](long passes) {
    for (; passes > 0; --passes, ++query) {
      fillSmall(input, query);
      if (ask() != smallAnswer(query))
        bench::fail("wrong answer");
    }
  });
}

} // namespace roundtrip

#endif
