// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the onnx engine: ONNX Runtime's C API alone, nothing of the library. A session has
// the options that the engine gives it, and everything is bound beforehand.
//
//   floor-onnx LIBRARY sweep|small MODEL...             of a sweep a model for each size
//   floor-onnx LIBRARY packed|plain MODEL EXAMPLES
//
// Standard input and output as for round-trip-client and for in-process-client.
#include "../in-process/examples.h"
#include "../round-trip/expected.h"
#include "session.h"

namespace {

using namespace bench;

} // namespace

int main(int count, char **arguments) {
  const std::string mode = count > 3 ? arguments[2] : "";
  const bool sweep = mode == "sweep", small = mode == "small", packed = mode == "packed";
  const int models = sweep ? roundtrip::LargestSize / roundtrip::SizeStep : 1;
  if (count != 3 + models + (sweep || small ? 0 : 1))
    fail("usage: floor-onnx LIBRARY sweep|small MODEL... | LIBRARY packed|plain MODEL EXAMPLES");
  OrtEnv *const env = openRuntime(arguments[1]);
  std::vector<Session> sessions;
  for (int i = 0; i < models; ++i)
    if (!sessions.emplace_back(env, arguments[3 + i], packed).failure.empty())
      fail(sessions.back().failure);
  const Session &first = sessions.front();
  if (sweep) {
    roundtrip::serveSweep([&](const float *x, size_t size) {
      const Session &session = sessions[size / roundtrip::SizeStep - 1];
      std::memcpy(session.inputs[0].data, x, size * sizeof(float));
      session.run();
      return *reinterpret_cast<const float *>(session.outputs[0].data);
    });
  } else if (small) {
    roundtrip::serveSmall(reinterpret_cast<float *>(first.inputs[0].data), [&] {
      first.run();
      return *reinterpret_cast<const int64_t *>(first.outputs[0].data);
    });
  } else {
    std::vector<inprocess::Input> inputs;
    for (const Bound &input : first.inputs)
      inputs.push_back({input.data, input.count * input.width, input.width});
    const auto *answer = reinterpret_cast<const float *>(first.outputs[0].data);
    inprocess::Examples(arguments[4], inputs, first.outputs[0].count).serveLines([&] {
      first.run();
      return answer;
    });
  }
  return 0;
}
