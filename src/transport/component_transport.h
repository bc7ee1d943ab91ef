// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transports that components add.
#ifndef MLBRIDGE_TRANSPORT_COMPONENT_TRANSPORT_H
#define MLBRIDGE_TRANSPORT_COMPONENT_TRANSPORT_H

#include "transport/transport.h"

namespace mlbridge {

/// libmlbridge-transport-SCHEME.so. Lives for ever. Errors: those of findComponent.
Expected<const Transport *> componentTransport(std::string_view scheme);

} // namespace mlbridge

#endif
