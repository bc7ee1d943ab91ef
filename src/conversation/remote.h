// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models behind a connection, or behind a service that is not MLBridge's.
#ifndef MLBRIDGE_CONVERSATION_REMOTE_H
#define MLBRIDGE_CONVERSATION_REMOTE_H

#include "conversation/connection.h"
#include "core/backend.h"
#include "serdes/serdes.h"

namespace mlbridge {

/// How to reach a server.
struct RemoteAddress {
  const Transport *transport = nullptr;
  const SerDes *serdes = nullptr;
  Connection::Options connecting;
  uint32_t retries = 0;

  /// All but the serdes. Errors: InvalidArgument (an option that is wrong, or is neither among
  /// `own` nor the transport's nor `wait`, `max-message` or `retries`).
  Status read(const Uri &uri, Span<const std::string_view> own);
};
/// Options of the URI, beside those of OpenOptions and of the transport: `serdes` (bitstream),
/// `wait` (0: a missing server is an error at once), `max-message` (256M), `max-welcome`
/// (4M), `retries` (0).
Expected<RemoteAddress> remoteAddress(const Uri &uri);

/// Both are null unless the program links them in, as in engine/backends.h.
[[gnu::weak, gnu::visibility("hidden")]] Expected<std::shared_ptr<ModelBackend>>
openRemote(const Uri &uri, const Opening &options) __asm__("mlbridge_link_remote");

/// A model behind a service that is not MLBridge's: each evaluation is one call, by itself. There
/// is no handshake, no metadata, and nothing is said of episodes. Options of the URI, beside those
/// of OpenOptions and of the transport: `call` (pkg.Service/Method), `proto`, `request` and `reply`
/// (those of the method), `serdes` (protobuf), `wait`, `max-message`, `retries` as above.
[[gnu::weak, gnu::visibility("hidden")]] Expected<std::shared_ptr<ModelBackend>>
openUnary(const Uri &uri, const Opening &options) __asm__("mlbridge_link_unary");

} // namespace mlbridge

#endif
