// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stands between a compiler and a server, on any transport, and does one kind of harm.
#ifndef MLBRIDGE_TESTS_FAULTS_PROXY_H
#define MLBRIDGE_TESTS_FAULTS_PROXY_H

#include "conversation/frame.h"
#include "transport/transport.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mlbridge::faults {

enum class Kind : uint8_t {
  None,
  Cut,       ///< the connection ends at a byte
  Stall,     ///< nothing more is passed on after a byte
  Split,     ///< the bytes before and after arrive apart
  Drop,      ///< a frame is left out
  Duplicate, ///< a frame comes twice
  Swap,      ///< a frame comes after the next one
  Header,    ///< a byte of a frame's header is another
};
const char *name(Kind kind);

enum Direction : uint8_t { ToServer = 0, ToCompiler = 1 };

struct Fault {
  Kind kind = Kind::None;
  Direction direction = ToServer;
  size_t offset = 0; ///< of Cut, Stall, Split: in the stream; of Header: in the frame
  size_t frame = 0;  ///< of Drop, Duplicate, Swap, Header: number in its direction, from 0
  uint8_t mask = 0;  ///< of Header
};

/// What passed in one direction of the first connection after arm().
struct Seen {
  uint64_t bytes = 0, frames = 0;
};

/// One connection at a time gets the fault, those after it pass unharmed.
class Proxy {
public:
  /// Errors: those of listening.
  static Expected<std::unique_ptr<Proxy>> start(const std::string &listenAt,
                                                const std::string &serverAt);
  ~Proxy();
  const std::string &address() const { return address_; }

  /// The next connection gets this fault.
  void arm(const Fault &fault);
  /// Whether the fault took effect. What passed is complete once the compiler has gone.
  bool wasApplied() const { return applied_; }
  std::array<Seen, 2> seen();
  /// Waits until no connection is left.
  void drain();

private:
  Proxy() = default;
  struct Relay;
  void run();
  void relay(std::unique_ptr<Channel> compiler, const Fault &fault, bool counted);

  std::string address_;
  Uri server_;
  std::unique_ptr<Listener> listener_;
  std::mutex mutex_;
  Fault fault_;
  bool armed_ = false;
  std::array<Seen, 2> seen_{};
  std::atomic<bool> applied_{false}, stop_{false};
  std::atomic<int> live_{0};
  std::vector<std::thread> relays_;
  std::thread thread_;
  std::thread driver_;              ///< of a listener that is driven
  std::atomic<bool> driven_{false}; ///< enough
};

} // namespace mlbridge::faults

#endif
