// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The place and the options of a grpc: URI.
#ifndef MLBRIDGE_TRANSPORT_GRPC_SETTINGS_H
#define MLBRIDGE_TRANSPORT_GRPC_SETTINGS_H

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>
#include <mlbridge/uri.h>

#include <vector>

namespace mlbridge::grpctransport {

enum class Side : uint8_t { Compiler, Server };

struct Address {
  std::string host; ///< without the brackets of an IPv6 address; "localhost" is 127.0.0.1
  uint16_t port = 0;
  bool isIpv4 = false, isIpv6 = false; ///< the host is such an address, otherwise a name

  bool isName() const { return !isIpv4 && !isIpv6; }
  bool isLoopback() const;
  /// "HOST:PORT", with brackets around an IPv6 address.
  std::string place() const { return placeAt(port); }
  std::string placeAt(uint16_t otherPort) const;
};

struct Settings {
  std::vector<Address> addresses; ///< at least one; a server has one
  bool tls = false;
  std::string authorities, certificate, key; ///< PEM
  std::string tlsName; ///< the server's name in its certificate, if another; of a list always
  std::string token;
  Duration keepAlive = Duration::zero(); ///< between pings; 0: gRPC's own
};

/// True if the transport has this option.
bool isOption(std::string_view key);

/// Reads the files too. Errors: InvalidArgument, among them plain text that would leave this
/// machine; NotFound (a file).
Expected<Settings> readSettings(const Uri &uri, Side side);

/// The most servers of a list, and those that a name is thought to have before it is looked up.
inline constexpr uint32_t MostServers = 64, ServersOfName = 8;
/// "HOST:PORT,HOST:PORT" as it stands in a URI. Errors: InvalidArgument.
Expected<std::vector<Address>> readPlace(std::string_view place, Side side);

} // namespace mlbridge::grpctransport

#endif
