// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "server/loop.h"

#include "core/process.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace mlbridge {

namespace {

int64_t nowNanoseconds() {
  return Deadline::Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

} // namespace

Status ServerLoop::start(std::unique_ptr<Listener> listener) {
  listener_ = std::move(listener);
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  timer_ = Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  quit_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  nudge_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  int wake[2] = {-1, -1};
  if (::pipe2(wake, O_NONBLOCK | O_CLOEXEC) == 0) {
    wakeRead_ = Descriptor(wake[0]);
    wakeWrite_ = Descriptor(wake[1]);
  }
  driven_ = listener_->isDriven();
  epoll_event oncePerByte{};
  oncePerByte.events = EPOLLIN | EPOLLET;
  if (driven_)
    wakes_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_ || !timer_ || !quit_ || !wakeRead_ || !nudge_ ||
      (driven_ &&
       (!wakes_ || ::epoll_ctl(wakes_.get(), EPOLL_CTL_ADD, wakeRead_.get(), &oncePerByte) != 0)) ||
      !watch(EPOLL_CTL_ADD, nudge_.get(), EPOLLIN, NudgeToken) ||
      !watch(EPOLL_CTL_ADD, wakeRead_.get(), EPOLLIN, WakeToken) ||
      !watch(EPOLL_CTL_ADD, listener_->descriptor(), EPOLLIN, ListenerToken))
    return Status(Code::LimitExceeded, describeErrno("server: make descriptors", errno));
  listening_ = true;
  keepSpare();
  const auto run = [](void *self) -> void * {
    static_cast<ServerLoop *>(self)->help();
    return nullptr;
  };
  const NoSignals guard;
  if (const int error = ::pthread_create(&helper_, nullptr, run, this))
    return Status(Code::LimitExceeded, describeErrno("server: start a thread", error));
  hasHelper_ = true;
  return Status();
}

ServerLoop::~ServerLoop() { close(); }

void ServerLoop::close() {
  if (hasHelper_) {
    const uint64_t one = 1;
    (void)!::write(quit_.get(), &one, sizeof one);
    if (driven_)
      listener_->interrupt();
    ::pthread_join(helper_, nullptr);
    hasHelper_ = false;
  }
  const std::lock_guard<std::mutex> lock(host_.mutex);
  for (auto &[number, session] : sessions_) {
    session->sayGoodbye("the server stopped");
    drop(*session);
  }
  sessions_.clear();
  awake_.clear();
  cut_.clear();
  listener_.reset();
}

bool ServerLoop::drain() {
  if (!host_.isDraining) {
    host_.isDraining = true;
    listener_->drain();
  }
  constexpr char Why[] = "the server is about to stop";
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    const std::shared_ptr<Session> session = (at++)->second; // update may forget it
    if (!session->isHandshakeDone())
      session->refuse(Status(Code::Busy, Why));
    else if (session->mayLeave())
      session->sayGoodbye(Why);
    if (session->isClosed())
      update(*session);
  }
  return sessions_.empty() && !host_.hasEvents();
}

bool ServerLoop::watch(int operation, int fd, uint32_t events, uint64_t token) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

void ServerLoop::wake() const {
  const char byte = 0;
  (void)!::write(wakeWrite_.get(), &byte, 1);
}

ServerLoop::Outcome ServerLoop::wait(Deadline deadline) {
  if (handover_.yields()) {
    Outcome outcome = Outcome::TimedOut;
    // Looking at sessions that are awake takes no system call; at the only one, one read.
    const auto glance = [&] {
      if (!(anyAwake_.load(std::memory_order_relaxed) ? attend(false) : readAlone()))
        return false;
      if (!mayGoOn())
        outcome = turn(0);
      if (outcome == Outcome::TimedOut)
        outcome = Outcome::Progress;
      return true;
    };
    int looks = 0;
    const auto look = [&] {
      if ((anyAwake_.load(std::memory_order_relaxed) || isAlone_.load(std::memory_order_relaxed)) &&
          ++looks % LooksWithoutWait != 0)
        return glance();
      outcome = turn(0);
      return outcome != Outcome::TimedOut;
    };
    if ((anyAwake_.load(std::memory_order_relaxed) && handover_.spinUntil(glance)) ||
        handover_.yieldUntil(look))
      return outcome;
  }
  const Outcome outcome = turn(quietTime(deadline.pollTimeout()));
  listenAgain();
  // poll(2) counts whole milliseconds, and no more than an int holds.
  return outcome == Outcome::TimedOut && !deadline.hasPassed() ? Outcome::Progress : outcome;
}

