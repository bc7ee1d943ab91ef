/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * An engine for tests, in C so that the component table is seen to be C. "testing:sum" adds up x
 * and repeats the words of `words`; other places fail, each in its way. Definitions of the
 * preprocessor break the component in the ways that the loader has to refuse.
 */
#include <mlbridge/component.h>

#include <stdlib.h>
#include <string.h>

#ifndef TEST_NAME
#define TEST_NAME "testing"
#endif
#ifndef TEST_ABI
#define TEST_ABI MLB_COMPONENT_ABI
#endif
#ifndef TEST_SIZE
#define TEST_SIZE sizeof(mlb_component)
#endif
#ifndef TEST_ENGINE_SIZE
#define TEST_ENGINE_SIZE sizeof(mlb_engine)
#endif

enum { Float32 = 10, String = 13, Words = 2 };
enum { PolicyFailed = 5, InvalidArgument = 7, NotFound = 10, LimitExceeded = 13 };

typedef struct model {
  int wrong_count; /* of the output's elements */
  int wrong_shape; /* of the strings */
  int fails;       /* to evaluate */
} model;

typedef struct runner {
  const model *of;
  float *x;
  int64_t x_shape[2];
  mlb_string words[Words];
  float sum;
  char text[2][64];
  mlb_string text_out[2];
} runner;

static const int64_t x_shape[] = {-1, -1}, words_shape[] = {Words}, text_shape[] = {2}, one[] = {1};
static const int64_t x_maximum[] = {0, 1000};

static mlb_string str(const char *text) {
  mlb_string s = {text, strlen(text)};
  return s;
}

static mlb_code fail(mlb_error *error, mlb_code code, const char *text) {
  error->size = strlen(text) < error->capacity ? strlen(text) : error->capacity;
  memcpy(error->text, text, error->size);
  return code;
}

static int is(mlb_string s, const char *text) {
  return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0;
}

static mlb_code open_model(mlb_string place, const mlb_option *options, uint64_t options_size,
                           void **out, mlb_error *error) {
  uint64_t i;
  model *m;
  for (i = 0; i < options_size; ++i)
    if (!is(options[i].key, "known"))
      return fail(error, InvalidArgument, "unknown option");
  if (!is(place, "sum") && !is(place, "wrong-count") && !is(place, "wrong-shape") &&
      !is(place, "fails") && !is(place, "bad-signature"))
    return fail(error, NotFound, "no such model");
  m = calloc(1, sizeof *m);
  if (!m)
    return LimitExceeded;
  m->wrong_count = is(place, "wrong-count");
  m->wrong_shape = is(place, "wrong-shape");
  m->fails = is(place, "fails") ? 1 : is(place, "bad-signature") ? 2 : 0;
  *out = m;
  return 0;
}

static void close_model(void *m) { free(m); }

static mlb_code metadata(void *m, uint64_t i, mlb_string *key, mlb_string *value) {
  (void)m;
  if (i > 1)
    return NotFound;
  *key = str(i ? "author" : "what");
  *value = str(i ? "a test" : "sum");
  return 0;
}

static void signature(void *m, const mlb_tensor_spec **inputs, uint64_t *inputs_size,
                      const mlb_tensor_spec **outputs, uint64_t *outputs_size) {
  static mlb_tensor_spec in[2], out[2];
  in[0].name = str("x");
  in[0].type = ((model *)m)->fails == 2 ? 99 : Float32;
  in[0].rank = 2;
  in[0].shape = x_shape;
  in[0].maximum = x_maximum;
  in[1].name = str("words");
  in[1].type = String;
  in[1].rank = 1;
  in[1].shape = words_shape;
  out[0].name = str("sum");
  out[0].type = Float32;
  out[0].rank = 0;
  out[1].name = str("text");
  out[1].type = String;
  out[1].rank = 1;
  out[1].shape = text_shape;
  *inputs = in;
  *inputs_size = 2;
  *outputs = out;
  *outputs_size = 2;
}

