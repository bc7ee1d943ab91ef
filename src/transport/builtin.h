// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transports that are built in, each made in its own room.
#ifndef MLBRIDGE_TRANSPORT_BUILTIN_H
#define MLBRIDGE_TRANSPORT_BUILTIN_H

#include "transport/transport.h"

namespace mlbridge {

const Transport &pipeTransport();
const Transport &shmTransport();
const Transport &unixTransport();

} // namespace mlbridge

#endif
