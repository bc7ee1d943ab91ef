// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Connecting and the handshake.
#include "conversation/connection.h"
#include "conversation/retry.h"
#include "core/message.h"
#include "core/unfit_servers.h"

#include <poll.h>
#include <sys/random.h>

namespace mlbridge {

namespace {

// A handshake over FIFOs that gets no answer is tried anew: the first one may have been taken for
// the rest of a frame that an earlier compiler did not finish.
constexpr Duration FirstAttempt = std::chrono::milliseconds(250);
constexpr Duration LongestAttempt = std::chrono::seconds(5);

} // namespace

Expected<std::shared_ptr<Connection>> Connection::open(const Transport &transport, const Uri &uri,
                                                       const Options &options, Deadline deadline,
                                                       std::shared_ptr<Connection> *reached) {
  Duration attempt = FirstAttempt;
  while (true) {
    const Deadline::Clock::time_point before = Deadline::Clock::now();
    Expected<std::unique_ptr<Channel>> channel = connectWaiting(
        options.wait, deadline, [&](Deadline until) { return transport.connect(uri, until); });
    if (!channel)
      return channel.status();
    // Waiting for a server to start was asked for; it is not part of the deadline.
    if (options.wait > Duration::zero() && !deadline.isNever())
      deadline = Deadline::after(Deadline::Clock::now() - before, deadline.when());
    std::shared_ptr<Connection> connection(new Connection(std::move(*channel)));
    const std::string server = connection->server();
    if (reached)
      *reached = connection;
    Deadline patience = deadline;
    if (transport.mayBeStale())
      patience = earlier(deadline, Deadline::after(attempt));
    else if (options.hasOthers)
      patience = Deadline::after(patienceOf(deadline.left()));
    Status status = connection->shakeHands(options, patience);
    if (status.ok() && connection->welcome_.role != options.role)
      return Status(Code::Mismatch, options.role == ServerRole::Model
                                        ? "an environment is served there: it is driven, not asked"
                                        : "a model is served there: it is asked, not driven");
    if (status.ok())
      return connection;
    const std::string advice = connection->channel_->advice();
    if (status.code() == Code::Protocol && !advice.empty())
      status = status.withContext(advice);
    const bool again = transport.mayBeStale() && !deadline.hasPassed() &&
                       (status.code() == Code::DeadlineExceeded || status.code() == Code::Closed);
    if (!again)
      return status.withContext(server.empty() ? "handshake" : join(server, ": handshake"));
    if (status.code() == Code::Closed)
      ::poll(nullptr, 0, ConnectPauseMs);
    else
      attempt = std::min(attempt * 2, LongestAttempt);
  }
}

Status Connection::shakeHands(const Options &options, Deadline deadline) {
  if (::getrandom(nonce_.data(), nonce_.size(), 0) != ssize_t(nonce_.size()))
    return makeError(Code::Internal, "the system gives no random numbers (getrandom)");
  Hello hello;
  hello.nonce = nonce_;
  hello.maxMessage = options.maxMessage;
  hello.serdes = options.serdes;
  hello.software = softwareName();
  Outbox out;
  if (Status s = out.addMessage({FrameKind::Hello, 0, 0, wireTime(deadline)}, hello); !s)
    return s;
  maxWelcome_ = options.maxWelcome;
  reader_.setLimit(options.maxMessage);
  const iovec part{const_cast<uint8_t *>(out.data()), out.size()};
  bool begun = false;
  {
    Lock lock(mutex_);
    if (Status s = send(&part, 1, lock, deadline, begun); !s)
      return s;
  }
  while (!handshakeDone_) {
    Readiness ready;
    Status s = pumpAs({true, false}, deadline, ready);
    if (s && !handshakeDone_ && deadline.hasPassed()) // a server that sends on and on
      s = makeError(Code::DeadlineExceeded, "");
    if (!s)
      return s.code() == Code::DeadlineExceeded
                 ? makeError(s.code(), "the server did not answer in time")
                 : s;
    if (Status s = failure(); !s)
      return s;
  }
  return Status();
}

Status Connection::welcomeFrame(const FrameHeader &header) {
  switch (header.kind) {
  case FrameKind::Error:
    return header.stream == 0 ? decodeError(incoming_.span()) : Status();
  case FrameKind::Busy:
    return decodeBusy(incoming_.span());
  case FrameKind::Welcome: {
    Expected<Welcome> welcome = decode<Welcome>(incoming_.span());
    if (!welcome)
      return welcome.status();
    if (welcome->major != ProtocolMajor)
      return makeError(Code::Protocol, "the server speaks version ", welcome->major,
                       " of the protocol, this library speaks version ", ProtocolMajor);
    if (welcome->nonce != nonce_)
      return Status(); // meant for somebody who was here before
    welcome_ = std::move(*welcome);
    handshakeDone_ = true;
    return Status();
  }
  default:
    return Status(); // the rest of an earlier conversation
  }
}

} // namespace mlbridge
