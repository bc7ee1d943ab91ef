// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The server's input and output: one epoll set, worked by the thread that serves while it waits,
// and by a helper thread while a policy takes long. And what a server and the events that it gave
// out share.
#ifndef MLBRIDGE_SERVER_LOOP_H
#define MLBRIDGE_SERVER_LOOP_H

#include "server/session.h"
#include "transport/handover.h"
#include "transport/transport.h"

#include <atomic>
#include <pthread.h>

namespace mlbridge {

/// A request goes from the socket to the policy without a change of thread: the serving thread
/// itself reads when it has nothing to do. So that handshakes, pings and cancellations are not kept
/// waiting by a slow policy, a helper thread takes over once a policy runs longer than HelpAfter.
class ServerLoop {
public:
  explicit ServerLoop(SessionHost &host) : host_(host) {}
  ~ServerLoop();

  Status start(std::unique_ptr<Listener> listener);

  enum class Outcome : uint8_t { Progress, Woken, Interrupted, TimedOut };
  /// Waits for input or output and handles it. Takes the host's mutex.
  Outcome wait(Deadline deadline);

  /// A request goes to the policy.
  void requestBegins(Deadline::Clock::time_point now) {
    handover_.waited(now);
    policyBegins(now);
  }
  /// The serving thread is about to do something else than wait.
  void policyBegins(Deadline::Clock::time_point now);
  void policyEnds() {
    if (!driven_)
      return policySince_.store(0, std::memory_order_release);
    policySince_.store(0);
    if (helperDrives_.load())
      listener_->interrupt();
  }

  /// With the host's mutex held: whether somebody who is connected may ask now, and is likely to.
  enum class Others : uint8_t { None, Able, Awaited };
  Others others() const;
  /// The same: a batch goes to the policy without those who were awaited.
  void recordBatchTimeout();
  /// Handles the input that is there. Takes the host's mutex.
  Outcome poll() { return turn(0); }

  /// With the host's mutex held: after something was sent, waits for what is unsent, or forgets the
  /// session if that failed.
  void update(Session &session);

  /// With the host's mutex held: ends the connections that may leave. True once nothing is left to
  /// do for anybody.
  bool drain();
  /// Ends all: says goodbye, closes the listener. Later calls do nothing.
  void close();

  int wakeDescriptor() const { return wakeWrite_.get(); }
  void wake() const;

private:
  static constexpr uint64_t ListenerToken = 0;
  static constexpr uint64_t WakeToken = UINT64_MAX;
  static constexpr uint64_t NudgeToken = UINT64_MAX - 1;
  static constexpr uint64_t WriterBit = uint64_t(1) << 63;
  static constexpr Duration ListenAgainAfter = std::chrono::milliseconds(100);
  /// After so many turns that found something without polling all, the others get theirs.
  static constexpr int TurnsWithoutWait = 16;
  /// Sessions that are awake, or the only one, are looked at so many times for each poll of all.
  static constexpr int LooksWithoutWait = 8;
  static constexpr Duration HelpAfter = std::chrono::milliseconds(5);
  static constexpr int MostAccepted = 16; ///< in one turn
  static constexpr size_t MostStrangers = 256;

  /// `timeout` as of epoll_wait.
  Outcome turn(int timeout);
  /// Handles what the sessions that are awake have; those that have nothing fall asleep if so
  /// wanted. Whether there was something. Takes the host's mutex.
  bool attend(bool toSleep);
  /// Reads what the only session has, without asking whether there is something. Whether there was.
  /// Takes the host's mutex.
  bool readAlone();
  void countSessions();
  /// Counts turns that found something without polling all; false when it is the others' turn.
  bool mayGoOn() {
    return turnsWithoutWait_.fetch_add(1, std::memory_order_relaxed) + 1 < TurnsWithoutWait;
  }
  void read(const std::shared_ptr<Session> &session, size_t ofMany);
  Expected<std::unique_ptr<Channel>> acceptOne();
  void acceptSome();
  void keepSpare();
  /// Closes those that have not shaken hands in time, and whoever keeps most if all keep too much.
  void enforce();
  /// How long enforce has nothing to do, in milliseconds; -1 for ever. Takes the host's mutex.
  int quietTime(int most);
  bool isStranger(uint64_t number) const;
  void forget(uint64_t number);
  void drop(Session &session);
  void listenAgain();
  void help();
  void armHelp(Duration after);
  bool watch(int operation, int fd, uint32_t events, uint64_t token);

