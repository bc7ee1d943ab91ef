/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: a model, which a URI opens. */
#ifndef MLBRIDGE_C_MODEL_H
#define MLBRIDGE_C_MODEL_H

#include <mlbridge/c/runner.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded network, a function or a connection. May be used by several threads at once, except for
 * bind. */
typedef struct mlbridge_model mlbridge_model;

/* Zero stands for the default of each field. Options of the URI take precedence. */
typedef struct mlbridge_open_options {
  uint64_t size;      /* sizeof(mlbridge_open_options) */
  int64_t deadline;   /* nanoseconds for opening, and then for each evaluation; default: 5 s */
  bool shared_budget; /* for failed calls, with other models of this process at the same address */
  mlbridge_call_context context; /* null stands for "" */
} mlbridge_open_options;

/* `options` may be null. Blocks until the deadline at most, where it can be interrupted. */
mlbridge_model *mlbridge_model_open(const char *uri, const mlbridge_open_options *options);
/* The same from the bytes of an ONNX file, which are copied: see mlbridge::Model::fromMemory. */
mlbridge_model *mlbridge_model_from_memory(const char *uri, const void *data, uint64_t size,
                                           const mlbridge_open_options *options);
void mlbridge_model_close(mlbridge_model *model); /* runners made from it keep working */

/* The URI as it was given to open; lives as long as the model. */
const char *mlbridge_model_uri(const mlbridge_model *model);
/* The result of opening and binding. The message is "" if there is no failure, and lives as long as
 * the model, or until bind. */
mlbridge_code mlbridge_model_code(const mlbridge_model *model);
const char *mlbridge_model_message(const mlbridge_model *model);

/* The metadata of the model: the value of a key, null if it says nothing; and, by number from
 * 0, all of them (MLBRIDGE_NOT_FOUND past the last one). The strings live as long as the model. */
const char *mlbridge_model_metadata(const mlbridge_model *model, const char *key);
mlbridge_code mlbridge_model_metadata_at(const mlbridge_model *model, uint64_t index,
                                         const char **key, const char **value);
/* The model's own signature; null for one that takes any, and if it was not opened. Lives as long
 * as the model. */
const mlbridge_signature *mlbridge_model_signature(const mlbridge_model *model);

/* mlbridge::Model::statistics: calls `each` with names and values before it returns. Blocks at most
 * until the deadline of opening. The failure's message goes into `message`, truncated to its
 * capacity, unless that is null. */
mlbridge_code mlbridge_model_statistics(const mlbridge_model *model,
                                        void (*each)(const char *name, const char *value,
                                                     void *data),
                                        void *data, char *message, uint64_t message_capacity);

/* mlbridge::Model::bind; null stands for the model's own signature. Call it once, before
 * new_runner. Errors: MLBRIDGE_MISMATCH, MLBRIDGE_INVALID_ARGUMENT, the failure of opening. */
mlbridge_code mlbridge_model_bind(mlbridge_model *model, const mlbridge_signature *signature);

/* The signature of a pass for a model, which lives during the call. The result has to live until
 * the function is called again; null stands for the model's own. */
typedef const mlbridge_signature *(*mlbridge_signature_for)(const mlbridge_model *model,
                                                            void *data);
/* mlbridge::bindFitting: `data` is handed to each call of the function. Errors: those of bind. */
mlbridge_code mlbridge_model_bind_fitting(mlbridge_model *model,
                                          mlbridge_signature_for signature_for, void *data);

/* The signature of the last successful bind; null before it. Lives until the next bind. */
const mlbridge_signature *mlbridge_model_bound_signature(const mlbridge_model *model);
/* mlbridge::Model::boundTo; a null signature stands for the model's own, a null agent for that of
 * opening. */
mlbridge_model *mlbridge_model_new_bound(const mlbridge_model *model,
                                         const mlbridge_signature *signature, const char *agent);

/* One thread's way to evaluate the model. */
mlbridge_runner *mlbridge_model_new_runner(const mlbridge_model *model);
/* The same for another context, and a deadline (of each evaluation, in nanoseconds); 0, null or ""
 * keeps that of opening. `context` may be null. As mlbridge::Model::newRunner. */
mlbridge_runner *mlbridge_model_new_runner_for(const mlbridge_model *model,
                                               const mlbridge_call_context *context,
                                               int64_t deadline);

/* Open, bind and new_runner in one call. `signature` may be null for the model's own. */
mlbridge_runner *mlbridge_open(const char *uri, const mlbridge_signature *signature,
                               const mlbridge_open_options *options);

#ifdef __cplusplus
}
#endif

#endif
