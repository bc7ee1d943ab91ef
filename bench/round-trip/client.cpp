// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's side of the round trip, through the library.
//
//   round-trip-client sweep URI        sizes 500, 1000 … 50 000 through one Runner, resized for
//   each round-trip-client sweep URI URI…   the same sizes, a model for each round-trip-client
//   small URI        16 floats -> 1 int64
//
// Prints "ready". Then each line of standard input, "<passes>", makes that many passes (100 queries
// of a sweep, or one small one), checks every answer and prints the nanoseconds they took.
#include "expected.h"

#include <mlbridge/model.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace mlbridge;
using Clock = std::chrono::steady_clock;

namespace {

[[noreturn]] void fail(const std::string &why) {
  std::fprintf(stderr, "round-trip-client: %s\n", why.c_str());
  std::exit(1);
}

/// Times the passes that each line of standard input asks for.
template <typename Pass> void serveLines(Pass pass) {
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    const Clock::time_point start = Clock::now();
    for (long passes = std::strtol(line, nullptr, 10); passes > 0; --passes)
      pass();
    std::printf("%lld\n",
                static_cast<long long>(std::chrono::nanoseconds(Clock::now() - start).count()));
    std::fflush(stdout);
  }
}

} // namespace

int main(int count, char **arguments) {
  if (count < 3)
    fail("usage: round-trip-client sweep|small URI...");
  const std::vector<float> x = roundtrip::sweepInput();
  OpenOptions options;
  options.deadline = std::chrono::seconds(60);
  if (std::strcmp(arguments[1], "small") == 0) {
    Runner runner = open(
        arguments[2],
        {{TensorSpec::of<float>("x", {roundtrip::SmallSize})}, {TensorSpec::of<int64_t>("y", {1})}},
        options);
    const Span<float> input = runner.input<float>("x");
    if (!runner)
      fail(runner.status().toString());
    int64_t query = 0;
    serveLines([&] {
      roundtrip::fillSmall(input.data(), query);
      Expected<int64_t> answer = runner.evaluate<int64_t>();
      if (!answer || *answer != roundtrip::smallAnswer(query))
        fail(answer ? "wrong answer " + std::to_string(*answer) : answer.status().toString());
      ++query;
    });
    return 0;
  }
  const std::vector<double> expected = roundtrip::sweepAnswers();
  const auto check = [&](Runner &runner, int64_t size) {
    Expected<float> answer = runner.evaluate<float>();
    if (!answer || !roundtrip::isClose(*answer, expected[size]))
      fail(answer ? "wrong answer " + std::to_string(*answer) + " for " + std::to_string(size) +
                        " floats"
                  : answer.status().toString());
  };
  if (count == 3) {
    Runner runner =
        open(arguments[2],
             {{TensorSpec::of<float>("x", {Dynamic})}, {TensorSpec::of<float>("y", {1})}}, options);
    serveLines([&] {
      for (int64_t size : roundtrip::sweepSizes()) {
        Expected<Span<float>> input = runner.resize<float>("x", {size});
        if (!input)
          fail(input.status().toString());
        std::memcpy(input->data(), x.data(), static_cast<size_t>(size) * sizeof(float));
        check(runner, size);
      }
    });
    return 0;
  }
  const std::vector<int64_t> sizes = roundtrip::sweepSizes();
  if (static_cast<size_t>(count - 2) != sizes.size())
    fail("expected a model for each size");
  std::vector<Runner> runners;
  std::vector<Span<float>> inputs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    runners.push_back(open(
        arguments[i + 2],
        {{TensorSpec::of<float>("x", {sizes[i]})}, {TensorSpec::of<float>("y", {1})}}, options));
    inputs.push_back(runners.back().input<float>("x"));
    if (!runners.back())
      fail(runners.back().status().toString());
  }
  serveLines([&] {
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::memcpy(inputs[i].data(), x.data(), static_cast<size_t>(sizes[i]) * sizeof(float));
      check(runners[i], sizes[i]);
    }
  });
  return 0;
}
