// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "proxy.h"

#include <deque>
#include <poll.h>

namespace mlbridge::faults {

using namespace std::chrono_literals;

namespace {
constexpr Duration Slice = 2ms;
constexpr Duration Apart = 200us;
} // namespace

const char *name(Kind kind) {
  constexpr const char *Names[] = {"none", "cut",       "stall", "split",
                                   "drop", "duplicate", "swap",  "header"};
  return Names[static_cast<size_t>(kind)];
}

/// One connection: a thread for each direction.
struct Proxy::Relay {
  Proxy &proxy;
  std::unique_ptr<Channel> ends[2]; ///< the compiler's, the server's
  const Fault fault;
  const bool counted;
  std::atomic<bool> over{false};

  bool send(Channel &to, const uint8_t *data, size_t size) {
    while (size && !over && !proxy.stop_) {
      const iovec part{const_cast<uint8_t *>(data), size};
      Expected<size_t> taken = to.write(&part, 1);
      if (!taken)
        return false;
      data += *taken;
      size -= *taken;
      if (*taken == 0)
        (void)to.wait({false, true}, Deadline::after(Slice));
    }
    return size == 0;
  }

  void pass(Direction direction);
};

namespace {

/// Applies a fault to the bytes of one direction.
class Harm {
public:
  Harm(const Fault &fault, bool mine) : fault_(mine ? fault : Fault()) {}

  bool isFramed() const { return fault_.kind >= Kind::Drop; }
  const Fault &fault() const { return fault_; }

  Seen seen;
  bool applied = false;
  bool stalled = false;

  /// Whole frames out of what came; what is incomplete stays.
  std::deque<std::vector<uint8_t>> frames(const uint8_t *data, size_t size) {
    buffer_.insert(buffer_.end(), data, data + size);
    std::deque<std::vector<uint8_t>> whole;
    while (buffer_.size() >= FrameHeaderSize) {
      const Expected<FrameHeader> header = decodeFrameHeader(buffer_.data());
      const size_t length = header ? FrameHeaderSize + header->length : buffer_.size();
      if (buffer_.size() < length)
        break;
      harm(std::vector<uint8_t>(buffer_.begin(), buffer_.begin() + static_cast<long>(length)),
           whole);
      buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<long>(length));
    }
    return whole;
  }

private:
  void harm(std::vector<uint8_t> frame, std::deque<std::vector<uint8_t>> &out) {
    const bool mine = seen.frames++ == fault_.frame;
    if (!held_.empty()) { // Swap
      out.push_back(std::move(frame));
      out.push_back(std::move(held_));
      held_.clear();
      applied = true;
      return;
    }
    if (!mine || fault_.kind == Kind::None || fault_.kind < Kind::Drop) {
      out.push_back(std::move(frame));
      return;
    }
    switch (fault_.kind) {
    case Kind::Drop:
      applied = true;
      return;
    case Kind::Duplicate:
      applied = true;
      out.push_back(frame);
      out.push_back(std::move(frame));
      return;
    case Kind::Swap:
      held_ = std::move(frame);
      applied = true; // kept back for ever, if no other follows
      return;
    default:
      frame[fault_.offset] ^= fault_.mask;
      applied = true;
      out.push_back(std::move(frame));
    }
  }

  const Fault fault_;
  std::vector<uint8_t> buffer_, held_;
};

} // namespace

