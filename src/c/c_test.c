/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface as a C program uses it. Each function returns 0, or the line of what failed. */
#include <mlbridge/c/mlbridge.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return __LINE__;                                                                             \
  } while (0)

int test_function(void);
int test_buffers(void);
int test_memory(const char *file);
int test_failures(void);
int test_strings_and_dynamic(void);
int test_every_type(void);
int test_threads(void);
int test_file(const char *uri);
int test_sizes(void);
int test_values(void);
int test_choices(void);
int test_agents_of_one_model(void);
int test_extensions(void);

/* y = the sum of x times `factor`, whose data it is. */
static mlbridge_code sum(mlbridge_call *call, void *data) {
  const float factor = *(const float *)data;
  uint64_t count = 0;
  const float *x = mlbridge_call_input(call, "x", MLBRIDGE_FLOAT32, &count);
  int64_t *y = mlbridge_call_output(call, "y", MLBRIDGE_INT64, NULL);
  float total = 0;
  if (!x || !y)
    return mlbridge_call_fail(call, MLBRIDGE_INTERNAL, "no x or y");
  for (uint64_t i = 0; i < count; ++i)
    total += x[i];
  if (total < 0)
    return mlbridge_call_fail(call, MLBRIDGE_POLICY_FAILED, "the sum is negative");
  *y = (int64_t)(factor * total);
  return MLBRIDGE_OK;
}

static const mlbridge_tensor_spec sum_inputs[] = {MLBRIDGE_TENSOR("x", MLBRIDGE_FLOAT32, 3)};
static const mlbridge_tensor_spec sum_outputs[] = {MLBRIDGE_SCALAR("y", MLBRIDGE_INT64)};
static const mlbridge_signature sum_signature = MLBRIDGE_SIGNATURE(sum_inputs, sum_outputs);

static mlbridge_code register_sum(const char *name, char *message, uint64_t capacity) {
  static float factor = 10;
  static const char *const metadata[] = {"actions", "a b", "unit", "bytes"};
  const mlbridge_function_model model = {sizeof model, &sum_signature, sum, &factor, metadata, 4};
  return mlbridge_register_function(name, &model, message, capacity);
}

static const mlbridge_signature *sum_if_two_actions(const mlbridge_model *model, void *asked) {
  ++*(int *)asked;
  return strcmp(mlbridge_model_metadata(model, "actions"), "a b") == 0 ? &sum_signature : NULL;
}

static int64_t heuristic(void *data) {
  ++*(int *)data;
  return -7;
}

