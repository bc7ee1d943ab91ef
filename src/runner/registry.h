// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the scheme of a URI to what opens it.
#ifndef MLBRIDGE_RUNNER_REGISTRY_H
#define MLBRIDGE_RUNNER_REGISTRY_H

#include "runner/backend.h"
#include <mlbridge/function.h>

namespace mlbridge {

/// In this order: what is built in, registered schemes, an engine component, a transport component.
/// Errors: those of Model::open.
Expected<std::shared_ptr<ModelBackend>> openBackend(const Uri &uri, const OpenOptions &options);

/// Every scheme that can be opened, sorted.
std::vector<std::string> knownSchemes();

/// A conversation with a server, over a transport. In src/conversation.
Expected<std::shared_ptr<ModelBackend>> openRemote(const Uri &uri, const OpenOptions &options);
/// A function model as a backend; in src/engine/function. Errors: InvalidArgument (no function, a
/// malformed signature).
Expected<std::shared_ptr<ModelBackend>> functionBackend(FunctionModel model);

} // namespace mlbridge

#endif