static mlb_code resize(void *r_, uint64_t i, const int64_t *shape, mlb_tensor *tensor,
                       mlb_error *error) {
  runner *r = r_;
  uint64_t count = (uint64_t)shape[0] * (uint64_t)shape[1];
  if (i != 0)
    return fail(error, InvalidArgument, "only x is resized");
  free(r->x);
  r->x = calloc(count ? count : 1, sizeof *r->x);
  if (!r->x)
    return LimitExceeded;
  memcpy(r->x_shape, shape, sizeof r->x_shape);
  tensor->data = r->x;
  tensor->count = count;
  tensor->shape = r->x_shape;
  return 0;
}

static mlb_code input(void *r_, uint64_t i, mlb_tensor *tensor, mlb_error *error) {
  runner *r = r_;
  (void)error;
  tensor->data = i ? (void *)r->words : (void *)r->x;
  tensor->count = i ? Words : (uint64_t)(r->x_shape[0] * r->x_shape[1]);
  tensor->shape = i ? words_shape : r->x_shape;
  return 0;
}

static mlb_code create_runner(void *m, const int64_t *const *shapes, void **out, mlb_error *error) {
  runner *r = calloc(1, sizeof *r);
  mlb_tensor ignored;
  if (!r)
    return LimitExceeded;
  r->of = m;
  if (shapes[0][0] >= 0 && shapes[0][1] >= 0)
    resize(r, 0, shapes[0], &ignored, error);
  *out = r;
  return 0;
}

static void destroy_runner(void *r_) {
  free(((runner *)r_)->x);
  free(r_);
}

static mlb_code evaluate(void *r_, uint64_t left, mlb_error *error) {
  runner *r = r_;
  int64_t k;
  int i;
  if (r->of->fails)
    return fail(error, PolicyFailed, left == MLB_NO_DEADLINE ? "no deadline" : "a deadline");
  r->sum = 0;
  for (k = 0; k < r->x_shape[0] * r->x_shape[1]; ++k)
    r->sum += r->x[k];
  for (i = 0; i < Words; ++i) {
    uint64_t size = r->words[i].size < 64 ? r->words[i].size : 64;
    if (size)
      memcpy(r->text[i], r->words[i].data, size);
    r->text_out[i].data = r->text[i];
    r->text_out[i].size = size;
  }
  return 0;
}

static mlb_code output(void *r_, uint64_t i, mlb_tensor *tensor, mlb_error *error) {
  runner *r = r_;
  (void)error;
  tensor->data = i ? (void *)r->text_out : (void *)&r->sum;
  tensor->count = i ? (r->of->wrong_shape ? 1 : 2) : r->of->wrong_count ? 3 : 1;
  tensor->shape = i ? (r->of->wrong_shape ? one : text_shape) : 0;
  return 0;
}

#ifdef TEST_NO_ENTRY
#define mlb_component_entry another_name
#endif
__attribute__((visibility("default"))) const mlb_component *mlb_component_entry(uint32_t host_abi);

const mlb_component *mlb_component_entry(uint32_t host_abi) {
  static mlb_engine engine;
  static mlb_component component;
  engine.size = TEST_ENGINE_SIZE;
  engine.open = open_model;
  engine.close = close_model;
  engine.metadata = metadata;
  engine.signature = signature;
  engine.create_runner = create_runner;
  engine.destroy_runner = destroy_runner;
  engine.input = input;
#ifndef TEST_MISSING_FUNCTION
  engine.resize = resize;
#endif
  engine.evaluate = evaluate;
  engine.output = output;
  component.size = TEST_SIZE;
  component.abi = TEST_ABI;
  component.version = 1 << 16;
  component.name = str(TEST_NAME);
  component.engine = &engine;
#ifdef TEST_REFUSES
  return 0;
#endif
  return host_abi == MLB_COMPONENT_ABI ? &component : 0;
}