int test_function(void) {
  char message[100];
  const char *key, *value;
  EXPECT(mlbridge_c_version() == MLBRIDGE_C_VERSION);
  EXPECT(register_sum("c-sum", message, sizeof message) == MLBRIDGE_OK && !*message);
  EXPECT(register_sum("c-sum", message, sizeof message) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(message, "c-sum"));

  mlbridge_model *model = mlbridge_model_open("function:c-sum", NULL);
  EXPECT(mlbridge_model_code(model) == MLBRIDGE_OK && !*mlbridge_model_message(model));
  EXPECT(strcmp(mlbridge_model_metadata(model, "actions"), "a b") == 0);
  EXPECT(!mlbridge_model_metadata(model, "nothing"));
  EXPECT(mlbridge_model_metadata_at(model, 1, &key, &value) == MLBRIDGE_OK);
  EXPECT(strcmp(key, "unit") == 0 && strcmp(value, "bytes") == 0);
  EXPECT(mlbridge_model_metadata_at(model, 2, &key, &value) == MLBRIDGE_NOT_FOUND);
  const mlbridge_signature *own = mlbridge_model_signature(model);
  EXPECT(own && own->inputs_size == 1 && own->outputs_size == 1);
  EXPECT(strcmp(own->inputs[0].name, "x") == 0 && own->inputs[0].type == MLBRIDGE_FLOAT32);
  EXPECT(own->inputs[0].rank == 1 && own->inputs[0].shape[0] == 3 && !own->inputs[0].maximum);
  EXPECT(own->outputs[0].rank == 0 && !own->outputs[0].shape);
  EXPECT(mlbridge_model_bind(model, &sum_signature) == MLBRIDGE_OK);
  EXPECT(mlbridge_model_bind_fitting(model, NULL, NULL) == MLBRIDGE_INVALID_ARGUMENT);
  int asked = 0;
  EXPECT(mlbridge_model_bind_fitting(model, sum_if_two_actions, &asked) == MLBRIDGE_OK);
  EXPECT(asked == 1 && mlbridge_model_bound_signature(model)->inputs_size == 1);
  mlbridge_runner *runner = mlbridge_model_new_runner(model);
  mlbridge_model_close(model); /* the runner keeps what it needs */

  int64_t y = 0;
  int fallbacks = 0;
  uint64_t count = 0;
  uint32_t rank = 9;
  const float x[] = {1, 2, 3};
  float *in_place = mlbridge_runner_input(runner, "x", MLBRIDGE_FLOAT32, &count);
  EXPECT(in_place && count == 3);
  EXPECT(mlbridge_set(runner, "x", x, 3) == MLBRIDGE_OK);
  EXPECT(mlbridge_evaluate_int64(runner, &y) == MLBRIDGE_OK && y == 60);
  in_place[2] = 4;
  EXPECT(mlbridge_evaluate_int64_or(runner, heuristic, &fallbacks) == 70 && fallbacks == 0);
  const int64_t *out = mlbridge_output(runner, "y", out, &count);
  EXPECT(out && *out == 70 && count == 1);
  EXPECT(mlbridge_runner_output_shape(runner, "y", &rank) && rank == 0);
  EXPECT(!mlbridge_runner_output_shape(runner, "z", &rank));

  in_place[0] = -100;
  EXPECT(mlbridge_evaluate_int64_or(runner, heuristic, &fallbacks) == -7 && fallbacks == 1);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_POLICY_FAILED);
  EXPECT(strstr(mlbridge_runner_message(runner), "the sum is negative"));
  EXPECT(mlbridge_runner_begin_episode(runner, "e", NULL) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_reward(runner, 0.5) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_end_episode(runner, MLBRIDGE_CANCELLED, "why") == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_dropped_events(runner) == 0);
  EXPECT(mlbridge_runner_dropped_events(NULL) == 0);
  in_place[0] = 1;
  EXPECT(mlbridge_runner_evaluate_within(runner, 1000000000) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_evaluate_within(runner, -1) == MLBRIDGE_DEADLINE_EXCEEDED);
  mlbridge_runner_destroy(runner);
  return 0;
}

/* By index, and in memory of the caller's own. */
int test_buffers(void) {
  const int8_t small[] = {1, 2, 3};
  const double unfit[] = {1e300, 2, 3};
  float x[] = {4, 5, 6};
  int64_t y = 0;
  uint64_t count = 0;
  EXPECT(register_sum("c-buffers", NULL, 0) == MLBRIDGE_OK);
  mlbridge_runner *runner = mlbridge_open("function:c-buffers", &sum_signature, NULL);
  EXPECT(mlbridge_runner_set_at(runner, 0, MLBRIDGE_INT8, small, 3) == MLBRIDGE_OK);
  EXPECT(mlbridge_evaluate_int64(runner, &y) == MLBRIDGE_OK && y == 60);
  EXPECT(mlbridge_set(runner, "x", unfit, 3) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(mlbridge_runner_message(runner), "1e+300, which is not in float32's range"));
  EXPECT(mlbridge_runner_set_at(runner, 1, MLBRIDGE_INT8, small, 3) == MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_runner_clear_status(runner);
  float *in_place = mlbridge_runner_input_at(runner, 0, MLBRIDGE_FLOAT32, &count);
  EXPECT(count == 3 && in_place == mlbridge_runner_input(runner, "x", MLBRIDGE_FLOAT32, NULL));
  in_place[0] = 2;
  EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_OK);
  const int64_t *out = mlbridge_runner_output_at(runner, 0, MLBRIDGE_INT64, &count);
  EXPECT(out && *out == 70 && count == 1);
  EXPECT(!mlbridge_runner_output_at(runner, 1, MLBRIDGE_INT64, &count));

  EXPECT(mlbridge_runner_bind_input(runner, "x", MLBRIDGE_FLOAT32, x, 3) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_bind_output(runner, "y", MLBRIDGE_INT64, &y, 1) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_OK && y == 150);
  x[2] = 7;
  EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_OK && y == 160);
  EXPECT(mlbridge_runner_bind_input(runner, "x", MLBRIDGE_FLOAT32, NULL, 0) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_bind_output(runner, "y", MLBRIDGE_INT64, NULL, 0) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_OK && y == 160);
  EXPECT(mlbridge_runner_bind_input(runner, "x", MLBRIDGE_FLOAT32, x, 2) ==
         MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_runner_bind_output(NULL, "y", MLBRIDGE_INT64, &y, 1) ==
         MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_runner_destroy(runner);

  /* A runner's own deadline; the budget is the model's. */
  mlbridge_model *model = mlbridge_model_open("function:c-buffers", NULL);
  EXPECT(mlbridge_model_bind(model, &sum_signature) == MLBRIDGE_OK);
  runner = mlbridge_model_new_runner_for(model, NULL, -1);
  EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_DEADLINE_EXCEEDED);
  mlbridge_runner_destroy(runner);
  mlbridge_model_close(model);
  return 0;
}

