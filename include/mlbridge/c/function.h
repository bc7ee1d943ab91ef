/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: a C function as a model, which "function:NAME" opens. */
#ifndef MLBRIDGE_C_FUNCTION_H
#define MLBRIDGE_C_FUNCTION_H

#include <mlbridge/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One evaluation as a function sees it; valid during the call. */
typedef struct mlbridge_call mlbridge_call;

/* The inputs and outputs, with dynamic lengths as declared; lives as long as the call. */
const mlbridge_signature *mlbridge_call_signature(const mlbridge_call *call);

/* Tensors of numbers by name, as in runner.h; null if there is no such tensor of this type. Outputs
 * are zero at first; one with dynamic lengths has none until resize_output. */
const void *mlbridge_call_input(const mlbridge_call *call, const char *name, mlbridge_type type,
                                uint64_t *count);
const int64_t *mlbridge_call_input_shape(const mlbridge_call *call, const char *name,
                                         uint32_t *rank);
mlbridge_code mlbridge_call_input_string(const mlbridge_call *call, const char *name,
                                         uint64_t index, mlbridge_string *text);
void *mlbridge_call_output(mlbridge_call *call, const char *name, mlbridge_type type,
                           uint64_t *count);
void *mlbridge_call_resize_output(mlbridge_call *call, const char *name, mlbridge_type type,
                                  const int64_t *shape, uint32_t rank, uint64_t *count);
mlbridge_code mlbridge_call_set_output_string(mlbridge_call *call, const char *name, uint64_t index,
                                              mlbridge_string text);
/* The caller, and what it works on; "" for what nobody said. Lives as long as the call. */
mlbridge_call_context mlbridge_call_get_context(const mlbridge_call *call);
/* Fails the evaluation: `return mlbridge_call_fail(call, MLBRIDGE_POLICY_FAILED, "why");` */
mlbridge_code mlbridge_call_fail(mlbridge_call *call, mlbridge_code code, const char *message);

/* Returns MLBRIDGE_OK or why there is no answer. Called on the evaluating thread, from several
 * threads at once if several evaluate; it cannot be interrupted. */
typedef mlbridge_code (*mlbridge_function)(mlbridge_call *call, void *data);

/* A function and what is said of it. */
typedef struct mlbridge_function_model {
  uint64_t size;                       /* sizeof(mlbridge_function_model) */
  const mlbridge_signature *signature; /* null: takes whatever the caller states */
  mlbridge_function function;          /* called for each evaluation */
  void *data;                          /* handed to each call; lives as long as the process */
  const char *const *metadata;         /* key, value, key, value, ...; null if there is none */
  uint64_t metadata_size;              /* number of strings */
} mlbridge_function_model;

/* Calls mlbridge::registerFunction. Everything but `data` is copied. Writes why it failed into
 * `message`, truncated to its capacity, unless that is null. Errors: MLBRIDGE_INVALID_ARGUMENT (the
 * name is taken, no function, a malformed signature). */
mlbridge_code mlbridge_register_function(const char *name, const mlbridge_function_model *model,
                                         char *message, uint64_t message_capacity);

#ifdef __cplusplus
}
#endif

#endif
