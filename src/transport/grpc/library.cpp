// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/library.h"

#include "core/process.h"
#include "transport/transport.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

namespace mlbridge::grpctransport {

namespace {

std::atomic<uint64_t> owner{0}; ///< the process that started it

} // namespace

bool isForked() {
  const uint64_t process = owner.load();
  return process != 0 && process != processNumber();
}

Status startLibrary() {
  if (isForked())
    return Status(
        Code::InvalidArgument,
        "this process was forked off one that uses gRPC, which does not work there; start "
        "a new program instead, or use grpc: only after fork");
  static std::mutex mutex;
  static bool started = false;
  const std::lock_guard<std::mutex> lock(mutex);
  if (started)
    return Status();
  // One for each processor, as far as gRPC goes, and those for timers, names and callbacks.
  if (Status s = tryThreads(std::clamp(std::thread::hardware_concurrency(), 2U, 32U) + 8); !s)
    return s;
  const NoSignals guard;
  gpr_set_log_function([](gpr_log_func_args *) {});
  // Never shut down, so that threads may run until the process has ended.
  grpc_init();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  owner = processNumber();
  started = true;
  return Status();
}

Status tryThreads(size_t count) {
  const NoSignals guard;
  std::mutex held;
  std::vector<pthread_t> threads;
  const auto wait = [](void *mutex) -> void * {
    const std::lock_guard<std::mutex> lock(*static_cast<std::mutex *>(mutex));
    return nullptr;
  };
  int error = 0;
  {
    const std::lock_guard<std::mutex> lock(held);
    while (!error && threads.size() < count) {
      pthread_t thread{};
      error = ::pthread_create(&thread, nullptr, wait, &held);
      if (!error)
        threads.push_back(thread);
    }
  }
  for (const pthread_t thread : threads)
    ::pthread_join(thread, nullptr);
  if (error)
    return Status(Code::LimitExceeded, describeErrno("start the threads of gRPC", error));
  return Status();
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
