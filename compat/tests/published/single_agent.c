/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * One network asked directly: single_agent FILE.onnx */
#include "MLModelRunner/C/ONNXModelRunner.h"

#include <stdio.h>

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  ONNXModelRunner *omr = createSingleAgentOMR(argv[1]);
  float input[] = {0.5f, -1.0f, 2.0f};
  int action = singleAgentEvaluate(omr, input, 3);
  printf("%d %s\n", action, ONNXModelRunnerError(omr));
  destroyONNXModelRunner(omr);
  return 0;
}