int test_memory(const char *file) {
  static char bytes[1 << 16];
  FILE *from = fopen(file, "rb");
  EXPECT(from);
  const size_t size = fread(bytes, 1, sizeof bytes, from);
  fclose(from);
  mlbridge_model *model = mlbridge_model_from_memory("native:linear", bytes, size, NULL);
  EXPECT(mlbridge_model_code(model) == MLBRIDGE_OK && mlbridge_model_signature(model));
  EXPECT(strcmp(mlbridge_model_metadata(model, "actions"), "a,b") == 0);
  mlbridge_model_close(model);
  model = mlbridge_model_from_memory("native:linear", bytes, size / 2, NULL);
  EXPECT(mlbridge_model_code(model) == MLBRIDGE_INVALID_MODEL);
  mlbridge_model_close(model);
  model = mlbridge_model_from_memory("unix:linear", bytes, size, NULL);
  EXPECT(mlbridge_model_code(model) == MLBRIDGE_UNSUPPORTED);
  mlbridge_model_close(model);
  model = mlbridge_model_from_memory("native:linear", NULL, 0, NULL);
  EXPECT(mlbridge_model_code(model) == MLBRIDGE_INVALID_MODEL);
  mlbridge_model_close(model);
  return 0;
}

int test_failures(void) {
  int fallbacks = 0;
  int64_t y = 5;
  const float x[] = {1, 2, 3, 4};
  /* No model: the pass is the same, and goes on. */
  mlbridge_runner *runner = mlbridge_open("function:nobody", &sum_signature, NULL);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_NOT_FOUND);
  EXPECT(strstr(mlbridge_runner_message(runner), "nobody"));
  float *in_place = mlbridge_input(runner, "x", in_place, NULL);
  EXPECT(in_place);
  in_place[2] = 1;
  EXPECT(mlbridge_evaluate_int64(runner, &y) == MLBRIDGE_NOT_FOUND && y == 5);
  EXPECT(mlbridge_evaluate_int64_or(runner, heuristic, &fallbacks) == -7 && fallbacks == 1);
  mlbridge_runner_destroy(runner);

  (void)register_sum("c-failures", NULL, 0);
  runner = mlbridge_open("function:c-failures", &sum_signature, NULL);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_OK);
  EXPECT(mlbridge_set(runner, "x", x, 4) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(mlbridge_runner_message(runner), "4 elements instead of 3"));
  EXPECT(mlbridge_set(runner, "x", x, 3) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_OK);
  EXPECT(mlbridge_set(runner, "z", x, 3) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(mlbridge_runner_message(runner), "'z'"));
  mlbridge_runner_clear_status(runner);
  EXPECT(mlbridge_runner_set(runner, "x", 77, x, 3) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(mlbridge_runner_message(runner), "77 is not an element type"));
  EXPECT(!mlbridge_runner_input(runner, "x", MLBRIDGE_STRING, NULL));
  uint64_t count = 0;
  int8_t *nowhere = mlbridge_runner_input(runner, "x", MLBRIDGE_INT8, &count);
  EXPECT(nowhere && count == 3);
  memset(nowhere, 9, 3);
  EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_runner_clear_status(runner);
  nowhere = mlbridge_runner_input(runner, "typo", MLBRIDGE_INT8, &count);
  EXPECT(nowhere && count >= 100000);
  memset(nowhere, 9, count);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_runner_clear_status(runner);
  EXPECT(!mlbridge_runner_output(runner, "y", MLBRIDGE_INT64, NULL)); /* nothing was evaluated */
  mlbridge_runner_clear_status(runner);
  EXPECT(mlbridge_evaluate_int64(runner, &y) == MLBRIDGE_OK && y == 60);
  int32_t other;
  EXPECT(mlbridge_evaluate_int32(runner, &other) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(!mlbridge_runner_output(runner, "y", MLBRIDGE_INT32, NULL));
  mlbridge_runner_destroy(runner);

  /* Another signature, and no object at all. */
  const mlbridge_tensor_spec inputs[] = {MLBRIDGE_TENSOR("x", MLBRIDGE_FLOAT64, 3)};
  const mlbridge_signature wrong = MLBRIDGE_SIGNATURE(inputs, sum_outputs);
  runner = mlbridge_open("function:c-failures", &wrong, NULL);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_MISMATCH);
  mlbridge_runner_destroy(runner);
  mlbridge_model *model = mlbridge_model_open(NULL, NULL);
  EXPECT(mlbridge_model_code(model) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_model_bind(model, &sum_signature) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_model_bind(model, NULL) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(!mlbridge_model_signature(model));
  mlbridge_model_close(model);
  mlbridge_model_close(NULL);
  mlbridge_runner_destroy(NULL);
  EXPECT(mlbridge_runner_evaluate(NULL) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_evaluate_int64_or(NULL, heuristic, &fallbacks) == -7);
  EXPECT(mlbridge_model_code(NULL) == MLBRIDGE_INVALID_ARGUMENT && *mlbridge_model_message(NULL));
  EXPECT(strcmp(mlbridge_code_name(MLBRIDGE_MISMATCH), "mismatch") == 0);
  EXPECT(strcmp(mlbridge_code_name(99), "unknown") == 0);
  return 0;
}

