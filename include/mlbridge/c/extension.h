/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: engines of the program's own, and networks that are linked into it. The tables
 * are those of component.h and aot.h, which are C. */
#ifndef MLBRIDGE_C_EXTENSION_H
#define MLBRIDGE_C_EXTENSION_H

#include <mlbridge/aot.h>
#include <mlbridge/c/tensor.h>
#include <mlbridge/component.h>

#ifdef __cplusplus
extern "C" {
#endif

/* mlbridge::registerEngine: "scheme:name" opens a model with the table's `open`. The table is not
 * copied. Writes why it failed into `message`, truncated to its capacity, unless that is null. */
mlbridge_code mlbridge_register_engine(const char *scheme, const char *name,
                                       const mlb_engine *engine, char *message,
                                       uint64_t message_capacity);

/* mlbridge::registerComponent: uses a component that is linked in. The same rules. */
mlbridge_code mlbridge_register_component(const mlb_component *component, char *message,
                                          uint64_t message_capacity);

/* mlbridge::registerCompiled: mlbridge_register_compiled(NAME_model(), NULL, 0). The same rules. */
mlbridge_code mlbridge_register_compiled(const mlb_aot_model *model, char *message,
                                         uint64_t message_capacity);

#ifdef __cplusplus
}
#endif

#endif
