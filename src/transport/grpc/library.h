// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gRPC library as a guest in somebody else's process.
#ifndef MLBRIDGE_TRANSPORT_GRPC_LIBRARY_H
#define MLBRIDGE_TRANSPORT_GRPC_LIBRARY_H

#include "core/process.h"
#include "transport/grpc/settings.h"

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

namespace mlbridge::grpctransport {

/// Before each connection and each listener. Initializes gRPC once and for ever, and makes it
/// quiet. Errors: InvalidArgument in a process that was forked off the one where that was done:
/// gRPC's threads are not there; LimitExceeded if its threads, descriptors or memory can't be had
/// now.
Status startLibrary();
/// True if so many threads can be had now: gRPC aborts where it can't start one. Errors:
/// LimitExceeded.
Status tryThreads(size_t count);
/// True if this is such a process, in which no object of gRPC may be touched.
bool isForked();

/// What a channel's calls are for.
struct ChannelUse {
  int largestMessage;  ///< that the server may send
  const char *service; ///< of several servers, those are asked that say that this one is healthy
  bool repeats;        ///< of several servers, gRPC asks another one if a call finds none
};

/// A compiler's channel. Of one server it shares nothing with others; of several, gRPC connects to
/// all of them and spreads the calls over those that are there and healthy. Looks names of a list
/// up, for as long. Errors: Unavailable (no address), DeadlineExceeded.
Expected<std::shared_ptr<grpc::Channel>> channelOf(const Settings &settings, const ChannelUse &use,
                                                   Deadline deadline);
/// True if the place may stand for several servers.
bool isFleet(const Settings &settings);

/// The error for `text`, with which gRPC says that it found no way to the server.
Status unreachable(const std::string &text, bool usesTls);

/// A deadline as gRPC has them.
gpr_timespec timeOf(Deadline deadline);

/// Settings of gRPC that both sides have. `set` is called with each name and value.
template <typename Set> void setCommonArguments(const Settings &settings, Set set) {
  // Windows of a fixed size that a large message fills, and no probes for better ones.
  set("grpc.http2.bdp_probe", 0);
  set("grpc.http2.lookahead_bytes", 4 << 20);
  set("grpc.http2.max_frame_size", 1 << 20);
  set("grpc.http2.write_buffer_size", 1 << 20);
  if (settings.keepAlive > Duration::zero()) {
    set(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(settings.keepAlive.count() / 1'000'000));
    set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    set("grpc.http2.max_pings_without_data", 0);
  }
}

} // namespace mlbridge::grpctransport

#endif
