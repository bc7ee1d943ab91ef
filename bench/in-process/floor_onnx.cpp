// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of all engines: ONNX Runtime's C API alone, everything bound beforehand.
//
//   in-process-floor-onnx LIBRARY packed|plain MODEL EXAMPLES
//
// Says "ready"; each line "<passes>" of standard input is answered with the nanoseconds they took.
#include "../floor/onnx_session.h"
#include "examples.h"

int main(int count, char **arguments) {
  if (count != 5)
    bench::fail("usage: in-process-floor-onnx LIBRARY packed|plain MODEL EXAMPLES");
  const bench::Session session(bench::openRuntime(arguments[1]), arguments[3],
                               std::strcmp(arguments[2], "packed") == 0);
  std::vector<inprocess::Input> inputs;
  for (const bench::Bound &input : session.inputs)
    inputs.push_back({input.data, input.count * input.width, input.width});
  const auto *answer = reinterpret_cast<const float *>(session.output.data);
  inprocess::Examples(arguments[4], inputs, session.output.count).serveLines([&] {
    session.run();
    return answer;
  });
  return 0;
}