/* Repeats the words, and sums rows. */
static mlbridge_code words(mlbridge_call *call, void *data) {
  uint32_t rank = 0;
  mlbridge_string text;
  const int64_t *shape = mlbridge_call_input_shape(call, "rows", &rank);
  (void)data;
  if (!shape || rank != 2)
    return mlbridge_call_fail(call, MLBRIDGE_INTERNAL, "no shape");
  for (uint64_t i = 0; i < 2; ++i)
    if (mlbridge_call_input_string(call, "words", i, &text) ||
        mlbridge_call_set_output_string(call, "echo", i, text))
      return MLBRIDGE_INTERNAL;
  if (!mlbridge_call_input_string(call, "words", 2, &text))
    return MLBRIDGE_INTERNAL;
  const double *rows = mlbridge_call_input(call, "rows", MLBRIDGE_FLOAT64, NULL);
  double *sums = mlbridge_call_resize_output(call, "sums", MLBRIDGE_FLOAT64, shape, 1, NULL);
  if (!sums)
    return MLBRIDGE_INTERNAL;
  for (int64_t i = 0; i < shape[0]; ++i) {
    sums[i] = 0;
    for (int64_t k = 0; k < shape[1]; ++k)
      sums[i] += rows[i * shape[1] + k];
  }
  return MLBRIDGE_OK;
}

int test_strings_and_dynamic(void) {
  const mlbridge_tensor_spec inputs[] = {
      MLBRIDGE_TENSOR("words", MLBRIDGE_STRING, 2),
      MLBRIDGE_TENSOR("rows", MLBRIDGE_FLOAT64, MLBRIDGE_DYNAMIC, MLBRIDGE_DYNAMIC)};
  const mlbridge_tensor_spec outputs[] = {
      MLBRIDGE_TENSOR("echo", MLBRIDGE_STRING, 2),
      MLBRIDGE_TENSOR("sums", MLBRIDGE_FLOAT64, MLBRIDGE_DYNAMIC)};
  const mlbridge_signature signature = MLBRIDGE_SIGNATURE(inputs, outputs);
  const mlbridge_function_model model = {sizeof model, &signature, words, NULL, NULL, 0};
  EXPECT(mlbridge_register_function("c-words", &model, NULL, 0) == MLBRIDGE_OK);
  const mlbridge_open_options options = {sizeof options, 2000000000, false, {NULL, "e", "m"}};
  mlbridge_runner *runner = mlbridge_open("function:c-words", NULL, &options);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_OK);

  const mlbridge_string texts[] = {{"a\0b", 3}, {NULL, 0}};
  EXPECT(mlbridge_set(runner, "words", texts, 2) == MLBRIDGE_OK);
  EXPECT(mlbridge_runner_set_string(runner, "words", "one") == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_set(runner, "words", texts, 2) == MLBRIDGE_OK);
  for (int64_t rows = 0; rows < 4; ++rows) {
    uint64_t count = 99;
    const int64_t shape[] = {rows, 2};
    double *in = mlbridge_runner_resize(runner, "rows", MLBRIDGE_FLOAT64, shape, 2, &count);
    EXPECT(in && count == (uint64_t)rows * 2);
    for (uint64_t i = 0; i < count; ++i)
      in[i] = (double)i;
    EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_OK);
    uint32_t rank = 0;
    EXPECT(mlbridge_runner_output_shape(runner, "sums", &rank)[0] == rows && rank == 1);
    const double *sums = mlbridge_output(runner, "sums", sums, &count);
    EXPECT(sums && count == (uint64_t)rows);
    for (int64_t i = 0; i < rows; ++i)
      EXPECT(sums[i] == (double)(4 * i + 1));
    mlbridge_string text = {NULL, 0};
    EXPECT(mlbridge_runner_output_string(runner, "echo", 0, &text) == MLBRIDGE_OK);
    EXPECT(text.size == 3 && memcmp(text.data, "a\0b", 3) == 0);
    EXPECT(mlbridge_runner_output_string(runner, "echo", 2, &text) == MLBRIDGE_INVALID_ARGUMENT);
  }
  EXPECT(!mlbridge_runner_resize(runner, "rows", MLBRIDGE_FLOAT64, NULL, 0, NULL));
  mlbridge_runner_destroy(runner);
  return 0;
}