void Proxy::Relay::pass(Direction direction) {
  Channel &from = *ends[direction == ToServer ? 0 : 1];
  Channel &to = *ends[direction == ToServer ? 1 : 0];
  Harm harm(fault, fault.direction == direction);
  const bool recording = fault.kind == Kind::None;
  std::vector<uint8_t> bytes(64 * 1024);
  while (!over && !proxy.stop_) {
    Expected<size_t> n = from.read(bytes.data(), bytes.size());
    if (!n)
      break;
    if (*n == 0) {
      (void)from.wait({true, false}, Deadline::after(Slice));
      continue;
    }
    if (harm.stalled)
      continue;
    const uint64_t before = harm.seen.bytes;
    harm.seen.bytes += *n;
    if (harm.isFramed() || recording) {
      bool sent = true;
      for (const std::vector<uint8_t> &frame : harm.frames(bytes.data(), *n))
        sent = sent && send(to, frame.data(), frame.size());
      if (harm.applied)
        proxy.applied_ = true;
      if (!sent)
        break;
      continue;
    }
    const uint64_t at = harm.fault().offset;
    const bool here = harm.fault().kind != Kind::None && at >= before && at < before + *n;
    const size_t first = here ? static_cast<size_t>(at - before) : *n;
    if (!send(to, bytes.data(), first))
      break;
    if (!here)
      continue;
    proxy.applied_ = true;
    if (harm.fault().kind == Kind::Cut)
      break;
    if (harm.fault().kind == Kind::Stall) {
      harm.stalled = true;
      continue;
    }
    ::timespec apart{0, std::chrono::nanoseconds(Apart).count()};
    ::nanosleep(&apart, nullptr);
    if (!send(to, bytes.data() + first, *n - first))
      break;
  }
  over = true;
  if (counted) {
    const std::lock_guard<std::mutex> lock(proxy.mutex_);
    proxy.seen_[direction] = harm.seen;
  }
}

Expected<std::unique_ptr<Proxy>> Proxy::start(const std::string &listenAt,
                                              const std::string &serverAt) {
  Expected<Uri> at = Uri::parse(listenAt);
  Expected<Uri> server = Uri::parse(serverAt);
  if (!at || !server)
    return at ? server.status() : at.status();
  Expected<const Transport *> transport = transportFor(at->scheme);
  if (!transport)
    return transport.status();
  Expected<std::unique_ptr<Listener>> listener = (*transport)->listen(*at);
  if (!listener)
    return listener.status();
  std::unique_ptr<Proxy> proxy(new Proxy());
  const std::string place = (*listener)->place();
  proxy->address_ = place.empty() ? listenAt : at->scheme + ":" + place;
  proxy->server_ = *server;
  proxy->listener_ = std::move(*listener);
  proxy->thread_ = std::thread([p = proxy.get()] { p->run(); });
  if (proxy->listener_->isDriven())
    proxy->driver_ = std::thread([p = proxy.get()] {
      while (!p->driven_)
        p->listener_->drive(Deadline::never());
    });
  return proxy;
}

Proxy::~Proxy() {
  stop_ = true;
  if (thread_.joinable())
    thread_.join();
  for (std::thread &relay : relays_)
    relay.join();
  if (driver_.joinable()) { // until the relays have closed their ends
    driven_ = true;
    listener_->interrupt();
    driver_.join();
  }
}

void Proxy::arm(const Fault &fault) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fault_ = fault;
  armed_ = true;
  applied_ = false;
  seen_ = {};
}

std::array<Seen, 2> Proxy::seen() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return seen_;
}

void Proxy::drain() {
  while (live_ != 0)
    std::this_thread::yield();
}

void Proxy::run() {
  while (!stop_) {
    Expected<std::unique_ptr<Channel>> compiler = listener_->accept();
    if (!compiler || !*compiler) {
      pollfd fd{listener_->descriptor(), POLLIN, 0};
      ::poll(&fd, 1, 20);
      continue;
    }
    Fault fault;
    bool counted;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      counted = armed_;
      if (armed_)
        fault = fault_;
      armed_ = false;
    }
    ++live_;
    // Those that have ended are joined by the next.
    if (live_ == 1) {
      for (std::thread &relay : relays_)
        relay.join();
      relays_.clear();
    }
    relays_.emplace_back([this, channel = std::move(*compiler), fault, counted]() mutable {
      relay(std::move(channel), fault, counted);
      --live_;
    });
  }
}

void Proxy::relay(std::unique_ptr<Channel> compiler, const Fault &fault, bool counted) {
  Expected<const Transport *> transport = transportFor(server_.scheme);
  if (!transport)
    return;
  Expected<std::unique_ptr<Channel>> server = (*transport)->connect(server_, Deadline::after(10s));
  if (!server)
    return;
  Relay both{*this, {std::move(compiler), std::move(*server)}, fault, counted};
  std::thread back([&] { both.pass(ToCompiler); });
  both.pass(ToServer);
  back.join();
}

} // namespace mlbridge::faults
