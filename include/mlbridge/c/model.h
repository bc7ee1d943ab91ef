/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C interface: a model, which a URI opens.
 */
#ifndef MLBRIDGE_C_MODEL_H
#define MLBRIDGE_C_MODEL_H

#include <mlbridge/c/runner.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded network, a function or a connection. May be used by several threads at once, except for
 * bind. */
typedef struct mlbridge_model mlbridge_model;

/* Zero stands for the default of each field. Options of the URI go before. */
typedef struct mlbridge_open_options {
  uint64_t size;       /* sizeof(mlbridge_open_options) */
  int64_t deadline;    /* nanoseconds for opening, and then for each evaluation; 5 s */
  bool shared_budget;  /* with other models of this process at the same address */
  const char *agent;   /* which of a server's agents is asked */
  const char *episode; /* an id by which a trainer knows this compilation again */
  const char *context; /* free text for logs: module, function */
} mlbridge_open_options;

/* `options` may be null. Blocks until the deadline at most, where it can be interrupted. */
mlbridge_model *mlbridge_model_open(const char *uri, const mlbridge_open_options *options);
/* The same from the bytes of an ONNX file, which are copied, for "native:" and "onnx:"; the rest of
 * the URI is a name for messages, and options. Errors: also MLBRIDGE_UNSUPPORTED (another scheme,
 * weights in other files). */
mlbridge_model *mlbridge_model_from_memory(const char *uri, const void *data, uint64_t size,
                                           const mlbridge_open_options *options);
/* Runners made from it go on. */
void mlbridge_model_close(mlbridge_model *model);

/* As it was given to open; lives as long as the model. */
const char *mlbridge_model_uri(const mlbridge_model *model);
/* Of opening and binding. The message is "" if there is no failure, and lives as long as the
 * model, or until bind. */
mlbridge_code mlbridge_model_code(const mlbridge_model *model);
const char *mlbridge_model_message(const mlbridge_model *model);

/* What the model says of itself: the value of a key, null if it says nothing; and, by number from
 * 0, all of them (MLBRIDGE_NOT_FOUND past the last one). The strings live as long as the model. */
const char *mlbridge_model_metadata(const mlbridge_model *model, const char *key);
mlbridge_code mlbridge_model_metadata_at(const mlbridge_model *model, uint64_t index,
                                         const char **key, const char **value);
/* The model's own signature; null for one that takes any, and if it was not opened. Lives as long
 * as the model. */
const mlbridge_signature *mlbridge_model_signature(const mlbridge_model *model);

/* What its server has done so far, for all compilers: `each` is called with names and numbers, as
 * docs/protocol.md has them, before this returns. Blocks until the deadline of opening at most. The
 * failure's message goes into `message`, cut to what fits, if that is not null. Errors:
 * MLBRIDGE_UNSUPPORTED (a model in this process), MLBRIDGE_BUSY (asked by another thread), and
 * those of an evaluation. */
mlbridge_code mlbridge_model_statistics(const mlbridge_model *model,
                                        void (*each)(const char *name, const char *value,
                                                     void *data),
                                        void *data, char *message, uint64_t message_capacity);

/* Holds the model to the caller's signature, by the rules of mlbridge::Model::bind; null stands for
 * the model's own. Once, before new_runner. Errors: MLBRIDGE_MISMATCH, MLBRIDGE_INVALID_ARGUMENT,
 * the failure of opening. */
mlbridge_code mlbridge_model_bind(mlbridge_model *model, const mlbridge_signature *signature);

/* The signature of the last bind that went well; null before it. Lives until the next bind. */
const mlbridge_signature *mlbridge_model_bound_signature(const mlbridge_model *model);
/* The same model, loaded or connected once, bound to another signature (null: its own): for the
 * agents of one server. `agent` takes the place of the one of opening; null or "" keeps that. */
mlbridge_model *mlbridge_model_new_bound(const mlbridge_model *model,
                                         const mlbridge_signature *signature, const char *agent);

/* One thread's way to evaluate the model. */
mlbridge_runner *mlbridge_model_new_runner(const mlbridge_model *model);
/* The same with another deadline for its evaluations, agent, episode and context than the model was
 * opened with; what is 0, null or "" keeps those. A shared_budget that the model was not opened
 * with is MLBRIDGE_INVALID_ARGUMENT. */
mlbridge_runner *mlbridge_model_new_runner_for(const mlbridge_model *model,
                                               const mlbridge_open_options *overrides);

/* Open, bind and new_runner in one call. `signature` may be null for the model's own. */
mlbridge_runner *mlbridge_open(const char *uri, const mlbridge_signature *signature,
                               const mlbridge_open_options *options);

#ifdef __cplusplus
}
#endif

#endif
