// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model behind a connection.
#ifndef MLBRIDGE_CONVERSATION_REMOTE_H
#define MLBRIDGE_CONVERSATION_REMOTE_H

#include "runner/backend.h"

namespace mlbridge {

/// Options of the URI, beside those of OpenOptions and of the transport: `serdes` (bitstream),
/// `wait` (0: a missing server is an error at once), `max-message` (256M).
Expected<std::shared_ptr<ModelBackend>> openRemote(const Uri &uri, const OpenOptions &options);

} // namespace mlbridge

#endif
