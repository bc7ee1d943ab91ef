// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same queries in process through the C++ and through the C interface, in turn.
//
//   ask-c-client URI ROUNDS
//
// A round is 100 queries, each of which copies the floats of the input "x" and reads the first
// float of the answer. Prints "<ns in C> <ns in C++>" for each round.
#include "../timed.h"

#include <mlbridge/c/mlbridge.h>
#include <mlbridge/model.h>

using namespace mlbridge;
using bench::fail;

namespace {

constexpr int Queries = 100;
using Numbers = std::vector<float>;

double inCxx(Runner &runner, const Numbers &x) {
  double total = 0;
  for (int i = 0; i < Queries; ++i) {
    const Expected<float> answer =
        runner.set("x", x) ? runner.evaluate<float>() : Expected<float>(runner.status());
    if (!answer)
      fail(answer.status().toString());
    total += *answer;
  }
  return total;
}

double inC(mlbridge_runner *runner, const Numbers &x) {
  double total = 0;
  for (int i = 0; i < Queries; ++i) {
    float answer = 0;
    if (mlbridge_runner_set(runner, "x", MLBRIDGE_FLOAT32, x.data(), x.size()) != MLBRIDGE_OK ||
        mlbridge_evaluate_float(runner, &answer) != MLBRIDGE_OK)
      fail("a query in C failed");
    total += answer;
  }
  return total;
}

template <typename Ask> double nanoseconds(const Ask &ask, double expected) {
  const auto begin = bench::Clock::now();
  const double got = ask();
  const std::chrono::duration<double, std::nano> took = bench::Clock::now() - begin;
  if (got != expected)
    fail("the sum of the answers is " + std::to_string(got));
  return took.count();
}

} // namespace

int main(int count, char **arguments) {
  if (count != 3)
    fail("usage: ask-c-client URI ROUNDS");
  Model model = Model::open(arguments[1]);
  if (!model || !model.modelSignature())
    fail(model.status().toString());
  if (Status s = model.bind(*model.modelSignature()); !s)
    fail(s.toString());
  Runner cxx = model.newRunner();
  mlbridge_runner *c = mlbridge_open(arguments[1], nullptr, nullptr);
  Numbers x(cxx.input<float>("x").size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i % 17) / 16;
  const double expected = inCxx(cxx, x);
  const auto first = [&] { return nanoseconds([&] { return inC(c, x); }, expected); };
  const auto second = [&] { return nanoseconds([&] { return inCxx(cxx, x); }, expected); };
  for (long round = 0, rounds = std::strtol(arguments[2], nullptr, 10); round < rounds; ++round) {
    // The two take turns in being the first.
    const bool swapped = round % 2 != 0;
    const double before = swapped ? second() : first();
    const double after = swapped ? first() : second();
    std::printf("%.0f %.0f\n", swapped ? after : before, swapped ? before : after);
  }
  mlbridge_runner_destroy(c);
  return 0;
}
