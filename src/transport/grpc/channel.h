// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's channel to a server.
#ifndef MLBRIDGE_TRANSPORT_GRPC_CHANNEL_H
#define MLBRIDGE_TRANSPORT_GRPC_CHANNEL_H

#include "transport/grpc/settings.h"

#include <grpcpp/channel.h>

namespace mlbridge::grpctransport {

/// One that shares nothing with others. `largestMessage` is what the server may send.
std::shared_ptr<grpc::Channel> channelOf(const Settings &settings, int largestMessage);

/// What it means that gRPC found no way to the server, and said so in `text`.
Status unreachable(const std::string &text, bool usesTls);

} // namespace mlbridge::grpctransport

#endif
