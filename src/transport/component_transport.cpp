// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transports of components, behind their table of C functions.
#include "transport/component_transport.h"

#include "core/component.h"
#include "core/component_values.h"
#include "core/registry.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {

namespace {

/// The table with null where the component has none of the later functions.
mlb_transport complete(const mlb_transport &table) {
  mlb_transport whole{};
  std::memcpy(&whole, &table, std::min<uint64_t>(table.size, sizeof whole));
  return whole;
}

constexpr int MostParts = 16;

uint64_t timeLeft(Deadline deadline) {
  return deadline.isNever() ? MLB_NO_DEADLINE : static_cast<uint64_t>(deadline.left().count());
}

class ComponentChannel final : public Channel {
public:
  ComponentChannel(const mlb_transport &table, void *connection, bool waits)
      : table_(table), connection_(connection), waits_(waits) {}
  ~ComponentChannel() override { table_.close(connection_); }

  Expected<size_t> read(uint8_t *to, size_t size) override {
    ComponentError error;
    uint64_t done = 0;
    if (const mlb_code code = table_.read(connection_, to, size, &done, error.get()))
      return error.status(code, "read");
    return static_cast<size_t>(std::min<uint64_t>(done, size));
  }
  Expected<size_t> write(const iovec *parts, int count) override {
    if (table_.write_parts)
      return writeParts(parts, std::min(count, MostParts));
    size_t total = 0;
    for (int i = 0; i < count; ++i) {
      ComponentError error;
      uint64_t done = 0;
      if (const mlb_code code =
              table_.write(connection_, static_cast<const uint8_t *>(parts[i].iov_base),
                           parts[i].iov_len, &done, error.get()))
        return error.status(code, "write");
      total += std::min<uint64_t>(done, parts[i].iov_len);
      if (done < parts[i].iov_len)
        break;
    }
    return total;
  }
  int readDescriptor() const override { return table_.read_descriptor(connection_); }
  int writeDescriptor() const override { return table_.write_descriptor(connection_); }

  Expected<Readiness> wait(Readiness wanted, Deadline deadline) override {
    if (!waits_)
      return Channel::wait(wanted, deadline);
    ComponentError error;
    uint32_t ready = 0;
    const uint32_t directions = (wanted.read ? MLB_READ : 0) | (wanted.write ? MLB_WRITE : 0);
    if (const mlb_code code =
            table_.wait(connection_, directions, timeLeft(deadline), &ready, error.get()))
      return error.status(code, "wait");
    return Readiness{(ready & MLB_READ) != 0, (ready & MLB_WRITE) != 0};
  }

  std::string peer() const override {
    mlb_string peer{nullptr, 0};
    if (table_.peer)
      table_.peer(connection_, &peer);
    return std::string(fromComponent(peer));
  }

private:
  Expected<size_t> writeParts(const iovec *parts, int count) {
    mlb_bytes bytes[MostParts];
    uint64_t size = 0, done = 0;
    for (int i = 0; i < count; ++i) {
      bytes[i] = {static_cast<const uint8_t *>(parts[i].iov_base), parts[i].iov_len};
      size += parts[i].iov_len;
    }
    ComponentError error;
    if (const mlb_code code = table_.write_parts(connection_, bytes, static_cast<uint64_t>(count),
                                                 &done, error.get()))
      return error.status(code, "write");
    return static_cast<size_t>(std::min(done, size));
  }

  const mlb_transport &table_;
  void *connection_;
  const bool waits_; ///< by the component's own function
};

class ComponentListener final : public Listener {
public:
  ComponentListener(const mlb_transport &table, void *listener)
      : table_(table), listener_(listener) {}
  ~ComponentListener() override { table_.stop_listening(listener_); }