ServerLoop::Outcome ServerLoop::turn(int timeout) {
  Outcome outcome = Outcome::TimedOut;
  if (anyAwake_.load(std::memory_order_relaxed) && attend(timeout != 0)) {
    outcome = Outcome::Progress;
    if (mayGoOn())
      return outcome;
    timeout = 0;
  }
  turnsWithoutWait_.store(0, std::memory_order_relaxed);
  const bool hasMore = hasMore_.load(std::memory_order_relaxed);
  if (hasMore)
    timeout = 0;
  if (hasMore && driven_) // the others' input may have to be fetched first
    listener_->drive(Deadline::after(Duration::zero()));
  constexpr int MaxEvents = 32;
  epoll_event events[MaxEvents];
  int n = ::epoll_wait(epoll_.get(), events, MaxEvents, driven_ ? 0 : timeout);
  if (n == 0 && driven_) {
    listener_->drive(timeout < 0 ? Deadline::never()
                                 : Deadline::after(std::chrono::milliseconds(timeout)));
    n = ::epoll_wait(epoll_.get(), events, MaxEvents, 0);
  }
  if (n < 0)
    return errno == EINTR ? Outcome::Interrupted : Outcome::Woken;
  if (n == 0 && !hasMore && !hasStrangers_.load(std::memory_order_relaxed))
    return outcome;
  const std::lock_guard<std::mutex> lock(host_.mutex);
  host_.now = Deadline::Clock::now();
  if (n == 0 && !hasMore) {
    enforce();
    hasStrangers_.store(!strangers_.empty(), std::memory_order_relaxed);
    return outcome;
  }
  outcome = Outcome::Progress;
  ++turnNumber_;
  std::vector<std::shared_ptr<Session>> cut;
  cut.swap(cut_);
  bool accepts = moreToAccept_;
  moreToAccept_ = false;
  const size_t many = static_cast<size_t>(n) + cut.size();
  for (int i = 0; i < n; ++i) {
    const uint64_t token = events[i].data.u64;
    if (token == WakeToken) {
      char waste[64];
      while (::read(wakeRead_.get(), waste, sizeof waste) > 0) {
      }
      outcome = Outcome::Woken;
    } else if (token == NudgeToken) {
      uint64_t waste;
      (void)!::read(nudge_.get(), &waste, sizeof waste);
    } else if (token == ListenerToken) {
      accepts = true;
    } else {
      const auto found = sessions_.find(token & ~WriterBit);
      if (found == sessions_.end())
        continue;
      const std::shared_ptr<Session> session = found->second;
      if (token & WriterBit || events[i].events & EPOLLOUT)
        session->onWritable();
      if (!(token & WriterBit) && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read(session, many);
      update(*session);
    }
  }
  for (const std::shared_ptr<Session> &session : cut)
    if (session->lastTurn != turnNumber_ && !session->isClosed()) {
      read(session, many);
      update(*session);
    }
  if (accepts)
    acceptSome();
  enforce();
  hasMore_.store(moreToAccept_ || !cut_.empty(), std::memory_order_relaxed);
  hasStrangers_.store(!strangers_.empty(), std::memory_order_relaxed);
  return outcome;
}

/// With the host's mutex held.
void ServerLoop::read(const std::shared_ptr<Session> &session, size_t ofMany) {
  session->lastTurn = turnNumber_;
  session->onReadable(ofMany);
  if (session->isClosed())
    return;
  if (session->wasCut) {
    cut_.push_back(session);
    hasMore_.store(true, std::memory_order_relaxed);
  }
  if (session->isAwake || !session->channel().isQuiet())
    return;
  session->isAwake = true;
  awake_.push_back(session);
  anyAwake_.store(true, std::memory_order_relaxed);
}

bool ServerLoop::isStranger(uint64_t number) const {
  const auto found = sessions_.find(number);
  return found != sessions_.end() && !found->second->isHandshakeDone();
}

/// With the host's mutex held.
void ServerLoop::enforce() {
  const auto give = [&](const char *why) {
    const std::shared_ptr<Session> session = sessions_.find(strangers_.front().second)->second;
    session->evict(Status(Code::DeadlineExceeded, why));
    update(*session);
    strangers_.pop_front();
  };
  const ServerOptions &options = host_.options;
  while (!strangers_.empty()) {
    const auto &[since, number] = strangers_.front();
    if (!isStranger(number))
      strangers_.pop_front();
    else if (host_.now - since >= options.handshakeTime)
      give("the compiler did not finish the handshake in time");
    else
      break;
  }
  if (strangers_.size() > MostStrangers) {
    const auto isNone = [&](const auto &one) { return !isStranger(one.second); };
    strangers_.erase(std::remove_if(strangers_.begin(), strangers_.end(), isNone),
                     strangers_.end());
    while (strangers_.size() > MostStrangers)
      give("too many connections are waiting for their handshake");
  }
  while (*host_.kept > options.maxMemory) {
    std::shared_ptr<Session> most;
    const auto consider = [&](const std::shared_ptr<Session> &session) {
      if (!most || session->account()->bytes() > most->account()->bytes())
        most = session;
    };
    for (const auto &[number, session] : sessions_)
      consider(session);
    for (const std::shared_ptr<Session> &session : host_.waiting) // they may be closed
      consider(session);
    if (!most)
      return;
    const uint64_t before = *host_.kept;
    if (most->dropSpares() && *host_.kept < before)
      continue;
    most->evict(Status(Code::LimitExceeded, "the server keeps " + std::to_string(before) +
                                                " bytes for all connections, the limit is " +
                                                std::to_string(options.maxMemory) +
                                                "; this connection uses the most (max_memory)"));
    update(*most);
    if (*host_.kept >= before)
      return; // the rest is in work
  }
}

int ServerLoop::quietTime(int most) {
  const std::lock_guard<std::mutex> lock(host_.mutex);
  Duration quiet = Duration::max();
  if (!listening_)
    quiet = ListenAgainAfter;
  while (!strangers_.empty() && !isStranger(strangers_.front().second))
    strangers_.pop_front();
  if (!strangers_.empty())
    quiet = std::min<Duration>(quiet, strangers_.front().first + host_.options.handshakeTime -
                                          Deadline::Clock::now());
  if (quiet == Duration::max())
    return most;
  const int64_t milliseconds = std::max<int64_t>(quiet / std::chrono::milliseconds(1) + 1, 0);
  const int time = static_cast<int>(std::min<int64_t>(milliseconds, 60'000));
  return most < 0 ? time : std::min(most, time);
}

bool ServerLoop::attend(bool toSleep) {
  const std::lock_guard<std::mutex> lock(host_.mutex);
  const auto rests = [&](const std::shared_ptr<Session> &session) {
    Channel &channel = session->channel();
    const bool sleeps = toSleep && channel.prepareToSleep({true, false});
    if (!sleeps && channel.look({true, false}).read)
      ready_.push_back(session);
    session->isAwake = !sleeps;
    return sleeps;
  };
  awake_.erase(std::remove_if(awake_.begin(), awake_.end(), rests), awake_.end());
  anyAwake_.store(!awake_.empty(), std::memory_order_relaxed);
  if (ready_.empty())
    return false;
  host_.now = Deadline::Clock::now();
  for (const std::shared_ptr<Session> &session : ready_) {
    read(session, ready_.size());
    update(*session);
  }
  ready_.clear();
  enforce();
  if (!cut_.empty()) // the others have to be looked at now
    turnsWithoutWait_.store(TurnsWithoutWait, std::memory_order_relaxed);
  return true;
}

bool ServerLoop::readAlone() {
  const std::lock_guard<std::mutex> lock(host_.mutex);
  if (sessions_.size() != 1)
    return false;
  const std::shared_ptr<Session> session = sessions_.begin()->second;
  const uint64_t before = host_.statistics.bytesIn;
  host_.now = Deadline::Clock::now();
  read(session, 1);
  const bool wasRead = host_.statistics.bytesIn != before || session->isClosed();
  update(*session);
  enforce();
  return wasRead;
}

/// With the host's mutex held.
void ServerLoop::countSessions() {
  isAlone_.store(sessions_.size() == 1 && !driven_ &&
                     !sessions_.begin()->second->channel().isQuiet(),
                 std::memory_order_relaxed);
}

Expected<std::unique_ptr<Channel>> ServerLoop::acceptOne() {
  try {
    return listener_->accept();
  } catch (const std::bad_alloc &) {
    return Status(Code::LimitExceeded, "no memory for a connection");
  }
}

void ServerLoop::keepSpare() {
  for (Descriptor &spare : spare_)
    if (!spare)
      spare = Descriptor(::eventfd(0, EFD_CLOEXEC));
}

void ServerLoop::acceptSome() {
  for (int accepted = 0; accepted < MostAccepted; ++accepted) {
    Expected<std::unique_ptr<Channel>> channel = acceptOne();
    const bool isLast = !channel;
    if (isLast) {
      for (Descriptor &spare : spare_)
        spare.reset();
      channel = acceptOne();
      if (!channel || !*channel)
        keepSpare();
    }
    if (!channel) {
      // Out of descriptors: the listener would stay readable. It is watched again soon.
      watch(EPOLL_CTL_MOD, listener_->descriptor(), 0, ListenerToken);
      listening_ = false;
      notListeningSince_ = host_.now;
      return;
    }
    if (!*channel)
      return;
    const uint64_t number = ++lastSession_;
    auto session = std::make_shared<Session>(std::move(*channel), number, host_);
    ++host_.statistics.connections;
    if (isLast) {
      session->refuse(Status(Code::Busy, "the server has no file descriptor left for another "
                                         "compiler (ulimit -n)"));
      session->dropChannel();
      session.reset();
      keepSpare();
      continue;
    }
    if (!watch(EPOLL_CTL_ADD, session->channel().readDescriptor(), EPOLLIN, number)) {
      session->dropChannel();
      continue;
    }
    sessions_[number] = std::move(session);
    countSessions();
    strangers_.emplace_back(host_.now, number);
  }
  moreToAccept_ = true; // the listener need not tell of the rest
}

void ServerLoop::update(Session &session) {
  // Whoever sends may not be the one who waits, so room is asked for at once.
  while (session.hasUnsent() && !session.isClosed() &&
         !session.channel().prepareToSleep({false, true})) {
    const size_t before = session.unsentSize();
    session.onWritable();
    if (session.unsentSize() == before)
      session.refuse(
          Status(Code::Protocol,
                 "the compiler's shared memory reports room that turns out not to be there"));
  }
  if (!session.isClosed() && session.hasUnsent() == session.awaitsWriting)
    return;
  if (sessions_.find(session.number()) == sessions_.end())
    return;
  if (session.isClosed())
    return forget(session.number());
  session.awaitsWriting = session.hasUnsent();
  const int reader = session.channel().readDescriptor();
  const int writer = session.channel().writeDescriptor();
  if (reader == writer)
    watch(EPOLL_CTL_MOD, reader, session.awaitsWriting ? EPOLLIN | EPOLLOUT : EPOLLIN,
          session.number());
  else
    watch(session.awaitsWriting ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, writer,
          static_cast<uint32_t>(session.channel().writeEvents()), session.number() | WriterBit);
}

ServerLoop::Others ServerLoop::others() const {
  Others found = Others::None;
  for (const auto &[number, session] : sessions_)
    if (session->mayAsk()) {
      if (session->pace.isAwaited())
        return Others::Awaited;
      found = Others::Able;
    }
  return found;
}

void ServerLoop::recordBatchTimeout() {
  for (const auto &[number, session] : sessions_)
    if (session->mayAsk() && session->pace.isAwaited())
      session->pace.recordTimeout();
}

void ServerLoop::forget(uint64_t number) {
  const auto found = sessions_.find(number);
  if (found->second->isAwake)
    awake_.erase(std::find(awake_.begin(), awake_.end(), found->second));
  drop(*found->second);
  sessions_.erase(found);
  countSessions();
}

void ServerLoop::drop(Session &session) {
  // Closing a descriptor takes it out of the epoll set only if no child process shares it.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session.channel().readDescriptor(), nullptr);
  if (session.channel().writeDescriptor() != session.channel().readDescriptor())
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session.channel().writeDescriptor(), nullptr);
  session.dropChannel();
}

void ServerLoop::listenAgain() {
  const std::lock_guard<std::mutex> lock(host_.mutex);
  if (!listening_ && Deadline::Clock::now() - notListeningSince_ >= ListenAgainAfter)
    listening_ = watch(EPOLL_CTL_MOD, listener_->descriptor(), EPOLLIN, ListenerToken);
  keepSpare();
}

// ---- the helper thread --------------------------------------------------------------------------

void ServerLoop::armHelp(Duration after) {
  itimerspec when{};
  when.it_value.tv_nsec = static_cast<long>(after.count());
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void ServerLoop::policyBegins(Deadline::Clock::time_point now) {
  policySince_.store(now.time_since_epoch() / std::chrono::nanoseconds(1));
  // One timer serves many short policies: the helper looks when it fires and sets it again.
  if (!helpArmed_.load() && !helpArmed_.exchange(true))
    armHelp(HelpAfter);
}

void ServerLoop::help() {
  while (true) {
    pollfd fds[3] = {
        {timer_.get(), POLLIN, 0}, {quit_.get(), POLLIN, 0}, {wakes_.get(), POLLIN, 0}};
    ::poll(fds, 3, -1);
    if (fds[1].revents)
      return;
    if (fds[2].revents) {
      epoll_event waste;
      (void)::epoll_wait(wakes_.get(), &waste, 1, 0);
      listener_->interrupt();
    }
    uint64_t expirations;
    if (::read(timer_.get(), &expirations, sizeof expirations) <= 0)
      continue;
    // Before it is looked at: policyBegins arms the timer again if it sees this too late.
    helpArmed_.exchange(false);
    const int64_t since = policySince_.load();
    if (since == 0)
      continue;
    const Duration ran(nowNanoseconds() - since);
    if (ran < HelpAfter) {
      if (!helpArmed_.exchange(true, std::memory_order_acq_rel))
        armHelp(HelpAfter - ran);
      continue;
    }
    bool woken = false;
    const auto nudgeIfOver = [&] {
      // The serving thread may have found the queue empty just before this turn filled it, and be
      // waiting; and it waits for those only that were asleep by then.
      if (policySince_.load(std::memory_order_acquire) != since) {
        const uint64_t one = 1;
        (void)!::write(nudge_.get(), &one, sizeof one);
        if (driven_)
          listener_->interrupt();
      }
    };
    while (policySince_.load(std::memory_order_acquire) == since) {
      if (anyAwake_.load(std::memory_order_relaxed) && attend(true)) {
        nudgeIfOver();
        if (mayGoOn())
          continue;
      }
      pollfd watched[3] = {
          {epoll_.get(), POLLIN, 0}, {quit_.get(), POLLIN, 0}, {timer_.get(), POLLIN, 0}};
      constexpr int LookAgainMs = 100; // nobody tells when the policy ends
      if (driven_) {
        helperDrives_.store(true);
        if (policySince_.load() == since)
          listener_->drive(Deadline::after(std::chrono::milliseconds(hasMore_ ? 0 : LookAgainMs)));
        helperDrives_.store(false);
        nudgeIfOver();
      }
      if (::poll(watched, 3, driven_ || hasMore_ ? 0 : LookAgainMs) < 0)
        continue;
      if (watched[1].revents)
        return;
      if (watched[2].revents) // another policy began
        break;
      const bool isQuiet = !watched[0].revents && !hasMore_ && !hasStrangers_;
      if (isQuiet || policySince_.load(std::memory_order_acquire) != since)
        continue;
      if (turn(0) == Outcome::Woken)
        woken = true;
      nudgeIfOver();
    }
    if (woken)
      wake(); // was meant for the serving thread
  }
}

} // namespace mlbridge
