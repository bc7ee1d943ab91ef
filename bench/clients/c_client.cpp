// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sweep of the round trip through the C interface, as round-trip-client's:
//
//   sweep-c-client URI...
#include "../round-trip/expected.h"

#include <mlbridge/c/mlbridge.h>

#include <cstring>

namespace {

float answer(mlbridge_runner *runner) {
  float found = 0;
  if (mlbridge_evaluate_float(runner, &found) != MLBRIDGE_OK)
    bench::fail(mlbridge_runner_message(runner));
  return found;
}

mlbridge_runner *opened(const char *uri, int64_t size) {
  const int64_t one = 1;
  const mlbridge_tensor_spec x = {sizeof x, "x", MLBRIDGE_FLOAT32, 1, &size, nullptr};
  const mlbridge_tensor_spec y = {sizeof y, "y", MLBRIDGE_FLOAT32, 1, &one, nullptr};
  const mlbridge_signature signature = {sizeof signature, &x, 1, &y, 1};
  mlbridge_open_options options = {};
  options.size = sizeof options;
  options.deadline = 60'000'000'000;
  mlbridge_runner *runner = mlbridge_open(uri, &signature, &options);
  if (mlbridge_runner_code(runner) != MLBRIDGE_OK)
    bench::fail(mlbridge_runner_message(runner));
  return runner;
}

} // namespace

int main(int count, char **arguments) {
  std::vector<mlbridge_runner *> runners;
  const bool isOne = count == 2;
  for (int i = 1; i < count; ++i)
    runners.push_back(opened(arguments[i], isOne ? MLBRIDGE_DYNAMIC : i * roundtrip::SizeStep));
  roundtrip::serveSweep([&](const float *x, size_t size) {
    mlbridge_runner *runner = runners[isOne ? 0 : size / roundtrip::SizeStep - 1];
    if (isOne) {
      const auto length = static_cast<int64_t>(size);
      void *input = mlbridge_runner_resize(runner, "x", MLBRIDGE_FLOAT32, &length, 1, nullptr);
      if (!input)
        bench::fail(mlbridge_runner_message(runner));
      std::memcpy(input, x, size * sizeof(float));
    } else if (mlbridge_runner_set(runner, "x", MLBRIDGE_FLOAT32, x, size) != MLBRIDGE_OK) {
      bench::fail(mlbridge_runner_message(runner));
    }
    return answer(runner);
  });
  for (mlbridge_runner *runner : runners)
    mlbridge_runner_destroy(runner);
  return 0;
}
