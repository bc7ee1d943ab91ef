// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/transport.h"

#include "core/message.h"

#include <poll.h>

namespace mlbridge {

Expected<std::unique_ptr<Caller>> Transport::caller(const Uri &uri, Deadline) const {
  return makeError(Code::Unsupported, "option 'call': the transport '", uri.scheme,
                   "' reaches only servers of MLBridge; use grpc: to call other services");
}

Expected<Readiness> Channel::wait(Readiness wanted, Deadline deadline) {
  while (!prepareToSleep(wanted)) {
    const Readiness seen = look(wanted);
    if (seen.read || seen.write)
      return seen;
    if (deadline.hasPassed())
      return makeError(Code::DeadlineExceeded, "the deadline has passed");
  }
  pollfd fds[3] = {{wanted.read ? readDescriptor() : -1, POLLIN, 0},
                   {wanted.write ? writeDescriptor() : -1, writeEvents(), 0},
                   {wanted.read ? hangUpDescriptor() : -1, 0, 0}};
  const nfds_t used = fds[2].fd >= 0 ? 3 : fds[1].fd >= 0 ? 2 : 1;
  while (true) {
    const int n = ::poll(fds, used, deadline.pollTimeout());
    if (n > 0)
      return Readiness{fds[0].revents != 0 || fds[2].revents != 0, fds[1].revents != 0};
    if (n < 0 && errno != EINTR)
      return Status(Code::Internal, describeErrno("poll", errno));
    if (deadline.hasPassed())
      return makeError(Code::DeadlineExceeded, "the deadline has passed");
  }
}

} // namespace mlbridge
