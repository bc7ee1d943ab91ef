// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of the program's own as a model.
#ifndef MLBRIDGE_ENGINE_FUNCTION_H
#define MLBRIDGE_ENGINE_FUNCTION_H

#include "core/backend.h"
#include <mlbridge/function.h>

namespace mlbridge {

/// Errors: InvalidArgument (no function, a malformed signature).
Expected<std::shared_ptr<ModelBackend>> functionBackend(FunctionModel model);

} // namespace mlbridge

#endif
