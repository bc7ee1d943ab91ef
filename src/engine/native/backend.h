// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_ENGINE_NATIVE_BACKEND_H
#define MLBRIDGE_ENGINE_NATIVE_BACKEND_H

#include "core/backend.h"

namespace mlbridge {

/// Opens native:FILE, or what is in `memory`, within the deadline of opening. Errors: those of
/// native::Network::open, InvalidArgument (an option).
Expected<std::shared_ptr<ModelBackend>> openNative(const Uri &uri, const OpenOptions &options,
                                                   const Span<const uint8_t> *memory = nullptr);

} // namespace mlbridge

#endif