static mlbridge_code copy_all(mlbridge_call *call, void *data) {
  (void)data;
  for (mlbridge_type type = MLBRIDGE_INT8; type <= MLBRIDGE_BOOL; ++type) {
    static const size_t bytes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 1};
    char name[] = {(char)('a' + type), '\0'}, out[] = {(char)('A' + type), '\0'};
    const void *from = mlbridge_call_input(call, name, type, NULL);
    void *to = mlbridge_call_output(call, out, type, NULL);
    if (!from || !to || mlbridge_call_input(call, name, type % 12 + 1, NULL))
      return mlbridge_call_fail(call, MLBRIDGE_INTERNAL, name);
    memcpy(to, from, bytes[type]);
  }
  return MLBRIDGE_OK;
}

int test_every_type(void) {
  static char names[2][13][2];
  mlbridge_tensor_spec inputs[12], outputs[12];
  for (mlbridge_type type = MLBRIDGE_INT8; type <= MLBRIDGE_BOOL; ++type) {
    names[0][type][0] = (char)('a' + type);
    names[1][type][0] = (char)('A' + type);
    inputs[type - 1] = (mlbridge_tensor_spec)MLBRIDGE_SCALAR(names[0][type], type);
    outputs[type - 1] = (mlbridge_tensor_spec)MLBRIDGE_SCALAR(names[1][type], type);
  }
  const mlbridge_signature signature = MLBRIDGE_SIGNATURE(inputs, outputs);
  const mlbridge_function_model model = {sizeof model, &signature, copy_all, NULL, NULL, 0};
  EXPECT(mlbridge_register_function("c-types", &model, NULL, 0) == MLBRIDGE_OK);
  mlbridge_runner *runner = mlbridge_open("function:c-types", &signature, NULL);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_OK);
#define ROUND_TRIP(c_type, number, value)                                                          \
  do {                                                                                             \
    const c_type in = (value);                                                                     \
    EXPECT(mlbridge_runner_set(runner, names[0][number], number, &in, 1) == MLBRIDGE_OK);          \
    EXPECT(mlbridge_runner_evaluate(runner) == MLBRIDGE_OK);                                       \
    const c_type *out = mlbridge_runner_output(runner, names[1][number], number, NULL);            \
    EXPECT(out && *out == in);                                                                     \
  } while (0)
  ROUND_TRIP(int8_t, MLBRIDGE_INT8, INT8_MIN);
  ROUND_TRIP(int16_t, MLBRIDGE_INT16, INT16_MIN);
  ROUND_TRIP(int32_t, MLBRIDGE_INT32, INT32_MIN);
  ROUND_TRIP(int64_t, MLBRIDGE_INT64, INT64_MIN);
  ROUND_TRIP(uint8_t, MLBRIDGE_UINT8, UINT8_MAX);
  ROUND_TRIP(uint16_t, MLBRIDGE_UINT16, UINT16_MAX);
  ROUND_TRIP(uint32_t, MLBRIDGE_UINT32, UINT32_MAX);
  ROUND_TRIP(uint64_t, MLBRIDGE_UINT64, UINT64_MAX);
  ROUND_TRIP(uint16_t, MLBRIDGE_FLOAT16, 0x3c01);
  ROUND_TRIP(float, MLBRIDGE_FLOAT32, 1.5f);
  ROUND_TRIP(double, MLBRIDGE_FLOAT64, 1e-300);
  ROUND_TRIP(bool, MLBRIDGE_BOOL, true);
