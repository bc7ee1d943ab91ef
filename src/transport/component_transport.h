// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Transport over the table of a component.
#ifndef MLBRIDGE_TRANSPORT_COMPONENT_TRANSPORT_H
#define MLBRIDGE_TRANSPORT_COMPONENT_TRANSPORT_H

#include "transport/transport.h"

namespace mlbridge {

/// Errors: NotFound, Unsupported (a component of another version).
Expected<const Transport *> componentTransport(std::string_view scheme);

} // namespace mlbridge

#endif
