// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/settings.h"

#include "core/descriptor.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

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
Status readAddress(std::string_view place, Side side, Address &to) {
  const auto malformed = [&](const std::string &what) {
    return wrong("'" + std::string(place.substr(0, 200)) + "': " + what +
                 "; expected grpc:HOST:PORT, for example grpc:localhost:50051");
  };
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
  if (char text[INET6_ADDRSTRLEN]; // the one way to write it
      to.isIpv6 && ::inet_ntop(AF_INET6, &address, text, sizeof text))
    to.host = text;
  const bool isName =
      !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_';
      });
  if (!to.isIpv4 && !to.isIpv6 && (brackets || !isName))
    return malformed("'" + std::string(host) + "' is neither a name nor an address");
  return Status();
}

std::string_view withoutSlashes(std::string_view place) {
  return place.substr(0, 2) == "//" ? place.substr(2) : place;
}

} // namespace

Expected<std::vector<Address>> readPlace(std::string_view place, Side side) {
  std::vector<Address> to;
  place = withoutSlashes(place);
  const auto malformed = [&](const std::string &what) {
    return wrong("'" + std::string(place.substr(0, 200)) + "': " + what);
  };
  for (size_t from = 0; from <= place.size();) {
    const size_t end = std::min(place.find(',', from), place.size());
    const std::string_view one = place.substr(from, end - from);
    if (one.empty() && place.find(',') != place.npos)
      return malformed("number " + std::to_string(to.size() + 1) +
                       " of the list of servers is empty; expected grpc:HOST:PORT,HOST:PORT");
    Address address;
    if (Status s = readAddress(one, side, address); !s)
      return s;
    for (const Address &other : to)
      if (other.place() == address.place())
        return malformed(std::string(one) + " is in the list of servers twice");
    to.push_back(std::move(address));
    from = end + 1;
  }
  if (to.size() > 1 && side == Side::Server)
    return malformed("a server listens at one address; a list is for compilers");
  if (to.size() > MostServers)
    return malformed("the list has " + std::to_string(to.size()) + " servers, the most is " +
                     std::to_string(MostServers));
  return to;
}

bool Address::isLoopback() const {
  return (isIpv4 && host.compare(0, 4, "127.") == 0) || (isIpv6 && host == "::1");
}

std::string Address::placeAt(uint16_t otherPort) const {
  return (isIpv6 ? "[" + host + "]" : host) + ":" + std::to_string(otherPort);
}

bool isOption(std::string_view key) {
  return std::find(std::begin(Options), std::end(Options), key) != std::end(Options);
}

Expected<Settings> readSettings(const Uri &uri, Side side) {
  Settings settings;
  Expected<std::vector<Address>> addresses = readPlace(uri.place, side);
  if (!addresses)
    return addresses.status();
  settings.addresses = std::move(*addresses);
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
  const std::vector<Address> &all = settings.addresses;
  if (settings.tls && all.size() > 1 && settings.tlsName.empty()) {
    // gRPC compares the certificates of all servers of a list with one name.
    if (std::any_of(all.begin(), all.end(),
                    [&](const Address &one) { return one.host != all.front().host; }))
      return wrong("TLS with several hosts needs 'tls-name', a name that the certificates of all "
                   "of them have");
    settings.tlsName = all.front().host;
  }
  const auto exposed =
      std::find_if(all.begin(), all.end(), [](const Address &one) { return !one.isLoopback(); });
  if (!settings.tls && !insecure && exposed != all.end())
    return wrong(exposed->host +
                 " is not this machine's loopback address, and others could read and alter what is "
                 "sent there: use TLS (" +
                 (side == Side::Server ? "tls-cert=FILE, tls-key=FILE" : "tls-ca=FILE") +
                 "), or say insecure=yes if the network is trusted");
  return settings;
}

} // namespace mlbridge::grpctransport
