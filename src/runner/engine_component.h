// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model behind the engine table of a component.
#ifndef MLBRIDGE_RUNNER_ENGINE_COMPONENT_H
#define MLBRIDGE_RUNNER_ENGINE_COMPONENT_H

#include "core/backend.h"
#include <mlbridge/component.h>

namespace mlbridge {

/// `engine` lives for ever. Errors: the engine's; InvalidModel if its signature is malformed.
/// `memory`: the model, if it is in memory; Unsupported for an engine that takes files only.
Expected<std::shared_ptr<ModelBackend>> openEngine(const mlb_engine &engine, const Uri &uri,
                                                   const Span<const uint8_t> *memory = nullptr);

} // namespace mlbridge

#endif
