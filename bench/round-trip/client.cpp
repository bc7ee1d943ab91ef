// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's side of the round trip, through the library.
//
//   round-trip-client sweep URI      sizes 500, 1000 … 50 000 through one Runner, resized for each
//   round-trip-client sweep URI...   the same sizes, a model for each
//   round-trip-client small URI      16 floats -> 1 int64
//
// Prints "ready". Then each line of standard input, "<passes>", makes that many passes (100 queries
// of a sweep, or one small one), checks every answer and prints the nanoseconds they took.
#include "expected.h"

#include <mlbridge/model.h>

#include <cstring>

using namespace mlbridge;
using bench::fail;

namespace {

template <typename T> T answer(Runner &runner) {
  Expected<T> found = runner.evaluate<T>();
  if (!found)
    fail(found.status().toString());
  return *found;
}

Runner opened(const char *uri, const Signature &signature) {
  OpenOptions options;
  options.deadline = std::chrono::seconds(60);
  Runner runner = open(uri, signature, options);
  if (!runner)
    fail(runner.status().toString());
  return runner;
}

Signature signature(int64_t size) {
  return {{TensorSpec::of<float>("x", {size})}, {TensorSpec::of<float>("y", {1})}};
}

} // namespace

int main(int count, char **arguments) {
  if (count < 3)
    fail("usage: round-trip-client sweep|small URI...");
  if (std::strcmp(arguments[1], "small") == 0) {
    Runner runner = opened(arguments[2], {{TensorSpec::of<float>("x", {roundtrip::SmallSize})},
                                          {TensorSpec::of<int64_t>("y", {1})}});
    roundtrip::serveSmall(runner.input<float>("x").data(), [&] { return answer<int64_t>(runner); });
    return 0;
  }
  if (count == 3) {
    Runner runner = opened(arguments[2], signature(Dynamic));
    roundtrip::serveSweep([&](const float *x, size_t size) {
      Expected<Span<float>> input = runner.resize<float>("x", {static_cast<int64_t>(size)});
      if (!input)
        fail(input.status().toString());
      std::memcpy(input->data(), x, size * sizeof(float));
      return answer<float>(runner);
    });
    return 0;
  }
  if (count - 2 != roundtrip::LargestSize / roundtrip::SizeStep)
    fail("expected a model for each size");
  std::vector<Runner> runners;
  std::vector<Span<float>> inputs;
  for (int i = 2; i < count; ++i) {
    runners.push_back(opened(arguments[i], signature((i - 1) * roundtrip::SizeStep)));
    inputs.push_back(runners.back().input<float>("x"));
  }
  roundtrip::serveSweep([&](const float *x, size_t size) {
    const size_t i = size / roundtrip::SizeStep - 1;
    std::memcpy(inputs[i].data(), x, size * sizeof(float));
    return answer<float>(runners[i]);
  });
  return 0;
}
