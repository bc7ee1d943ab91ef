// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model behind a service that is not MLBridge's: each evaluation is one call, by itself. There is
// no handshake, no metadata, and nothing is said of episodes.
#ifndef MLBRIDGE_CONVERSATION_UNARY_H
#define MLBRIDGE_CONVERSATION_UNARY_H

#include "core/backend.h"

namespace mlbridge {

/// Options of the URI, beside those of OpenOptions and of the transport: `call`
/// (pkg.Service/Method), `proto`, `request` and `reply` (those of the method), `serdes` (protobuf),
/// `wait`, `max-message`, `retries` as of openRemote.
Expected<std::shared_ptr<ModelBackend>> openUnary(const Uri &uri, const OpenOptions &options);

} // namespace mlbridge

#endif
