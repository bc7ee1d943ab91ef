/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * An environment of C with two agents: agents FIRST.onnx SECOND.onnx */
#include "MLModelRunner/C/ONNXModelRunner.h"

#include <stdio.h>

static float state[3];
static int steps;
static const char *turn;
static Environment *env;

static float *reset(void) {
  state[0] = 1, state[1] = 5, state[2] = 2;
  steps = 0;
  turn = "select";
  env_setNextAgent(env, "select");
  return state;
}

static float *step(Action action) {
  printf("%s:%d ", turn, action);
  state[action] = -state[action];
  turn = steps % 2 == 0 ? "colour" : "select";
  env_setNextAgent(env, (char *)turn);
  if (++steps == 4)
    env_setDone(env);
  return state;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  env = createEnvironment();
  env_setNumFeatures(env, 3);
  env_setStepFunc(env, step);
  env_setResetFunc(env, reset);
  ONNXModelRunner *omr = createONNXModelRunner(env, 2, "select", argv[1], "colour", argv[2]);
  evaluate(omr);
  printf("%d %s\n", env_checkDone(env), ONNXModelRunnerError(omr));
  destroyONNXModelRunner(omr);
  destroyEnvironment(env);
  return 0;
}
