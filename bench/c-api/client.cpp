// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same queries in process through the C++ and through the C interface, in turn.
//
//   c-api-client URI LARGEST STEP ROUNDS
//
// A sweep is a query of STEP, 2 STEP ... LARGEST floats, put into the input "x"; LARGEST = STEP
// repeats one of 100. Prints "<ns of a sweep in C++> <in C>" for each round.
//
// "function:dot" is the model of the published measurement: any number of floats to one.
#include "ask.h"

#include "../timed.h"

#include <mlbridge/function.h>
#include <mlbridge/model.h>

using namespace mlbridge;
using bench::fail;

namespace {

constexpr size_t Queries = 100;
constexpr int64_t Most = 50000;

const std::vector<float> &numbers() {
  static const std::vector<float> all = [] {
    std::vector<float> made(Most);
    for (size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<float>(i % 17) / 16;
    return made;
  }();
  return all;
}

Status dot(FunctionCall &call) {
  const Span<const float> x = call.in<float>("x");
  const float *weights = numbers().data();
  constexpr size_t Lanes = 16;
  float sums[Lanes] = {};
  size_t i = 0;
  for (; i + Lanes <= x.size(); i += Lanes)
    for (size_t k = 0; k < Lanes; ++k)
      sums[k] += x[i + k] * weights[i + k];
  for (; i < x.size(); ++i)
    sums[0] += x[i] * weights[i];
  float total = 0;
  for (float sum : sums)
    total += sum;
  call.out<float>("y")[0] = total;
  return Status();
}

double sweep(Runner &runner, const std::vector<uint64_t> &sizes) {
  double total = 0;
  for (uint64_t size : sizes) {
    if (!runner.set("x", Span<const float>(numbers().data(), size)))
      return -1;
    const Expected<float> answer = runner.evaluate<float>();
    if (!answer)
      return -1;
    total += *answer;
  }
  return total;
}

template <typename F> double nanoseconds(const F &sweepOnce, double expected) {
  const auto begin = bench::Clock::now();
  const double got = sweepOnce();
  const std::chrono::duration<double, std::nano> took = bench::Clock::now() - begin;
  if (got != expected)
    fail("the sum of the answers is " + std::to_string(got));
  return took.count();
}

} // namespace

int main(int count, char **arguments) {
  if (count != 5)
    fail("usage: c-api-client URI LARGEST STEP ROUNDS");
  const uint64_t largest = std::strtoull(arguments[2], nullptr, 10);
  const uint64_t step = std::strtoull(arguments[3], nullptr, 10);
  const long rounds = std::strtol(arguments[4], nullptr, 10);
  if (!step || largest > Most)
    fail("sizes are 1 to 50000");
  std::vector<uint64_t> sizes;
  for (uint64_t size = step; size <= largest; size += step)
    sizes.push_back(size);
  if (sizes.size() == 1)
    sizes.resize(Queries, sizes[0]);

  const Signature any = {{TensorSpec::of<float>("x", {Dynamic}, {Most})},
                         {TensorSpec::of<float>("y")}};
  if (Status s = registerFunction("dot",
                                  [any](const Uri &) -> Expected<FunctionModel> {
                                    return FunctionModel{any, {}, [] { return Function(dot); }};
                                  });
      !s)
    fail(s.toString());

  Model model = Model::open(arguments[1]);
  if (!model || !model.modelSignature())
    fail(model.status().toString());
  if (Status s = model.bind(*model.modelSignature()); !s)
    fail(s.toString());
  Runner cxx = model.newRunner();
  mlbridge_runner *c = mlbridge_open(arguments[1], nullptr, nullptr);
  const double expected = sweep(cxx, sizes);
  const auto inCxx = [&] { return sweep(cxx, sizes); };
  const auto inC = [&] { return c_sweep(c, numbers().data(), sizes.data(), sizes.size()); };
  for (long round = 0; round < rounds; ++round) {
    // Who is first changes.
    const bool first = round % 2 == 0;
    const double a = first ? nanoseconds(inCxx, expected) : nanoseconds(inC, expected);
    const double b = first ? nanoseconds(inC, expected) : nanoseconds(inCxx, expected);
    std::printf("%.0f %.0f\n", first ? a : b, first ? b : a);
  }
  mlbridge_runner_destroy(c);
  return 0;
}
