// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the scheme of a URI to what opens it.
#ifndef MLBRIDGE_RUNNER_REGISTRY_H
#define MLBRIDGE_RUNNER_REGISTRY_H

#include "core/backend.h"
#include <mlbridge/function.h>

namespace mlbridge {

/// In this order: what is built in, registered schemes, an engine component, a transport component.
/// With `memory` what the URI would name otherwise is there. Errors: those of Model::open.
Expected<std::shared_ptr<ModelBackend>> openBackend(const Uri &uri, const OpenOptions &options,
                                                    const Span<const uint8_t> *memory = nullptr);

/// Every scheme that can be opened, sorted.
std::vector<std::string> knownSchemes();

} // namespace mlbridge

#endif
