/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The same as inlining.cpp, in C and in one thread.
 *   inlining-c onnx:policy.onnx MODULE... */
#include <mlbridge/c/mlbridge.h>

#include <stdio.h>
#include <string.h>

enum { Features = 6, Scores = 3 };

static const char *const Advices[] = {"leave", "inline", "inline early"};

typedef struct Call {
  char name[64];
  float features[Features]; /* the first is the callee's size */
} Call;

static int read_call(FILE *module, Call *call) {
  if (fscanf(module, "%63s", call->name) != 1)
    return 0;
  for (int i = 0; i < Features; ++i)
    if (fscanf(module, "%f", &call->features[i]) != 1)
      return 0;
  return 1;
}

/* What a compiler without a model would do. */
static int64_t heuristic(void *data) { return ((const Call *)data)->features[0] < 10 ? 1 : 0; }

static void compile(const char *path, const mlbridge_model *model) {
  /* [pass] */
  mlbridge_runner *runner = mlbridge_model_new_runner(model);
  float *features = mlbridge_input(runner, "features", features, NULL);
  int64_t *step = mlbridge_input(runner, "step", step, NULL);
  /* [/pass] */
  FILE *module = fopen(path, "r");
  Call call;
  for (int64_t number = 0; module && read_call(module, &call); ++number) {
    if (features && step) {
      memcpy(features, call.features, sizeof call.features);
      *step = number;
    }
    /* [pass] */
    const int64_t advice = mlbridge_evaluate_int64_or(runner, heuristic, &call);
    const float *scores = mlbridge_output(runner, "logits", scores, NULL);
    /* [/pass] */
    printf("%s: %s", call.name, advice >= 0 && advice < 3 ? Advices[advice] : "?");
    for (int i = 0; scores && i < Scores; ++i)
      printf(" %.9g", (double)scores[i]);
    printf("\n");
  }
  if (module)
    fclose(module);
  /* [pass] */
  if (mlbridge_runner_code(runner))
    fprintf(stderr, "%s: %s\n", path, mlbridge_runner_message(runner));
  mlbridge_runner_destroy(runner);
  /* [/pass] */
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "inlining-c MODEL-URI MODULE...\n");
    return 2;
  }
  /* [pass] */
  const mlbridge_tensor_spec inputs[] = {MLBRIDGE_TENSOR("features", MLBRIDGE_FLOAT32, Features),
                                         MLBRIDGE_SCALAR("step", MLBRIDGE_INT64)};
  const mlbridge_tensor_spec outputs[] = {MLBRIDGE_SCALAR("action", MLBRIDGE_INT64),
                                          MLBRIDGE_TENSOR("logits", MLBRIDGE_FLOAT32, Scores)};
  const mlbridge_signature signature = MLBRIDGE_SIGNATURE(inputs, outputs);
  mlbridge_model *model = mlbridge_model_open(argv[1], NULL);
  const mlbridge_code bound = mlbridge_model_bind(model, &signature);
  /* [/pass] */
  if (bound)
    fprintf(stderr, "no model: %s\n", mlbridge_model_message(model));
  for (int i = 2; i < argc; ++i)
    compile(argv[i], model);
  mlbridge_model_close(model);
  return 0;
}
