/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * ask URI: the same as ask.cpp, from C and in one thread.
 */
#include <mlbridge/c/mlbridge.h>

#include <stdio.h>

enum { Features = 6, Actions = 3 };

int main(int argc, char **argv) {
  const mlbridge_tensor_spec inputs[] = {MLBRIDGE_TENSOR("features", MLBRIDGE_FLOAT32, Features),
                                         MLBRIDGE_SCALAR("step", MLBRIDGE_INT64)};
  const mlbridge_tensor_spec outputs[] = {MLBRIDGE_SCALAR("action", MLBRIDGE_INT64),
                                          MLBRIDGE_TENSOR("logits", MLBRIDGE_FLOAT32, Actions)};
  const mlbridge_signature signature = MLBRIDGE_SIGNATURE(inputs, outputs);
  mlbridge_runner *runner = mlbridge_open(argc > 1 ? argv[1] : "", &signature, NULL);
  float *features = mlbridge_input(runner, "features", features, NULL);
  int64_t *step = mlbridge_input(runner, "step", step, NULL);
  long long number;
  while (scanf("%lld", &number) == 1) {
    *step = number;
    for (int i = 0; i < Features; ++i)
      if (scanf("%f", &features[i]) != 1)
        return 2;
    int64_t action = -1;
    if (mlbridge_evaluate_int64(runner, &action)) {
      fprintf(stderr, "%s\n", mlbridge_runner_message(runner));
      return 1;
    }
    const float *logits = mlbridge_output(runner, "logits", logits, NULL);
    printf("%d", (int)action);
    for (int i = 0; i < Actions; ++i)
      printf(" %.9g", (double)logits[i]);
    printf("\n");
  }
  mlbridge_runner_destroy(runner);
  return 0;
}
