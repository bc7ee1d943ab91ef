/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: one thread's way to evaluate a model. */
#ifndef MLBRIDGE_C_RUNNER_H
#define MLBRIDGE_C_RUNNER_H

#include <mlbridge/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Used by one thread at a time. Keeps its model alive. */
typedef struct mlbridge_runner mlbridge_runner;

void mlbridge_runner_destroy(mlbridge_runner *runner); /* the caller's only */

/* Why the last call failed. The message is "" if it did not, and lives until the next call. A wrong
 * `set` stays, and evaluations fail with it, until that input is set properly or clear_status. */
mlbridge_code mlbridge_runner_code(const mlbridge_runner *runner);
const char *mlbridge_runner_message(const mlbridge_runner *runner);
/* Forgets a wrong `set`; the model's own failure stays. */
void mlbridge_runner_clear_status(mlbridge_runner *runner);

/* The signature that the model was bound to; null while it is unbound. Lives until the next call of
 * this function. */
const mlbridge_signature *mlbridge_runner_signature(mlbridge_runner *runner);

/* Copies `count` elements into an input, as mlbridge::Runner::set does: its conversions, lengths
 * and errors. */
mlbridge_code mlbridge_runner_set(mlbridge_runner *runner, const char *name, mlbridge_type type,
                                  const void *elements, uint64_t count);
/* The same by the input's index in the signature, without a look-up. */
mlbridge_code mlbridge_runner_set_at(mlbridge_runner *runner, uint64_t index, mlbridge_type type,
                                     const void *elements, uint64_t count);
mlbridge_code mlbridge_runner_set_string(mlbridge_runner *runner, const char *name,
                                         const char *text);

/* The buffer of an input of numbers, to be written in place until the runner is destroyed or the
 * input resized; *count (which may be null) is the number of its elements. Null for a type without
 * a buffer; for a wrong name or type, or without a model, one that nobody reads, as
 * mlbridge::Runner::input gives, and the runner's code says so. */
void *mlbridge_runner_input(mlbridge_runner *runner, const char *name, mlbridge_type type,
                            uint64_t *count);
/* The same by index. */
void *mlbridge_runner_input_at(mlbridge_runner *runner, uint64_t index, mlbridge_type type,
                               uint64_t *count);
/* Sets the lengths of an input of numbers and returns its buffer. Earlier buffers of the input are
 * invalid. */
void *mlbridge_runner_resize(mlbridge_runner *runner, const char *name, mlbridge_type type,
                             const int64_t *shape, uint32_t rank, uint64_t *count);

/* mlbridge::Runner::bindInput and bindOutput, for numbers; null ends the binding. */
mlbridge_code mlbridge_runner_bind_input(mlbridge_runner *runner, const char *name,
                                         mlbridge_type type, const void *elements, uint64_t count);
mlbridge_code mlbridge_runner_bind_output(mlbridge_runner *runner, const char *name,
                                          mlbridge_type type, void *elements, uint64_t count);

/* Asks the model, within the deadline given at opening or within `nanoseconds`. Errors: those of
 * mlbridge::Runner::evaluate. */
mlbridge_code mlbridge_runner_evaluate(mlbridge_runner *runner);
mlbridge_code mlbridge_runner_evaluate_within(mlbridge_runner *runner, int64_t nanoseconds);

/* An output of numbers of the last evaluation, valid until the next one. Null, with the runner's
 * code, if the name or type is wrong or there is none. Not null for an empty one. */
const void *mlbridge_runner_output(mlbridge_runner *runner, const char *name, mlbridge_type type,
                                   uint64_t *count);
/* The same by index. */
const void *mlbridge_runner_output_at(mlbridge_runner *runner, uint64_t index, mlbridge_type type,
                                      uint64_t *count);
/* Its lengths; null if there is no such output. */
const int64_t *mlbridge_runner_output_shape(mlbridge_runner *runner, const char *name,
                                            uint32_t *rank);
/* Element `index` of an output of strings. Errors: MLBRIDGE_INVALID_ARGUMENT. */
mlbridge_code mlbridge_runner_output_string(mlbridge_runner *runner, const char *name,
                                            uint64_t index, mlbridge_string *text);

/* Evaluates and gives the first element of the only (or first) output. */
mlbridge_code mlbridge_evaluate_int32(mlbridge_runner *runner, int32_t *answer);
mlbridge_code mlbridge_evaluate_int64(mlbridge_runner *runner, int64_t *answer);
mlbridge_code mlbridge_evaluate_float(mlbridge_runner *runner, float *answer);
mlbridge_code mlbridge_evaluate_double(mlbridge_runner *runner, double *answer);
mlbridge_code mlbridge_evaluate_bool(mlbridge_runner *runner, bool *answer);
/* The same, or what the heuristic says; it is called only then, and the runner's code says why. */
int32_t mlbridge_evaluate_int32_or(mlbridge_runner *runner, int32_t (*heuristic)(void *data),
                                   void *data);
int64_t mlbridge_evaluate_int64_or(mlbridge_runner *runner, int64_t (*heuristic)(void *data),
                                   void *data);
float mlbridge_evaluate_float_or(mlbridge_runner *runner, float (*heuristic)(void *data),
                                 void *data);
double mlbridge_evaluate_double_or(mlbridge_runner *runner, double (*heuristic)(void *data),
                                   void *data);
bool mlbridge_evaluate_bool_or(mlbridge_runner *runner, bool (*heuristic)(void *data), void *data);

/* Tells the model about episodes; `episode` and `unit` may be null. */
mlbridge_code mlbridge_runner_begin_episode(mlbridge_runner *runner, const char *episode,
                                            const char *unit);
/* The reward of the last evaluation's action. */
mlbridge_code mlbridge_runner_reward(mlbridge_runner *runner, double value);
/* `outcome`: MLBRIDGE_OK, or how the compilation failed, with a message or null. */
mlbridge_code mlbridge_runner_end_episode(mlbridge_runner *runner, mlbridge_code outcome,
                                          const char *message);
/* Ends it with MLBRIDGE_OK: a limit was reached, not a terminal state. */
mlbridge_code mlbridge_runner_end_episode_truncated(mlbridge_runner *runner);
/* How many of these events were dropped: the newest 256 are kept while the server does not read,
 * none once the connection has ended. */
uint64_t mlbridge_runner_dropped_events(const mlbridge_runner *runner);

#ifndef __cplusplus
/* Like mlbridge_runner_set, _input and _output; the type is that of the pointer:
 * mlbridge_set(runner, "embedding", embedding, 300); int64_t *step = mlbridge_input(runner, "step",
 * step, NULL); Of the pointer given to `input` and `output` only the type is used. */
#define mlbridge_set(runner, name, elements, count)                                                \
  mlbridge_runner_set((runner), (name), MLBRIDGE_TYPE_OF(elements), (elements), (count))
/* mlbridge_runner_input by the type of the pointer. */
#define mlbridge_input(runner, name, pointer, count)                                               \
  mlbridge_runner_input((runner), (name), MLBRIDGE_TYPE_OF(pointer), (count))
/* mlbridge_runner_output by the type of the pointer. */
#define mlbridge_output(runner, name, pointer, count)                                              \
  mlbridge_runner_output((runner), (name), MLBRIDGE_TYPE_OF(pointer), (count))
#endif

#ifdef __cplusplus
}
#endif

#endif
