// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sweep of the round trip with the classes of the release of 2024, over their pipes:
//
//   sweep-published-client json|bytes BASENAME
#include "../round-trip/expected.h"

#include "MLModelRunner/PipeModelRunner.h"

using namespace MLBridge;

int main(int count, char **arguments) {
  if (count != 3)
    bench::fail("usage: sweep-published-client json|bytes BASENAME");
  const std::string basename = arguments[2];
  const bool isJson = std::string(arguments[1]) == "json";
  PipeModelRunner runner(basename + ".out", basename + ".in",
                         isJson ? SerDesKind::Json : SerDesKind::Bitstream);
  runner.setDeadline(std::chrono::seconds(60));
  roundtrip::serveSweep([&](const float *x, size_t size) {
    std::pair<std::string, std::vector<float>> features("x", {x, x + size});
    runner.populateFeatures(features);
    const auto found = runner.evaluate<float>();
    if (!runner.status())
      bench::fail(runner.status().toString());
    return found;
  });
  return 0;
}
