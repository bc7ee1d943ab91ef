// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transports that are built in, each made in its own room. One is null unless the program links
// it in, as in engine/backends.h.
#ifndef MLBRIDGE_TRANSPORT_BUILTIN_H
#define MLBRIDGE_TRANSPORT_BUILTIN_H

#include "transport/transport.h"

namespace mlbridge {

[[gnu::weak, gnu::visibility("hidden")]] const Transport &
pipeTransport() __asm__("mlbridge_link_pipe");
[[gnu::weak, gnu::visibility("hidden")]] const Transport &
shmTransport() __asm__("mlbridge_link_shm");
[[gnu::weak, gnu::visibility("hidden")]] const Transport &
unixTransport() __asm__("mlbridge_link_unix");

} // namespace mlbridge

#endif