#undef ROUND_TRIP
  mlbridge_runner_destroy(runner);
  return 0;
}

struct work {
  const mlbridge_model *model;
  int number, right;
};

static void *evaluate_many(void *data) {
  struct work *work = data;
  mlbridge_runner *runner = mlbridge_model_new_runner(work->model);
  for (int i = 0; i < 500; ++i) {
    int64_t y = -1;
    const float x[] = {(float)work->number, (float)i, 0};
    work->right += !mlbridge_set(runner, "x", x, 3) && !mlbridge_evaluate_int64(runner, &y) &&
                   y == 10 * (work->number + i);
  }
  mlbridge_runner_destroy(runner);
  return NULL;
}

int test_threads(void) {
  enum { Threads = 4 };
  pthread_t threads[Threads];
  struct work works[Threads];
  (void)register_sum("c-threads", NULL, 0);
  mlbridge_model *model = mlbridge_model_open("function:c-threads", NULL);
  EXPECT(mlbridge_model_bind(model, NULL) == MLBRIDGE_OK);
  for (int t = 0; t < Threads; ++t) {
    works[t] = (struct work){model, t, 0};
    EXPECT(pthread_create(&threads[t], NULL, evaluate_many, &works[t]) == 0);
  }
  for (int t = 0; t < Threads; ++t)
    EXPECT(pthread_join(threads[t], NULL) == 0);
  mlbridge_model_close(model);
  for (int t = 0; t < Threads; ++t)
    EXPECT(works[t].right == 500);
  return 0;
}

/* tests/golden/onnx/linear.onnx, where an engine for it is there. */
int test_file(const char *uri) {
  const mlbridge_tensor_spec inputs[] = {MLBRIDGE_TENSOR("x", MLBRIDGE_FLOAT32, 4)};
  const mlbridge_tensor_spec outputs[] = {MLBRIDGE_TENSOR("y", MLBRIDGE_FLOAT32, 1)};
  const mlbridge_signature signature = MLBRIDGE_SIGNATURE(inputs, outputs);
  const float x[] = {1, 10, 100, 1000};
  float y = 0;
  mlbridge_runner *runner = mlbridge_open(uri, &signature, NULL);
  if (mlbridge_runner_code(runner))
    fprintf(stderr, "%s\n", mlbridge_runner_message(runner));
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_OK);
  EXPECT(mlbridge_set(runner, "x", x, 4) == MLBRIDGE_OK);
  EXPECT(mlbridge_evaluate_float(runner, &y) == MLBRIDGE_OK && y == 4321.5f);
  mlbridge_runner_destroy(runner);
  return 0;
}

