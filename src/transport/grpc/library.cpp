// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/library.h"

#include "core/resources.h"
#include "transport/transport.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <mutex>
#include <pthread.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

namespace mlbridge::grpctransport {

namespace {

constexpr std::string_view Options[] = {"insecure", "keepalive", "tls-ca",    "tls-cert",
                                        "tls-key",  "tls-name",  "token-file"};
constexpr size_t LargestFile = 1 << 20, LargestToken = 8 << 10;
// A compiler at work looks at its idle connections only every few seconds.
constexpr Duration ShortestKeepAlive = std::chrono::seconds(10);

Status wrong(const std::string &what) { return Status(Code::InvalidArgument, what); }

Expected<std::string> readFile(const std::string &option, const std::string &path) {
  std::string where = "option '";
  where.append(option).append("': ").append(path);
  const auto failed = [&] {
    return Status(errno == ENOENT ? Code::NotFound : Code::InvalidArgument,
                  describeErrno(where, errno));
  };
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0)
    return failed();
  if (!S_ISREG(info.st_mode)) // opening others may block
    return wrong(where + " is not a file");
  if (static_cast<uint64_t>(info.st_size) > LargestFile)
    return wrong(where + " has more than " + std::to_string(LargestFile) + " bytes");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return failed();
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Expected<std::string> readToken(const std::string &path) {
  Expected<std::string> text = readFile("token-file", path);
  if (!text)
    return text;
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r' || text->back() == ' '))
    text->pop_back();
  const bool printable =
      std::all_of(text->begin(), text->end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (text->empty() || text->size() > LargestToken || !printable)
    return wrong("option 'token-file': " + path +
                 " must hold one token of printable ASCII without spaces");
  return text;
}

/// Splits "HOST:PORT" or "[HOST]:PORT".
Status readPlace(std::string_view place, Side side, Settings &to) {
  const auto malformed = [&](const std::string &what) {
    return wrong("'" + std::string(place.substr(0, 200)) + "': " + what +
                 "; expected grpc:HOST:PORT, for example grpc:localhost:50051");
  };
  if (place.substr(0, 2) == "//")
    place.remove_prefix(2);
  const size_t colon = place.rfind(':');
  if (colon == place.npos)
    return malformed("no port");
  std::string_view host = place.substr(0, colon);
  const std::string_view port = place.substr(colon + 1);
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (brackets)
    host = host.substr(1, host.size() - 2);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), to.port);
  if (error != std::errc() || end != port.data() + port.size())
    return malformed("'" + std::string(port) + "' is not a port");
  if (to.port == 0 && side == Side::Compiler)
    return malformed("port 0 is only for servers, which then choose a free port");
  to.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  in6_addr address;
  to.isIpv4 = !brackets && ::inet_pton(AF_INET, to.host.c_str(), &address) == 1;
  to.isIpv6 = brackets && ::inet_pton(AF_INET6, to.host.c_str(), &address) == 1;
  const bool isName =
      !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_';
      });
  if (!to.isIpv4 && !to.isIpv6 && (brackets || !isName))
    return malformed("'" + std::string(host) + "' is neither a name nor an address");
  return Status();
}

bool isLoopback(const Settings &settings) {
  return (settings.isIpv4 && settings.host.compare(0, 4, "127.") == 0) ||
         (settings.isIpv6 && settings.host == "::1");
}

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

bool isOption(std::string_view key) {
  return std::find(std::begin(Options), std::end(Options), key) != std::end(Options);
}

std::string placeOf(const Settings &settings, uint16_t port) {
  const std::string host = settings.isIpv6 ? "[" + settings.host + "]" : settings.host;
  return host + ":" + std::to_string(port);
}

Expected<Settings> readSettings(const Uri &uri, Side side) {
  Settings settings;
  if (Status s = readPlace(uri.place, side, settings); !s)
    return s;
  bool insecure = false;
  for (const auto &[key, value] : uri.options) {
    if (key == "insecure") {
      if (value != "yes" && value != "no")
        return wrong("option 'insecure': '" + value + "' is neither yes nor no");
      insecure = value == "yes";
    } else if (key == "keepalive") {
      Expected<Duration> duration = parseDuration(value);
      if (!duration)
        return duration.status().withContext("option 'keepalive'");
      if (*duration < ShortestKeepAlive || *duration > std::chrono::hours(24))
        return wrong("option 'keepalive': " + value + " is not between 10s and 24h");
      settings.keepAlive = *duration;
    } else if (key == "tls-name") {
      settings.tlsName = value;
    } else if (key == "token-file") {
      Expected<std::string> token = readToken(value);
      if (!token)
        return token.status();
      settings.token = std::move(*token);
    } else if (key == "tls-ca" || key == "tls-cert" || key == "tls-key") {
      Expected<std::string> text = readFile(key, value);
      if (!text)
        return text.status();
      if (text->find("-----BEGIN ") == text->npos)
        return wrong(std::string("option '")
                         .append(key)
                         .append("': ")
                         .append(value)
                         .append(" is not in PEM format"));
      settings.tls = true;
      (key == "tls-ca"     ? settings.authorities
       : key == "tls-cert" ? settings.certificate
                           : settings.key) = std::move(*text);
    }
  }
  if (settings.certificate.empty() != settings.key.empty())
    return wrong("options 'tls-cert' and 'tls-key' go together");
  if (settings.tls && side == Side::Server && settings.certificate.empty())
    return wrong("a server with TLS needs 'tls-cert' and 'tls-key'");
  if (settings.tls && side == Side::Compiler && settings.authorities.empty())
    return wrong("TLS needs 'tls-ca', a file of the certificate authorities to trust");
  if (!settings.tlsName.empty() && (!settings.tls || side == Side::Server))
    return wrong("option 'tls-name' is for a compiler that uses TLS");
  if (!settings.tls && !insecure && !isLoopback(settings))
    return wrong(settings.host +
                 " is not this machine's loopback address, and others could read and alter what is "
                 "sent there: use TLS (" +
                 (side == Side::Server ? "tls-cert=FILE, tls-key=FILE" : "tls-ca=FILE") +
                 "), or say insecure=yes if the network is trusted");
  return settings;
}

// ---- the library

bool isForked() {
  const uint64_t process = owner.load();
  return process != 0 && process != processNumber();
}

namespace {

/// Whether so many files can be opened now. Where gRPC can't have one for its own use, it closes
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

std::shared_ptr<grpc::Channel> channelOf(const Settings &settings, int largestMessage) {
  grpc::ChannelArguments arguments;
  setCommonArguments(settings, [&](const char *name, int value) { arguments.SetInt(name, value); });
  // A connection of its own: no state of earlier attempts, no pause before the next.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Whoever wants pauses makes them (?retries, the circuit breaker); 100 ms is gRPC's least.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetMaxReceiveMessageSize(largestMessage);
  if (!settings.tlsName.empty())
    arguments.SetSslTargetNameOverride(settings.tlsName);
  const char *scheme = settings.isIpv4 ? "ipv4:" : settings.isIpv6 ? "ipv6:" : "dns:///";
  return grpc::CreateCustomChannel(scheme + placeOf(settings, settings.port),
                                   credentialsOf(settings), arguments);
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
