/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: errors. Functions return a code; the object that was called has the message. */
#ifndef MLBRIDGE_C_STATUS_H
#define MLBRIDGE_C_STATUS_H

#include <mlbridge/version.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of MLBridge as major << 16 | minor. A new minor version may add functions, and fields
 * at the end of structures; structures state their size, so that a program works with a newer
 * library. */
#define MLBRIDGE_C_VERSION (MLBRIDGE_VERSION_MAJOR * 0x10000u + MLBRIDGE_VERSION_MINOR)
uint32_t mlbridge_c_version(void); /* of the library that is linked */

/* mlbridge::Code; docs/errors.md lists what causes each and what to do. */
typedef int32_t mlbridge_code;
enum {
  MLBRIDGE_OK = 0,                /* no error */
  MLBRIDGE_DEADLINE_EXCEEDED = 1, /* the time given has passed */
  MLBRIDGE_UNAVAILABLE = 2,       /* nobody there, or the model's circuit breaker is open */
  MLBRIDGE_BUSY = 3,              /* the other side refuses more work now */
  MLBRIDGE_CLOSED = 4,            /* the other side ended the connection */
  MLBRIDGE_POLICY_FAILED = 5,     /* the model failed, or answered what cannot be used */
  MLBRIDGE_CANCELLED = 6,         /* the caller, or a stopping server, gave up */
  MLBRIDGE_INVALID_ARGUMENT = 7,  /* the call is wrong */
  MLBRIDGE_MISMATCH = 8,          /* pass and model disagree */
  MLBRIDGE_INVALID_MODEL = 9,     /* the file is damaged or no model */
  MLBRIDGE_NOT_FOUND = 10,        /* no such file, component, library or name */
  MLBRIDGE_UNSUPPORTED = 11,      /* understood, and not offered here */
  MLBRIDGE_PROTOCOL = 12,         /* bytes that break docs/protocol.md */
  MLBRIDGE_LIMIT_EXCEEDED = 13,   /* a length, count or size beyond the limit */
  MLBRIDGE_INTERNAL = 14          /* a bug in MLBridge */
};

const char *mlbridge_code_name(mlbridge_code code); /* "mismatch"; static */

/* The next step of a caller after an error: mlbridge::NextStep. */
typedef uint32_t mlbridge_next_step;
enum {
  MLBRIDGE_PROCEED = 0,   /* it was MLBRIDGE_OK */
  MLBRIDGE_RETRY = 1,     /* the same call may work later; until then, fall back */
  MLBRIDGE_FALL_BACK = 2, /* use the heuristic; asking again will not help this time */
  MLBRIDGE_FIX_CALL = 3,  /* the program, option or URI has to be changed */
  MLBRIDGE_FIX_MODEL = 4, /* the model, its metadata or the other side has to be changed */
  MLBRIDGE_STOP = 5       /* report a bug */
};

/* The next step after this code; MLBRIDGE_STOP for a number that is no code. */
mlbridge_next_step mlbridge_code_next_step(mlbridge_code code);
const char *mlbridge_next_step_name(mlbridge_next_step step); /* "fall back"; static */

#ifdef __cplusplus
}
#endif

#endif
