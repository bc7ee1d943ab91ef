// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's end of a connection: handshake, and the streams of many threads over one channel
// without a thread of its own.
#ifndef MLBRIDGE_CONVERSATION_CONNECTION_H
#define MLBRIDGE_CONVERSATION_CONNECTION_H

#include "conversation/circuit.h"
#include "conversation/frame.h"
#include "conversation/messages.h"
#include "conversation/outbox.h"
#include "transport/handover.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

namespace mlbridge {

inline void waitFor(std::condition_variable &event, std::unique_lock<std::mutex> &lock,
                    Deadline deadline) {
  if (deadline.isNever())
    event.wait(lock);
  else
    event.wait_until(lock, deadline.when());
}

/// One stream's place for the answer it waits for. Owned by the Runner; registered while it is
/// open.
struct StreamSlot {
  uint32_t id = 0;
  uint64_t awaiting = 0; ///< request number, 0 = none
  bool answered = false;
  bool waiting = false; ///< on `wake`
  Status error;         ///< of the answer
  Status refused;       ///< of the stream as a whole
  Buffer reply;
  double reward = 0; ///< that came with it, from an environment
  bool done = false; ///< the answer ends the episode
  bool truncated = false;
  std::optional<TurnMessage> turn; ///< that came with it, from one with several agents
  Buffer last;                     ///< observation of an episode that has ended
  bool hasLast = false;
  std::condition_variable wake;
  std::atomic<uint64_t> dropped{0}; ///< posted events that the server will never get
};

/// Thread-safe. Whoever waits for an answer reads for all: one waiting thread at a time has the
/// reader's role and hands the others what is theirs; it passes the role on when its own answer is
/// there. What is marked cold isn't part of asking, and is compiled for size.
class Connection final : private FrameReader::Target {
public:
  struct Options {
    std::string serdes = "bitstream";
    uint64_t maxMessage = uint64_t(256) << 20;
    uint64_t maxWelcome = uint64_t(4) << 20; ///< what the server says of itself
    Duration wait{0};                        ///< how long to wait for a server that is starting
    ServerRole role = ServerRole::Model;     ///< another one is a Mismatch
    /// Another server is asked next, so that this one need not be waited for until the deadline.
    bool hasOthers = false;
  };
  /// Connects and shakes hands. Errors: those of the transport; Closed, Protocol (no such peer,
  /// another version), DeadlineExceeded, Busy, and what the server refuses with.
  /// `reached`: the connection to the server that was asked, also if it then failed. As long as it
  /// is kept, a transport with several servers knows which one was asked last.
  [[gnu::cold]] static Expected<std::shared_ptr<Connection>>
  open(const Transport &transport, const Uri &uri, const Options &options, Deadline deadline,
       std::shared_ptr<Connection> *reached = nullptr);

  const Welcome &welcome() const { return welcome_; }
  /// The address of the server, if the place stands for several.
  std::string server() const { return channel_->peer(); }
  /// Reads for so long what comes unasked; the transport may find other servers meanwhile.
  [[gnu::cold]] void idle(Duration time);
  bool isUsable() const { return usable_.load(std::memory_order_acquire); }
  /// Why it is not usable; Ok while it is.
  [[gnu::cold]] Status failure();

  /// The memory for large inputs; null if the transport has nothing of the kind.
  std::shared_ptr<Arena> arena() const { return channel_->arena(); }

  /// Registers a new stream, and appends the frame that opens it.
  [[gnu::cold]] Status openStream(StreamSlot &slot, const OpenStream &open, Outbox &frames);
  [[gnu::cold]] void removeStream(StreamSlot &slot);

  /// The most iovecs that one call of post or exchange sends.
  static constexpr int MaxParts = 12;
  /// Sends whole frames of a stream, and leaves none. Does not wait: what the server does not take
  /// now goes before the next message of any thread; of that, events are kept within Outbox's
  /// limits.
  [[gnu::cold]] Status post(StreamSlot &slot, Outbox &frames);
  /// Sends frames of which the last is request number `request`, and waits for its answer. After
  /// DeadlineExceeded a late answer is dropped, and frames that had begun to go out are finished by
  /// whoever sends next. `sent`: whether the frames went out, or will. `patience`: a server from
  /// which nothing comes for so long is asked whether it is there, and after as long again the
  /// connection ends.
  Status exchange(StreamSlot &slot, uint64_t request, const iovec *frames, int count,
                  Deadline deadline, bool &sent, Duration patience = Duration::max());

  /// The counts of the server so far.
  [[gnu::cold]] Expected<Metadata> statistics(Deadline deadline);

private:
  using Lock = std::unique_lock<std::mutex>;
  [[gnu::cold]] explicit Connection(std::unique_ptr<Channel> channel);

  [[gnu::cold]] Status shakeHands(const Options &options, Deadline deadline);
  Expected<Buffer *> payloadOf(const FrameHeader &header) override;
  Status frame(const FrameHeader &header) override;
  [[gnu::cold]] Status welcomeFrame(const FrameHeader &header);
  template <typename Use> void atStream(uint32_t id, const Use &use);
  [[gnu::cold]] Status rareFrame(const FrameHeader &header);
  void answer(const FrameHeader &header);
  [[gnu::cold]] void breakWith(const Status &why, Lock &lock);
  void passReaderRole(Lock &lock);
  Status pumpAs(Readiness wanted, Deadline deadline, Readiness &ready);
  Status checkProcess() const;
  Status send(const iovec *frames, int count, Lock &lock, Deadline deadline, bool &begun);
  [[gnu::cold]] Status write(const iovec *frames, int count, Expected<size_t> taken,
                             Deadline deadline, bool &begun);
  [[gnu::cold]] Status drain(Outbox &box, Lock &lock, Deadline deadline);
  bool hasUnsent() const { return !outboxes_.empty() || !partial_.empty(); }
  [[gnu::cold]] Status flush(Lock &lock, Deadline deadline);
  [[gnu::cold]] void flushNow(Lock &lock);
  [[gnu::cold]] Status awaitRoom(Deadline deadline);
  [[gnu::cold]] Status lastWords(const Status &why);
  [[gnu::cold]] void sendSmall(FrameKind kind, uint32_t stream, uint64_t request,
                               const Buffer &payload);

  const std::unique_ptr<Channel> channel_;
  const uint64_t process_; ///< that connected; a child must not use its parent's connection
  uint64_t maxWelcome_ = 0;
  Nonce nonce_{};
  Welcome welcome_;
  bool handshakeDone_ = false;

  // The reader's, whoever that is.
  FrameReader reader_;
  Buffer incoming_;
  Handover handover_;

  std::mutex mutex_;
  std::condition_variable writable_;
  bool reading_ = false;
  bool writing_ = false;
  Backlog partial_; ///< the rest of a frame that has begun to go out: goes before all others
  std::map<uint32_t, Outbox> outboxes_; ///< of streams, what waits for whoever writes next
  Status status_;                       ///< why the connection broke; Ok until then
  std::atomic<bool> usable_{true};      ///< status_ is Ok
  uint32_t lastStream_ = 0;
  uint64_t lastStatistics_ = 0;
  std::map<uint32_t, StreamSlot *> streams_;
};

} // namespace mlbridge

#endif
