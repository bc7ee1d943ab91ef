/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The function mlbridge(URI, x, ...) of SQLite asks a model. README.md has its rules. */
#include <mlbridge/c/mlbridge.h>

#include <limits.h>
#include <sqlite3ext.h>
#include <string.h>

SQLITE_EXTENSION_INIT1
enum { MOST_MODELS = 8 };

/* A model that is open. `users` are the cache and the statements that ask it. */
typedef struct opened {
  mlbridge_runner *runner;
  const mlbridge_signature *signature;
  int users;
  char states[512]; /* the signature as a text */
  char uri[];
} opened;

/* The state of a connection, which calls from one thread at a time. */
typedef struct connection {
  opened *models[MOST_MODELS]; /* the last one found first */
  int64_t *integers;           /* an input's values; behind reals */
  double reals[];
} connection;

static void release(void *data) {
  opened *model = data;
  if (model && --model->users == 0) {
    mlbridge_runner_destroy(model->runner);
    sqlite3_free(model);
  }
}

static void close_all(void *data) {
  connection *own = data;
  for (int i = 0; i < MOST_MODELS; ++i)
    release(own->models[i]);
  sqlite3_free(own);
}

static void fail(sqlite3_context *context, const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *text = sqlite3_vmprintf(format, list);
  va_end(list);
  sqlite3_result_error(context, text ? text : "mlbridge: out of memory", -1);
  sqlite3_free(text);
}

static void fail_asking(sqlite3_context *context, const opened *model) {
  fail(context, "mlbridge: %s: %s", mlbridge_code_name(mlbridge_runner_code(model->runner)),
       mlbridge_runner_message(model->runner));
}

static opened *open_model(sqlite3_context *context, const char *uri) {
  const size_t size = strlen(uri) + 1;
  opened *model = sqlite3_malloc64(sizeof *model + size);
  if (!model) {
    sqlite3_result_error_nomem(context);
    return NULL;
  }
  memcpy(model->uri, uri, size);
  model->users = 1;
  model->runner = mlbridge_open(uri, NULL, NULL);
  model->signature = mlbridge_runner_signature(model->runner);
  mlbridge_signature_text(model->signature, model->states, sizeof model->states);
  if (!mlbridge_runner_code(model->runner))
    return model;
  fail_asking(context, model);
  release(model);
  return NULL;
}

/* The model of a URI, which is kept until MOST_MODELS others have been asked. */
static opened *find_model(sqlite3_context *context, const char *uri) {
  connection *own = sqlite3_user_data(context);
  int at = 0;
  while (at < MOST_MODELS - 1 && own->models[at] && strcmp(own->models[at]->uri, uri) != 0)
    ++at;
  opened *model = own->models[at];
  if (!model || strcmp(model->uri, uri) != 0) {
    model = open_model(context, uri);
    if (!model)
      return NULL;
    release(own->models[at]);
  }
  memmove((void *)(own->models + 1), (void *)own->models, (size_t)at * sizeof(opened *));
  return own->models[0] = model;
}

/* Returns how many values an input takes. An input whose length may change takes all of them if it
 * is the only input, else as many as for the length 1. */
static uint64_t length(const mlbridge_signature *signature, uint64_t input, uint64_t all) {
  const mlbridge_tensor_spec *spec = &signature->inputs[input];
  uint64_t product = 1;
  for (uint32_t i = 0; i < spec->rank; ++i) {
    if (spec->shape[i] == MLBRIDGE_DYNAMIC && signature->inputs_size == 1)
      return all;
    product *= spec->shape[i] == MLBRIDGE_DYNAMIC ? 1 : (uint64_t)spec->shape[i];
  }
  return product;
}

