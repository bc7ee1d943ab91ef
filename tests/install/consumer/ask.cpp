// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks the model of a URI once: `ask URI` prints its answer, or the heuristic's and why.
#include <mlbridge/function.h>
#include <mlbridge/model.h>

#include <cstdint>
#include <cstdio>

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  const mlbridge::Signature signature = {{mlbridge::TensorSpec::of<float>("x", {3})},
                                         {mlbridge::TensorSpec::of<int64_t>("action")}};
  const mlbridge::Status registered = mlbridge::registerFunction("sum", [&](const mlbridge::Uri &) {
    mlbridge::FunctionModel model;
    model.signature = signature;
    model.newFunction = [] {
      return [](mlbridge::FunctionCall &call) {
        float sum = 0;
        for (float v : call.in<float>("x"))
          sum += v;
        call.out<int64_t>("action")[0] = static_cast<int64_t>(sum);
        return mlbridge::Status();
      };
    };
    return mlbridge::Expected<mlbridge::FunctionModel>(model);
  });
  if (!registered) {
    std::fprintf(stderr, "%s\n", registered.toString().c_str());
    return 1;
  }

  mlbridge::Runner runner = mlbridge::open(argv[1], signature);
  // A wrong call shows in status(), too.
  (void)runner.set("x", {1.0F, 2.0F, 4.0F});
  const int64_t action = runner.evaluateOr<int64_t>([] { return -1; });
  std::printf("%lld\n", static_cast<long long>(action));
  if (!runner.status())
    std::fprintf(stderr, "%s\n", runner.status().toString().c_str());
  return 0;
}
