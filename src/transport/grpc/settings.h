// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The place and the options of a grpc: URI.
#ifndef MLBRIDGE_TRANSPORT_GRPC_SETTINGS_H
#define MLBRIDGE_TRANSPORT_GRPC_SETTINGS_H

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>
#include <mlbridge/uri.h>

namespace mlbridge::grpctransport {

enum class Side : uint8_t { Compiler, Server };

struct Settings {
  std::string host; ///< without the brackets of an IPv6 address; "localhost" is 127.0.0.1
  uint16_t port = 0;
  bool isIpv4 = false, isIpv6 = false; ///< the host is such an address, otherwise a name
  bool tls = false;
  std::string authorities, certificate, key; ///< PEM
  std::string tlsName;                       ///< the server's name in its certificate, if another
  std::string token;
  Duration keepAlive = Duration::zero(); ///< between pings; 0: gRPC's own
};

/// True if the transport has this option.
bool isOption(std::string_view key);

/// Reads the files too. Errors: InvalidArgument, among them plain text that would leave this
/// machine; NotFound (a file).
Expected<Settings> readSettings(const Uri &uri, Side side);

/// "HOST:PORT", with brackets around an IPv6 address.
std::string placeOf(const Settings &settings, uint16_t port);

} // namespace mlbridge::grpctransport

#endif