/* Sets an input. Whole numbers stay exact where it has integers; a wrong one fails evaluation. */
static bool set(sqlite3_context *context, const opened *model, uint64_t input,
                sqlite3_value **values, uint64_t count) {
  connection *own = sqlite3_user_data(context);
  const mlbridge_tensor_spec *spec = &model->signature->inputs[input];
  bool integers = spec->type < MLBRIDGE_FLOAT16 || spec->type == MLBRIDGE_BOOL;
  for (uint64_t i = 0; i < count; ++i) {
    const int type = sqlite3_value_type(values[i]);
    if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) {
      fail(context, "mlbridge: %s: expected a number for '%s', got %s", model->uri, spec->name,
           type == SQLITE_NULL   ? "NULL"
           : type == SQLITE_TEXT ? "a text"
                                 : "a blob");
      return false;
    }
    integers = integers && type == SQLITE_INTEGER;
    own->integers[i] = sqlite3_value_int64(values[i]);
    own->reals[i] = sqlite3_value_double(values[i]);
  }
  mlbridge_runner_set_at(model->runner, input, integers ? MLBRIDGE_INT64 : MLBRIDGE_FLOAT64,
                         integers ? (const void *)own->integers : own->reals, count);
  return true;
}

static void answer(sqlite3_context *context, const opened *model) {
  const mlbridge_type type = model->signature->outputs[0].type;
  uint64_t count = 0;
  const void *data = mlbridge_runner_output_at(model->runner, 0, type, &count);
  if (!data || count != 1 || model->signature->outputs_size != 1) {
    fail(context, "mlbridge: %s: expected one number as the answer; the model is %s", model->uri,
         model->states);
    return;
  }
  switch (type) {
#define ANSWER(type, element, kind)                                                                \
  case MLBRIDGE_##type:                                                                            \
    sqlite3_result_##kind(context, *(const element *)data);                                        \
    break
    ANSWER(BOOL, bool, int);
    ANSWER(INT8, int8_t, int);
    ANSWER(INT16, int16_t, int);
    ANSWER(INT32, int32_t, int);
    ANSWER(INT64, int64_t, int64);
    ANSWER(UINT8, uint8_t, int);
    ANSWER(UINT16, uint16_t, int);
    ANSWER(UINT32, uint32_t, int64);
    ANSWER(UINT64, uint64_t, double); /* half of them are no integers of SQLite */
    ANSWER(FLOAT32, float, double);
    ANSWER(FLOAT64, double, double);
  default: /* MLBRIDGE_FLOAT16 */
    sqlite3_result_double(context, mlbridge_float_of_half(*(const uint16_t *)data));
  }
}

static void ask(sqlite3_context *context, int count, sqlite3_value **values) {
  const char *uri = count ? (const char *)sqlite3_value_text(values[0]) : NULL;
  opened *const kept = sqlite3_get_auxdata(context, 0);
  opened *const model = kept ? kept : find_model(context, uri ? uri : "");
  if (!model)
    return;
  uint64_t at = 1, all = (uint64_t)count, wanted = 1;
  for (uint64_t i = 0; i < model->signature->inputs_size; ++i, at += wanted) {
    wanted = length(model->signature, i, all - 1);
    if (at + wanted <= all && !set(context, model, i, values + at, wanted))
      return;
  }
  if (at != all) {
    fail(context, "mlbridge: %s: expected %llu numbers, got %d; the model is %s", model->uri,
         (unsigned long long)at - 1, count - 1, model->states);
  } else if (mlbridge_runner_evaluate(model->runner)) {
    fail_asking(context, model);
    mlbridge_runner_clear_status(model->runner);
  } else {
    answer(context, model);
  }
  if (!kept) { /* by each statement once, if the URI is a constant */
    ++model->users;
    sqlite3_set_auxdata(context, 0, model, release);
  }
}

int sqlite3_mlbridge_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  SQLITE_EXTENSION_INIT2(api);
  (void)message;
  const int now = sqlite3_limit(db, SQLITE_LIMIT_FUNCTION_ARG, INT_MAX); /* which is cut */
  const size_t most = (size_t)sqlite3_limit(db, SQLITE_LIMIT_FUNCTION_ARG, now);
  connection *own = sqlite3_malloc64(sizeof *own + most * (sizeof(double) + sizeof(int64_t)));
  if (!own)
    return SQLITE_NOMEM;
  memset((void *)own->models, 0, sizeof own->models);
  own->integers = (int64_t *)(own->reals + most);
  /* Files and servers are for the one who writes the query, not for the schema of a database. */
  return sqlite3_create_function_v2(db, "mlbridge", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, own, ask,
                                    NULL, NULL, close_all);
}
