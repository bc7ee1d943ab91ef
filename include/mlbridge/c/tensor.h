/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: what goes in and out of a model. */
#ifndef MLBRIDGE_C_TENSOR_H
#define MLBRIDGE_C_TENSOR_H

#include <mlbridge/c/status.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* mlbridge::ElementType. The C type of float16 is uint16_t (its bits), of strings
 * mlbridge_string. */
typedef uint32_t mlbridge_type;
enum {
  MLBRIDGE_INT8 = 1,     /* 1 byte */
  MLBRIDGE_INT16 = 2,    /* 2 bytes */
  MLBRIDGE_INT32 = 3,    /* 4 bytes */
  MLBRIDGE_INT64 = 4,    /* 8 bytes */
  MLBRIDGE_UINT8 = 5,    /* 1 byte, unsigned */
  MLBRIDGE_UINT16 = 6,   /* 2 bytes, unsigned */
  MLBRIDGE_UINT32 = 7,   /* 4 bytes, unsigned */
  MLBRIDGE_UINT64 = 8,   /* 8 bytes, unsigned */
  MLBRIDGE_FLOAT16 = 9,  /* IEEE 754 binary16 */
  MLBRIDGE_FLOAT32 = 10, /* float */
  MLBRIDGE_FLOAT64 = 11, /* double */
  MLBRIDGE_BOOL = 12,    /* 1 byte, 0 or 1 */
  MLBRIDGE_STRING = 13   /* UTF-8 text of any length */
};

/* "float32"; static; "invalid" for a number that is no type. */
const char *mlbridge_type_name(mlbridge_type type);
mlbridge_type mlbridge_type_named(const char *name); /* 0 for another name */
/* Bytes of one element; 0 for MLBRIDGE_STRING and for a number that is no type. */
uint64_t mlbridge_type_size(mlbridge_type type);

/* mlbridge::toFloat and toHalf. */
float mlbridge_float_of_half(uint16_t half);
uint16_t mlbridge_half_of_float(float value);

/* Bytes of UTF-8; not terminated. */
typedef struct mlbridge_string {
  const char *data; /* UTF-8; may be null if size is 0 */
  uint64_t size;    /* bytes */
} mlbridge_string;

/* A dimension whose length changes from call to call. */
#define MLBRIDGE_DYNAMIC ((int64_t)-1)

/* One named input or output. Copied by every function that takes it. */
typedef struct mlbridge_tensor_spec {
  uint64_t size;          /* sizeof(mlbridge_tensor_spec) */
  const char *name;       /* unique among the inputs, or the outputs */
  mlbridge_type type;     /* of each element */
  uint32_t rank;          /* 0: a scalar */
  const int64_t *shape;   /* rank lengths; null if rank is 0 */
  const int64_t *maximum; /* null, or the largest length of each MLBRIDGE_DYNAMIC dimension */
} mlbridge_tensor_spec;

/* The ordered inputs and outputs of a model. */
typedef struct mlbridge_signature {
  uint64_t size;                       /* sizeof(mlbridge_signature) */
  const mlbridge_tensor_spec *inputs;  /* what the model is given */
  uint64_t inputs_size;                /* number of them */
  const mlbridge_tensor_spec *outputs; /* what it answers */
  uint64_t outputs_size;               /* number of them */
} mlbridge_signature;

/* The error goes into `message`, truncated to its capacity, unless that is null. Errors:
 * MLBRIDGE_INVALID_ARGUMENT. */
mlbridge_code mlbridge_signature_check(const mlbridge_signature *signature, char *message,
                                       uint64_t message_capacity);
/* Signature::toString, truncated to the capacity and terminated; returns the whole length,
 * without the zero. `text` may be null. */
uint64_t mlbridge_signature_text(const mlbridge_signature *signature, char *text,
                                 uint64_t capacity);

/* The caller of a model, and what it works on: mlbridge::CallContext. It doesn't grow. */
typedef struct mlbridge_call_context {
  const char *agent;   /* which of several agents is asked */
  const char *episode; /* an id by which a trainer recognizes this compilation */
  const char *unit;    /* what is compiled, in the compiler's words: a module, a function */
} mlbridge_call_context;

/* One of several agents. Copied by every function that takes it. */
typedef struct mlbridge_agent_spec {
  uint64_t size;                       /* sizeof(mlbridge_agent_spec) */
  const char *name;                    /* unique among the agents */
  const mlbridge_signature *signature; /* the inputs are observed, the outputs decided */
} mlbridge_agent_spec;

#ifndef __cplusplus
/* For initializers: MLBRIDGE_TENSOR("embedding", MLBRIDGE_FLOAT32, 300). */
#define MLBRIDGE_TENSOR(name, type, ...)                                                           \
  {sizeof(mlbridge_tensor_spec),                                                                   \
   (name),                                                                                         \
   (type),                                                                                         \
   (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                           \
   (const int64_t[]){__VA_ARGS__},                                                                 \
   NULL}
/* The same for a scalar: MLBRIDGE_SCALAR("action", MLBRIDGE_INT64). */
#define MLBRIDGE_SCALAR(name, type) {sizeof(mlbridge_tensor_spec), (name), (type), 0, NULL, NULL}
/* A signature of two arrays of mlbridge_tensor_spec. */
#define MLBRIDGE_SIGNATURE(inputs, outputs)                                                        \
  {sizeof(mlbridge_signature), (inputs), sizeof(inputs) / sizeof(*(inputs)), (outputs),            \
   sizeof(outputs) / sizeof(*(outputs))}

/* An agent of a name and a pointer to a signature. */
#define MLBRIDGE_AGENT(name, signature) {sizeof(mlbridge_agent_spec), (name), (signature)}

/* The element type that a pointer points to. */
#define MLBRIDGE_TYPE_OF(pointer)                                                                  \
  _Generic(*(pointer),                                                                             \
      int8_t: MLBRIDGE_INT8,                                                                       \
      int16_t: MLBRIDGE_INT16,                                                                     \
      int32_t: MLBRIDGE_INT32,                                                                     \
      long: MLBRIDGE_INT64,                                                                        \
      long long: MLBRIDGE_INT64,                                                                   \
      uint8_t: MLBRIDGE_UINT8,                                                                     \
      uint16_t: MLBRIDGE_UINT16,                                                                   \
      uint32_t: MLBRIDGE_UINT32,                                                                   \
      unsigned long: MLBRIDGE_UINT64,                                                              \
      unsigned long long: MLBRIDGE_UINT64,                                                         \
      float: MLBRIDGE_FLOAT32,                                                                     \
      double: MLBRIDGE_FLOAT64,                                                                    \
      bool: MLBRIDGE_BOOL,                                                                         \
      mlbridge_string: MLBRIDGE_STRING)
#endif

#ifdef __cplusplus
}
#endif

#endif
