// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/library.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <atomic>
#include <mutex>
#include <unistd.h>

namespace mlbridge::grpctransport {

namespace {

std::atomic<pid_t> owner{0};

} // namespace

bool isForked() {
  const pid_t process = owner.load();
  return process != 0 && process != ::getpid();
}

Status startLibrary() {
  if (isForked())
    return Status(
        Code::InvalidArgument,
        "this process was forked off one that uses gRPC, which does not work there; start "
        "a new program instead, or use grpc: only after fork");
  static std::once_flag once;
  std::call_once(once, [] {
    const NoSignals guard;
    gpr_set_log_function([](gpr_log_func_args *) {});
    // Never shut down, so that threads may run until the process has ended.
    grpc_init();
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    owner = ::getpid();
  });
  return Status::ok();
}

gpr_timespec timeOf(Deadline deadline) {
  if (deadline.isNever())
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const Duration left = deadline.left();
  if (left <= Duration::zero())
    return gpr_inf_past(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

} // namespace mlbridge::grpctransport
