// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the onnx engine in the round trip: ONNX Runtime's C API alone, nothing of the
// library.
//
//   floor-onnx LIBRARY sweep|small MODEL...     of a sweep a model for each size
//
// Standard input and output as for round-trip-client.
#include "../round-trip/expected.h"
#include "onnx_session.h"

int main(int count, char **arguments) {
  const bool sweep = count > 3 && std::strcmp(arguments[2], "sweep") == 0;
  if (count - 3 != (sweep ? roundtrip::LargestSize / roundtrip::SizeStep : 1))
    bench::fail("usage: floor-onnx LIBRARY sweep|small MODEL...");
  OrtEnv *const env = bench::openRuntime(arguments[1]);
  std::vector<bench::Session> sessions;
  for (int i = 3; i < count; ++i)
    sessions.emplace_back(env, arguments[i], false);
  if (sweep)
    roundtrip::serveSweep([&](const float *x, size_t size) {
      const bench::Session &session = sessions[size / roundtrip::SizeStep - 1];
      std::memcpy(session.inputs[0].data, x, size * sizeof(float));
      session.run();
      return *reinterpret_cast<const float *>(session.output.data);
    });
  else
    roundtrip::serveSmall(reinterpret_cast<float *>(sessions[0].inputs[0].data), [&] {
      sessions[0].run();
      return *reinterpret_cast<const int64_t *>(sessions[0].output.data);
    });
  return 0;
}
