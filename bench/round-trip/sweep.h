// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sweep through the library, for every client in C++.
#ifndef MLBRIDGE_BENCH_ROUND_TRIP_SWEEP_H
#define MLBRIDGE_BENCH_ROUND_TRIP_SWEEP_H

#include "expected.h"

#include <mlbridge/model.h>

#include <cstring>
#include <string>
#include <vector>

namespace roundtrip {

template <typename T> T answer(mlbridge::Runner &runner) {
  mlbridge::Expected<T> found = runner.evaluate<T>();
  if (!found)
    bench::fail(found.status().toString());
  return *found;
}

inline mlbridge::Runner opened(const char *uri, const mlbridge::Signature &signature) {
  mlbridge::OpenOptions options;
  options.deadline = std::chrono::seconds(60);
  mlbridge::Runner runner = mlbridge::open(uri, signature, options);
  if (!runner)
    bench::fail(runner.status().toString());
  return runner;
}

inline mlbridge::Signature signature(int64_t size) {
  using mlbridge::TensorSpec;
  return {{TensorSpec::of<float>("x", {size})}, {TensorSpec::of<float>("y", {1})}};
}

/// Sweeps through one Runner, resized for each size, or through a model for each of the sizes.
inline void sweep(const std::vector<std::string> &uris) {
  using namespace mlbridge;
  if (uris.size() == 1) {
    Runner runner = opened(uris[0].c_str(), signature(Dynamic));
    serveSweep([&](const float *x, size_t size) {
      Expected<Span<float>> input = runner.resize<float>("x", {static_cast<int64_t>(size)});
      if (!input)
        bench::fail(input.status().toString());
      std::memcpy(input->data(), x, size * sizeof(float));
      return answer<float>(runner);
    });
    return;
  }
  if (uris.size() != LargestSize / SizeStep)
    bench::fail("expected a model for each size");
  std::vector<Runner> runners;
  std::vector<Span<float>> inputs;
  for (const std::string &uri : uris) {
    const auto size = static_cast<int64_t>(runners.size() + 1) * SizeStep;
    runners.push_back(opened(uri.c_str(), signature(size)));
    inputs.push_back(runners.back().input<float>("x"));
  }
  serveSweep([&](const float *x, size_t size) {
    const size_t i = size / SizeStep - 1;
    std::memcpy(inputs[i].data(), x, size * sizeof(float));
    return answer<float>(runners[i]);
  });
}

} // namespace roundtrip

#endif
