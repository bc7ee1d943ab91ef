// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model behind the engine table of a component.
#ifndef MLBRIDGE_RUNNER_ENGINE_COMPONENT_H
#define MLBRIDGE_RUNNER_ENGINE_COMPONENT_H

#include "core/backend.h"
#include <mlbridge/component.h>

namespace mlbridge {

/// `engine` lives for ever. Errors: the engine's; InvalidModel if its signature is malformed.
Expected<std::shared_ptr<ModelBackend>> openEngine(const mlb_engine &engine, const Uri &uri);

} // namespace mlbridge

#endif