  SessionHost &host_;
  std::unique_ptr<Listener> listener_;
  bool driven_ = false; ///< the listener is
  bool listening_ = false;
  Deadline::Clock::time_point notListeningSince_;
  /// Kept for a compiler that comes when there is no descriptor left, so that it is told. A pipe
  /// takes two.
  Descriptor spare_[2];
  Descriptor epoll_, wakeRead_, wakeWrite_, nudge_, timer_, quit_;
  /// Has an event once whenever wakeRead_ gets a byte: signal handlers can write, but not interrupt
  /// a listener. Only for a listener that is driven.
  Descriptor wakes_;
  std::map<uint64_t, std::shared_ptr<Session>> sessions_;
  /// Sessions whose channels are quiet and have not said that they sleep: those read lately.
  std::vector<std::shared_ptr<Session>> awake_, ready_;
  std::atomic<bool> anyAwake_{false};
  /// There is one session, whose channel isn't quiet: reading at once takes a system call less.
  std::atomic<bool> isAlone_{false};
  /// Sessions whose turn ended before all was handled.
  std::vector<std::shared_ptr<Session>> cut_;
  bool moreToAccept_ = false;
  std::atomic<bool> hasMore_{false}; ///< one of both
  uint64_t turnNumber_ = 0;
  /// Sessions that may not have shaken hands yet, and since when they are there.
  std::deque<std::pair<Deadline::Clock::time_point, uint64_t>> strangers_;
  std::atomic<bool> hasStrangers_{false};
  std::atomic<int> turnsWithoutWait_{0};
  uint64_t lastSession_ = 0;
  Handover handover_;                   ///< the serving thread's
  std::atomic<int64_t> policySince_{0}; ///< 0 = no policy runs
  std::atomic<bool> helpArmed_{false};
  std::atomic<bool> helperDrives_{false};
  pthread_t helper_{};
  bool hasHelper_ = false;
};

struct Server::State : SessionHost {
  std::unique_ptr<Event::State> takeNext(Deadline::Clock::time_point now);

  std::string uri;
  std::atomic<bool> stopped{false};
  std::atomic<int64_t> drainUntil{0}; ///< on the clock of Deadline, in nanoseconds; 0: not draining
  std::unique_ptr<Event::State> spareEvent; ///< guarded by the mutex
  Deadline::Clock::time_point batchBegan;   ///< when the last event was given out by next()
  ServerLoop loop{*this};                   // last: its end says goodbye with the rest still there
};

struct Event::State : TensorSink {
  std::shared_ptr<Server::State> server;
  QueuedEvent event;
  std::unique_ptr<OutputStorage> outputs;
  uint64_t step = 0; ///< requests answered in this episode before
  bool open = false; ///< a request that has not been answered
  bool done = false; ///< the answer ends the episode
  bool truncated = false;
  TurnMessage turn; ///< of an environment with several agents
  /// The stream that the observation is for, if not that of the agent that acted.
  std::shared_ptr<ServerStream> answering;

  ServerStream &stream() const { return *event.stream; }
  ServerStream &target() const { return answering ? *answering : *event.stream; }
  bool isDriven() const { return event.kind == EventKind::Reset || event.kind == EventKind::Step; }
  bool hasAgents() const { return !server->options.agents.empty(); }

  Status takeIn();
  Status takeInFromMemory();
  Status keepHeld();
  Status prepareOutputs();
  Status chargeOutputs(uint64_t bytes);
  Status tooLarge(const std::string &what, uint64_t bytes) const;
  Expected<TensorView> prepare(size_t index, Span<const int64_t> shape) override;
  bool adopt(size_t index, Span<const int64_t> shape, const uint8_t *data) override;
  void place(size_t index, Span<const int64_t> shape, void *data, size_t count);
  Status encodeOutputs();
  Status answer(Status (*send)(State &));
  Status sendTurn();
  void endEpisode();
  void release();
};

} // namespace mlbridge

#endif
