/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C interface: engines of the program's own, and networks that are linked into it. The tables
 * are those of component.h and aot.h, which are C.
 */
#ifndef MLBRIDGE_C_EXTENSION_H
#define MLBRIDGE_C_EXTENSION_H

#include <mlbridge/aot.h>
#include <mlbridge/c/tensor.h>
#include <mlbridge/component.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes "scheme:name" open what the table's `open` makes of the place `name`, within this copy of
 * the library, for the rest of the process; thread-safe. The table is not copied. Writes why it
 * failed into `message`, cut to what fits, if that is not null. Errors: MLBRIDGE_INVALID_ARGUMENT
 * (the name is taken, the scheme is one of the library's own, the table is incomplete or null). */
mlbridge_code mlbridge_register_engine(const char *scheme, const char *name,
                                       const mlb_engine *engine, char *message,
                                       uint64_t message_capacity);

/* Uses a component's engine, serdes or transport that is linked in where libmlbridge-KIND-NAME.so
 * would be opened otherwise. The same rules. Errors: MLBRIDGE_INVALID_ARGUMENT (its name is taken
 * or one of the library's own, null), MLBRIDGE_UNSUPPORTED (another ABI, an incomplete table). */
mlbridge_code mlbridge_register_component(const mlb_component *component, char *message,
                                          uint64_t message_capacity);

/* Makes "aot:NAME" open a network that `mlbridge compile` made and that is linked in:
 * mlbridge_register_compiled(NAME_model(), NULL, 0). The same rules. Errors:
 * MLBRIDGE_INVALID_ARGUMENT (the name is taken, null), MLBRIDGE_INVALID_MODEL (not a table of this
 * version). */
mlbridge_code mlbridge_register_compiled(const mlb_aot_model *model, char *message,
                                         uint64_t message_capacity);

#ifdef __cplusplus
}
#endif

#endif
