// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's side of the round trip, through the library.
//
//   round-trip-client sweep URI      sizes 500, 1000 … 50 000 through one Runner, resized for each
//   round-trip-client sweep URI...   the same sizes, a model for each
//   round-trip-client small URI      16 floats -> 1 int64
//
// Prints "ready". Then each line of standard input, "<passes>", makes that many passes (100 queries
// of a sweep, or one small one), checks every answer and prints the nanoseconds they took.
#include "sweep.h"

using namespace mlbridge;

int main(int count, char **arguments) {
  if (count < 3)
    bench::fail("usage: round-trip-client sweep|small URI...");
  if (std::strcmp(arguments[1], "small") == 0) {
    Runner runner =
        roundtrip::opened(arguments[2], {{TensorSpec::of<float>("x", {roundtrip::SmallSize})},
                                         {TensorSpec::of<int64_t>("y", {1})}});
    roundtrip::serveSmall(runner.input<float>("x").data(),
                          [&] { return roundtrip::answer<int64_t>(runner); });
    return 0;
  }
  roundtrip::sweep({arguments + 2, arguments + count});
  return 0;
}
