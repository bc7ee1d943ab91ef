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

/// The most servers that a compiler which asks there may meet. Names that can't be looked up in
/// time are thought to have several addresses. 1 for a place that cannot be read.
uint32_t serversAt(std::string_view place, Deadline deadline);
uint32_t serversOf(const std::vector<Address> &all, Deadline deadline);

} // namespace mlbridge::grpctransport

#endif
