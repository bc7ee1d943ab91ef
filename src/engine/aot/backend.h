// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_ENGINE_AOT_BACKEND_H
#define MLBRIDGE_ENGINE_AOT_BACKEND_H

#include "core/backend.h"

namespace mlbridge {

/// Opens aot:NAME, a model that is linked in, or aot:FILE.so. Option: weights=FILE. Errors:
/// NotFound, InvalidModel (not what mlbridge compile makes, another version, weights of another
/// network), InvalidArgument (an option, weights missing or not wanted).
Expected<std::shared_ptr<ModelBackend>> openCompiled(const Uri &uri);

} // namespace mlbridge

#endif
