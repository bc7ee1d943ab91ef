// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/library.h"

#include "core/resources.h"
#include "transport/grpc/names.h"
#include "transport/transport.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <random>
#include <thread>
#include <vector>

namespace mlbridge::grpctransport {

namespace {

std::atomic<uint64_t> owner{0}; ///< the process that started it

std::shared_ptr<grpc::ChannelCredentials> credentialsOf(const Settings &settings) {
  if (!settings.tls)
    return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = settings.authorities;
  options.pem_private_key = settings.key;
  options.pem_cert_chain = settings.certificate;
  return grpc::SslCredentials(options);
}

} // namespace

bool isForked() {
  const uint64_t process = owner.load();
  return process != 0 && process != processNumber();
}

namespace {

/// True if so many files can be opened now. Where gRPC can't have one for its own use, it closes
/// others, such as the compiler's output, or aborts.
Status tryDescriptors(size_t count) {
  std::vector<Descriptor> opened(count);
  for (Descriptor &one : opened) {
    one = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!one)
      return Status(Code::LimitExceeded, describeErrno("open the descriptors of gRPC", errno));
  }
  return Status();
}

// A thread has a stack of 8 MiB and, of the C library, a heap of 64 MiB; and the compiler needs
// some.
constexpr size_t MemoryOfThread = 72 << 20, MemoryOfCompiler = 64 << 20;

Status tryMemoryAndThreads(size_t threads) {
  if (Status s = Reserved(threads * MemoryOfThread + MemoryOfCompiler).status("gRPC"); !s)
    return s;
  return tryThreads(threads);
}

} // namespace

Status startLibrary() {
  if (isForked())
    return Status(Code::InvalidArgument,
                  "gRPC was used before fork() and does not work in the child process; start a new "
                  "program instead, or use grpc: only after fork()");
  static std::mutex mutex;
  static bool started = false;
  const std::lock_guard<std::mutex> lock(mutex);
  // A connection needs three; to start with, there are those of its pollers.
  if (Status s = tryDescriptors(started ? 4 : 10); !s)
    return s;
  // One for each processor, as far as gRPC goes, and those for timers, names and callbacks.
  const unsigned pool = std::clamp(std::thread::hardware_concurrency(), 2U, 32U) + 8;
  if (Status s = tryMemoryAndThreads(started ? 4 : pool); !s || started)
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

bool isFleet(const Settings &settings) {
  return settings.addresses.size() > 1 || settings.addresses.front().isName();
}

namespace {

// gRPC's own resolvers take one name or a list of addresses, so the names of a list are looked up
// here.
Expected<std::vector<Address>> lookUp(const std::vector<Address> &all, Deadline deadline) {
  std::vector<Address> found;
  std::string missing;
  for (const Address &address : all) {
    if (!address.isName()) {
      found.push_back(address);
      continue;
    }
    Expected<std::vector<Address>> ofName = addressesOf(address, deadline);
    if (ofName)
      found.insert(found.end(), ofName->begin(), ofName->end());
    else
      missing += (missing.empty() ? "" : "; ") + ofName.status().message();
  }
  if (found.empty())
    return Status(deadline.hasPassed() ? Code::DeadlineExceeded : Code::Unavailable, missing);
  return found;
}

/// For gRPC's resolvers of lists, which take either IPv4 or IPv6; an address of IPv4 can be written
/// as one of IPv6.
std::string targetOf(std::vector<Address> addresses) {
  // gRPC asks the first one that is ready, so not all compilers may have the same one in front.
  std::shuffle(addresses.begin(), addresses.end(), std::minstd_rand(std::random_device()()));
  const bool onlyIpv4 = std::all_of(addresses.begin(), addresses.end(),
                                    [](const Address &one) { return one.isIpv4; });
  // With the slash it is no server's address, which gRPC says of a call that it has given to one.
  std::string target = onlyIpv4 ? "ipv4:/" : "ipv6:/";
  for (Address &address : addresses) {
    if (!onlyIpv4 && address.isIpv4) {
      address.host = "::ffff:" + address.host;
      address.isIpv6 = true;
    }
    target += (target.back() == '/' ? "" : ",") + address.place();
  }
  return target;
}

} // namespace

Expected<std::shared_ptr<grpc::Channel>> channelOf(const Settings &settings, const ChannelUse &use,
                                                   Deadline deadline) {
  const Address &first = settings.addresses.front();
  std::string target = (first.isIpv4   ? "ipv4:"
                        : first.isIpv6 ? "ipv6:"
                                       : "dns:///") +
                       first.place();
  grpc::ChannelArguments arguments;
  if (isFleet(settings)) {
    std::string config = R"({"loadBalancingConfig":[{"round_robin":{}}],)"
                         R"("healthCheckConfig":{"serviceName":")";
    config.append(use.service).append("\"}");
    if (use.repeats)
      config += R"(,"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,)"
                R"("initialBackoff":"0.02s","maxBackoff":"1s","backoffMultiplier":2,)"
                R"("retryableStatusCodes":["UNAVAILABLE"]}}])";
    arguments.SetServiceConfigJSON(config + "}");
    arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  }
  if (settings.addresses.size() > 1) {
    Expected<std::vector<Address>> addresses = lookUp(settings.addresses, deadline);
    if (!addresses)
      return addresses.status();
    // What is looked up needs a descriptor each, and gRPC another one.
    if (Status s = tryDescriptors(2 * addresses->size() + 4); !s)
      return s;
    target = targetOf(std::move(*addresses));
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, first.place());
  }
  setCommonArguments(settings, [&](const char *name, int value) { arguments.SetInt(name, value); });
  // A connection of its own: no state of earlier attempts, no pause before the next.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, isFleet(settings) && use.repeats ? 1 : 0);
  // Whoever wants pauses makes them (?retries, the circuit breaker); 100 ms is gRPC's least.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetMaxReceiveMessageSize(use.largestMessage);
  if (!settings.tlsName.empty())
    arguments.SetSslTargetNameOverride(settings.tlsName);
  return grpc::CreateCustomChannel(target, credentialsOf(settings), arguments);
}

Status unreachable(const std::string &text, bool usesTls) {
  const auto says = [&](const char *part) { return text.find(part) != text.npos; };
  if (usesTls && (says("handshake") || says("ertificate") || says("Peer name")))
    return Status(Code::InvalidArgument,
                  "the TLS handshake failed; check that tls-ca and tls-name match the server's "
                  "certificate, and that the server accepts this certificate (" +
                      text + ")");
  if (says("refused"))
    return Status(Code::Unavailable, "no server there (connection refused)");
  return Status(Code::Unavailable, text);
}

} // namespace mlbridge::grpctransport