  Expected<std::unique_ptr<Channel>> accept() override {
    ComponentError error;
    void *connection = nullptr;
    if (const mlb_code code = table_.accept(listener_, &connection, error.get()))
      return error.status(code, "accept");
    if (!connection)
      return std::unique_ptr<Channel>();
    return std::unique_ptr<Channel>(new ComponentChannel(table_, connection, false));
  }
  int descriptor() const override { return table_.listener_descriptor(listener_); }
  std::string place() const override {
    mlb_string place{nullptr, 0};
    if (table_.place)
      table_.place(listener_, &place);
    return std::string(fromComponent(place));
  }
  bool isDriven() const override { return table_.drive && table_.interrupt; }
  void drive(Deadline deadline) override { table_.drive(listener_, timeLeft(deadline)); }
  void interrupt() override { table_.interrupt(listener_); }
  void drain() override {
    if (table_.drain)
      table_.drain(listener_);
  }

private:
  const mlb_transport &table_;
  void *listener_;
};

class ComponentCaller final : public Caller {
public:
  ComponentCaller(const mlb_transport &table, void *connection, std::string scheme)
      : table_(table), connection_(connection), scheme_(std::move(scheme)) {}
  ~ComponentCaller() override { table_.close(connection_); }

  Status call(const std::string &method, Span<const uint8_t> request, Deadline deadline,
              Buffer &reply) override {
    reply.clear();
    ComponentError error;
    BufferTail tail(reply);
    const mlb_code code = table_.call(connection_, toComponent(method), request.data(),
                                      request.size(), timeLeft(deadline), &tail, error.get());
    const Status end = tail.finish();
    return code ? error.status(code, scheme_) : end;
  }

private:
  const mlb_transport &table_;
  void *connection_;
  const std::string scheme_;
};

class ComponentTransport final : public Transport {
public:
  explicit ComponentTransport(const mlb_transport &table) : table_(complete(table)) {}

  Expected<std::unique_ptr<Channel>> connect(const Uri &uri, Deadline deadline) const override {
    Expected<void *> connection = reach(uri, deadline);
    if (!connection)
      return connection.status();
    return std::unique_ptr<Channel>(
        new ComponentChannel(table_, *connection, table_.wait != nullptr));
  }
  Expected<std::unique_ptr<Caller>> caller(const Uri &uri, Deadline deadline) const override {
    if (!table_.call)
      return Transport::caller(uri, deadline);
    Expected<void *> connection = reach(uri, deadline);
    if (!connection)
      return connection.status();
    return std::unique_ptr<Caller>(new ComponentCaller(table_, *connection, uri.scheme));
  }
  Expected<std::unique_ptr<Listener>> listen(const Uri &uri) const override {
    const std::vector<mlb_option> options = toComponent(uri.options);
    ComponentError error;
    void *listener = nullptr;
    if (const mlb_code code = table_.listen(toComponent(uri.place), options.data(), options.size(),
                                            &listener, error.get()))
      return error.status(code, uri.scheme);
    return std::unique_ptr<Listener>(new ComponentListener(table_, listener));
  }
  bool understands(std::string_view option) const override {
    return !table_.understands || table_.understands(toComponent(option)) != 0;
  }
  uint32_t servers(const Uri &uri) const override { return servers(uri, 0); }
  uint32_t countServers(const Uri &uri, Deadline deadline) const override {
    return servers(uri, timeLeft(deadline));
  }

private:
  uint32_t servers(const Uri &uri, uint64_t left) const {
    return table_.servers ? std::max<uint32_t>(table_.servers(toComponent(uri.place), left), 1) : 1;
  }
  Expected<void *> reach(const Uri &uri, Deadline deadline) const {
    const std::vector<mlb_option> options = toComponent(uri.options);
    ComponentError error;
    void *connection = nullptr;
    if (const mlb_code code = table_.connect(toComponent(uri.place), options.data(), options.size(),
                                             timeLeft(deadline), &connection, error.get()))
      return error.status(code, uri.scheme);
    return connection;
  }

  const mlb_transport table_;
};

} // namespace

Expected<const Transport *> componentTransport(std::string_view scheme) {
  static auto &opened = *new Registry<std::shared_ptr<const Transport>>;
  if (const auto known = opened.find(scheme))
    return known->get();
  Expected<const mlb_component *> component = findComponent(ComponentKind::Transport, scheme);
  if (!component)
    return component.status();
  return opened.findOrAdd(scheme, std::make_shared<ComponentTransport>(*(*component)->transport))
      .get();
}

} // namespace mlbridge
