// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The addresses of names, looked up by the system within a deadline.
#ifndef MLBRIDGE_TRANSPORT_GRPC_NAMES_H
#define MLBRIDGE_TRANSPORT_GRPC_NAMES_H

#include "transport/grpc/settings.h"

namespace mlbridge::grpctransport {

/// All addresses of a name, with its port. The system's look-up cannot be interrupted, so it goes
/// on in a thread of its own after the deadline. Errors: Unavailable (the name has none),
/// DeadlineExceeded, LimitExceeded (no thread).
Expected<std::vector<Address>> addressesOf(const Address &name, Deadline deadline);

} // namespace mlbridge::grpctransport

#endif
