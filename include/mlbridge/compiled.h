// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Networks compiled by `mlbridge aot` and linked into the program.
#ifndef MLBRIDGE_COMPILED_H
#define MLBRIDGE_COMPILED_H

#include <mlbridge/aot.h>
#include <mlbridge/status.h>

namespace mlbridge {

/// Makes aot:NAME open a model that is linked in: `registerCompiled(NAME_model())`. Process-wide
/// within this copy of the library, thread-safe. The table is used for as long as the process
/// lives. Errors: InvalidArgument (the name is taken), InvalidModel (not a table of this version).
Status registerCompiled(const mlb_aot_model *model);

} // namespace mlbridge

#endif
