// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/channel.h"

#include "transport/grpc/library.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

namespace mlbridge::grpctransport {

namespace {

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
                  "no TLS connection; do the server's certificate, tls-ca and tls-name fit, and "
                  "does the server accept this certificate? (" +
                      text + ")");
  if (says("refused"))
    return Status(Code::Unavailable, "no server there (connection refused)");
  return Status(Code::Unavailable, text);
}

} // namespace mlbridge::grpctransport
