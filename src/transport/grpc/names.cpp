// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/names.h"

#include "core/descriptor.h"
#include "core/process.h"

#include <arpa/inet.h>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <netinet/in.h>
#include <set>
#include <system_error>
#include <thread>

namespace mlbridge::grpctransport {

namespace {

struct Free {
  void operator()(addrinfo *info) const { ::freeaddrinfo(info); }
};

struct LookUp {
  std::mutex mutex;
  std::condition_variable ended;
  bool isDone = false;
  int error = 0;
  std::unique_ptr<addrinfo, Free> found;
};

void run(const std::shared_ptr<LookUp> &state, const std::string &host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo *found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  const std::lock_guard<std::mutex> lock(state->mutex);
  state->error = error;
  state->found.reset(found);
  state->isDone = true;
  state->ended.notify_all();
}

std::string textOf(const sockaddr &address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in &>(address).sin_addr, text,
                sizeof text);
  else if (address.sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr, text,
                sizeof text);
  return text;
}

} // namespace

Expected<std::vector<Address>> addressesOf(const Address &name, Deadline deadline) {
  const auto state = std::make_shared<LookUp>();
  try {
    const NoSignals guard;
    std::thread([state, host = name.host] { run(state, host); }).detach();
  } catch (const std::system_error &error) {
    return Status(Code::LimitExceeded, describeErrno("start a thread", error.code().value()));
  }
  std::unique_lock<std::mutex> lock(state->mutex);
  const auto isDone = [&] { return state->isDone; };
  if (deadline.isNever())
    state->ended.wait(lock, isDone);
  else if (!state->ended.wait_until(lock, deadline.when(), isDone))
    return Status(Code::DeadlineExceeded, "looking up '" + name.host + "' took too long");
  if (state->error)
    return Status(Code::Unavailable,
                  "'" + name.host + "' has no address: " + ::gai_strerror(state->error));
  std::vector<Address> addresses;
  for (const addrinfo *info = state->found.get(); info; info = info->ai_next)
    if (std::string text = textOf(*info->ai_addr); !text.empty())
      addresses.push_back(
          {std::move(text), name.port, info->ai_family == AF_INET, info->ai_family == AF_INET6});
  return addresses;
}

uint32_t serversOf(const std::vector<Address> &all, Deadline deadline) {
  std::set<std::string> places;
  uint32_t unknown = 0;
  for (const Address &address : all) {
    if (!address.isName()) {
      places.insert(address.place());
      continue;
    }
    Expected<std::vector<Address>> found = Status(Code::DeadlineExceeded, "");
    if (!deadline.hasPassed())
      found = addressesOf(address, deadline);
    if (!found)
      unknown += ServersOfName;
    else
      for (const Address &one : *found)
        places.insert(one.place());
  }
  return std::min(static_cast<uint32_t>(places.size()) + unknown, MostServers);
}

uint32_t serversAt(std::string_view place, Deadline deadline) {
  const Expected<std::vector<Address>> all = readPlace(place, Side::Compiler);
  return all ? serversOf(*all, deadline) : 1;
}

} // namespace mlbridge::grpctransport
