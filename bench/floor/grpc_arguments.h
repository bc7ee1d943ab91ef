// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What both sides of the gRPC floor share: the method, and the settings with which a stream of
// bytes is fastest.
#ifndef MLBRIDGE_BENCH_FLOOR_GRPC_ARGUMENTS_H
#define MLBRIDGE_BENCH_FLOOR_GRPC_ARGUMENTS_H

#include <utility>

constexpr char FloorMethod[] = "/floor.Floor/Ask";

constexpr std::pair<const char *, int> FloorArguments[] = {
    {"grpc.http2.bdp_probe", 0},
    {"grpc.http2.lookahead_bytes", 4 << 20},
    {"grpc.http2.max_frame_size", 1 << 20},
    {"grpc.http2.write_buffer_size", 1 << 20},
};

#endif