/* Structures of an older and of a newer program, and of one that forgot to say. */
int test_sizes(void) {
  struct newer {
    mlbridge_tensor_spec spec;
    int64_t more[3];
  };
  const struct newer inputs[] = {
      {MLBRIDGE_SCALAR("a", MLBRIDGE_INT8), {1, 2, 3}},
      {MLBRIDGE_SCALAR("b", MLBRIDGE_INT16), {4, 5, 6}},
  };
  struct newer stated[2];
  memcpy(stated, inputs, sizeof stated);
  stated[0].spec.size = stated[1].spec.size = sizeof(struct newer);
  mlbridge_signature signature = {sizeof signature, &stated[0].spec, 2, sum_outputs, 1};
  const mlbridge_function_model model = {sizeof model, &signature, sum, NULL, NULL, 0};
  char message[200];
  EXPECT(mlbridge_register_function("c-newer", &model, message, sizeof message) == MLBRIDGE_OK);
  mlbridge_model *opened = mlbridge_model_open("function:c-newer", NULL);
  EXPECT(strcmp(mlbridge_model_signature(opened)->inputs[1].name, "b") == 0);
  mlbridge_model_close(opened);
  stated[1].spec.size = 0;
  EXPECT(mlbridge_register_function("c-none", &model, message, sizeof message) ==
         MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(message, "input 1: its size is not set"));
  EXPECT(mlbridge_register_function("c-none", &model, message, 8) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strlen(message) == 7);
  const mlbridge_open_options none = {0};
  opened = mlbridge_model_open("function:c-newer", &none);
  EXPECT(mlbridge_model_code(opened) == MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_model_close(opened);
  return 0;
}

int test_values(void) {
  EXPECT(strcmp(mlbridge_type_name(MLBRIDGE_FLOAT32), "float32") == 0);
  EXPECT(strcmp(mlbridge_type_name(300), "invalid") == 0);
  EXPECT(mlbridge_type_named("int64") == MLBRIDGE_INT64 && mlbridge_type_named("int63") == 0);
  EXPECT(mlbridge_type_size(MLBRIDGE_INT16) == 2 && mlbridge_type_size(MLBRIDGE_STRING) == 0);
  EXPECT(mlbridge_type_size(99) == 0);
  EXPECT(mlbridge_half_of_float(1.5f) == 0x3e00 && mlbridge_float_of_half(0x3e00) == 1.5f);
  EXPECT(mlbridge_code_next_step(MLBRIDGE_BUSY) == MLBRIDGE_RETRY);
  EXPECT(mlbridge_code_next_step(-3) == MLBRIDGE_STOP);
  EXPECT(strcmp(mlbridge_next_step_name(MLBRIDGE_FIX_MODEL), "fix the model") == 0);
  EXPECT(strcmp(mlbridge_next_step_name(77), "unknown") == 0);

  char text[24];
  EXPECT(mlbridge_signature_check(&sum_signature, text, sizeof text) == MLBRIDGE_OK && !text[0]);
  EXPECT(mlbridge_signature_text(&sum_signature, text, sizeof text) == 29);
  EXPECT(strcmp(text, "(x: float32[3]) -> (y: ") == 0);
  EXPECT(mlbridge_signature_text(&sum_signature, NULL, 0) == 29);
  const mlbridge_tensor_spec twice[] = {MLBRIDGE_SCALAR("a", MLBRIDGE_INT8),
                                        MLBRIDGE_SCALAR("a", MLBRIDGE_INT8)};
  const mlbridge_signature bad = MLBRIDGE_SIGNATURE(twice, sum_outputs);
  EXPECT(mlbridge_signature_check(&bad, text, sizeof text) == MLBRIDGE_INVALID_ARGUMENT && text[0]);
  EXPECT(mlbridge_signature_check(NULL, NULL, 0) == MLBRIDGE_INVALID_ARGUMENT);
  return 0;
}

int test_choices(void) {
  const float logits[] = {0.5f, 3, 3, -1};
  const double one[] = {7};
  int64_t index = -1, again = -2;
  EXPECT(mlbridge_arg_max(MLBRIDGE_FLOAT32, logits, 4, &index) == MLBRIDGE_OK && index == 1);
  EXPECT(mlbridge_arg_max(MLBRIDGE_FLOAT64, one, 1, &index) == MLBRIDGE_OK && index == 0);
  EXPECT(mlbridge_arg_max(MLBRIDGE_FLOAT32, NULL, 0, &index) == MLBRIDGE_POLICY_FAILED);
  EXPECT(mlbridge_arg_max(MLBRIDGE_INT8, logits, 1, &index) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_arg_max(MLBRIDGE_FLOAT32, NULL, 4, &index) == MLBRIDGE_INVALID_ARGUMENT);

  mlbridge_sampler *sampler = mlbridge_sampler_create(7, 1);
  for (int i = 0; i < 20; ++i) {
    mlbridge_sampler_restart(sampler, "episode", NULL);
    EXPECT(mlbridge_sampler_sample(sampler, MLBRIDGE_FLOAT32, logits, 4, &again) == MLBRIDGE_OK);
    if (i == 0)
      index = again;
    EXPECT(again == index && index >= 0 && index < 4);
  }
  mlbridge_sampler_destroy(sampler);
  EXPECT(mlbridge_sampler_sample(NULL, MLBRIDGE_FLOAT32, logits, 4, &again) ==
         MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_sampler_destroy(NULL);
  return 0;
}

/* Answers with the length of the agent's name. */
static mlbridge_code agent_length(mlbridge_call *call, void *data) {
  (void)data;
  int64_t *y = mlbridge_call_output(call, "y", MLBRIDGE_INT64, NULL);
  if (!y)
    return mlbridge_call_fail(call, MLBRIDGE_INTERNAL, "no y");
  const mlbridge_signature *signature = mlbridge_call_signature(call);
  if (signature->inputs_size != 1 || strcmp(signature->inputs[0].name, "x") != 0)
    return mlbridge_call_fail(call, MLBRIDGE_INTERNAL, "not the signature that was stated");
  *y = (int64_t)strlen(mlbridge_call_get_context(call).agent);
  return MLBRIDGE_OK;
}

static void count_statistics(const char *name, const char *value, void *data) {
  (void)name, (void)value;
  ++*(int *)data;
}

int test_agents_of_one_model(void) {
  const mlbridge_function_model any = {sizeof any, NULL, agent_length, NULL, NULL, 0};
  EXPECT(mlbridge_register_function("c-agent-length", &any, NULL, 0) == MLBRIDGE_OK);
  mlbridge_model *model = mlbridge_model_open("function:c-agent-length", NULL);
  EXPECT(strcmp(mlbridge_model_uri(model), "function:c-agent-length") == 0);
  EXPECT(mlbridge_model_bound_signature(model) == NULL);

  mlbridge_model *first = mlbridge_model_new_bound(model, &sum_signature, "four");
  mlbridge_model *none = mlbridge_model_new_bound(model, NULL, "four");
  EXPECT(mlbridge_model_code(none) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_model_code(first) == MLBRIDGE_OK);
  EXPECT(strcmp(mlbridge_model_bound_signature(first)->outputs[0].name, "y") == 0);
  char message[100] = "";
  int statistics = 0;
  EXPECT(mlbridge_model_statistics(first, count_statistics, &statistics, message, sizeof message) ==
         MLBRIDGE_UNSUPPORTED);
  EXPECT(statistics == 0 && message[0]);
  mlbridge_model_close(model);

  int64_t y = 0;
  mlbridge_runner *runner = mlbridge_model_new_runner(first);
  EXPECT(mlbridge_evaluate_int64(runner, &y) == MLBRIDGE_OK && y == 4);
  mlbridge_runner_destroy(runner);
  const mlbridge_call_context second = {"second", NULL, NULL};
  runner = mlbridge_model_new_runner_for(first, &second, 0);
  EXPECT(mlbridge_evaluate_int64(runner, &y) == MLBRIDGE_OK && y == 6);
  EXPECT(mlbridge_runner_signature(runner)->outputs[0].type == MLBRIDGE_INT64);
  EXPECT(mlbridge_runner_end_episode_truncated(runner) == MLBRIDGE_OK);
  mlbridge_runner_destroy(runner);
  EXPECT(mlbridge_runner_signature(NULL) == NULL && mlbridge_call_signature(NULL) == NULL);
  runner = mlbridge_model_new_runner_for(NULL, NULL, 0);
  EXPECT(mlbridge_evaluate_int64(runner, &y) == MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_runner_destroy(runner);
  mlbridge_model_close(first);
  mlbridge_model_close(none);
  mlbridge_model_close(mlbridge_model_new_bound(NULL, NULL, NULL));
  return 0;
}

int test_extensions(void) {
  char message[100] = "";
  mlb_engine small = {0};
  small.size = 8;
  EXPECT(mlbridge_register_engine("c-engine", "x", &small, message, sizeof message) ==
         MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(message, "no complete table"));
  mlb_engine empty_engine = {0};
  empty_engine.size = sizeof empty_engine;
  EXPECT(mlbridge_register_engine("c-engine", "x", &empty_engine, message, sizeof message) ==
         MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(message, "its function 'open' is null"));
  EXPECT(mlbridge_register_engine("c-engine", "x", NULL, NULL, 0) == MLBRIDGE_INVALID_ARGUMENT);
  mlb_component empty = {sizeof empty, MLB_COMPONENT_ABI, 1, {"empty", 5}, NULL, NULL, NULL};
  EXPECT(mlbridge_register_component(&empty, message, sizeof message) == MLBRIDGE_UNSUPPORTED);
  EXPECT(mlbridge_register_component(NULL, NULL, 0) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_register_compiled(NULL, NULL, 0) == MLBRIDGE_INVALID_ARGUMENT);
  mlb_aot_model newer = {0};
  newer.size = sizeof newer;
  newer.abi = MLB_AOT_ABI + 1;
  EXPECT(mlbridge_register_compiled(&newer, message, sizeof message) == MLBRIDGE_INVALID_MODEL);
  return 0;
}
