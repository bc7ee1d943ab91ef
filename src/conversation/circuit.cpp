// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/circuit.h"

#include "core/backend.h"
#include "core/message.h"
#include "core/registry.h"

namespace mlbridge {

namespace {
constexpr Duration MinPause = std::chrono::seconds(10);
constexpr Duration MaxPause = std::chrono::hours(1);
} // namespace

Expected<Deadline> Circuit::admit(Deadline limit) {
  if (!troubled_.load(std::memory_order_relaxed))
    return limit;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  if (open_) {
    if (!retryAt_.hasPassed())
      return makeError(Code::Unavailable,
                       "the model is not asked for now, since earlier calls failed (", why_, ")");
    // Only one caller tries; the others fail at once until it is back.
    retryAt_ = Deadline::after(pause_, now);
    return earlier(limit, Deadline::after(budget_ / 10, now));
  }
  return earlier(limit, Deadline::after(left_, now));
}

void Circuit::reached() {
  if (!troubled_.load(std::memory_order_relaxed))
    return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (open_)
    left_ = budget_ / 10;
  open_ = false;
}

void Circuit::recover() {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_ = false;
  left_ = budget_;
  pause_ = Duration::zero();
  troubled_.store(false, std::memory_order_relaxed);
}

void Circuit::recordTimeout(Deadline::Clock::time_point since, const Status &why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  // A call that was under way when the circuit opened says nothing new.
  if (Deadline::after(budget_, now).isNever() || (open_ && since < openedAt_))
    return;
  left_ -= std::min(left_, Duration(now - since));
  troubled_.store(true, std::memory_order_relaxed);
  if (left_ > Duration::zero())
    return;
  pause_ = pause_ > Duration::zero() ? std::min(pause_ * 2, MaxPause)
                                     : std::max(MinPause, std::min(budget_, MaxPause / 10) * 10);
  why_ = why.message();
  open_ = true;
  openedAt_ = now;
  retryAt_ = Deadline::after(pause_, now);
}

// Kept until the process ends: a model that was given up must not cost another deadline when it is
// opened again.
std::shared_ptr<Circuit> circuitOf(const Uri &uri, const OpenOptions &options) {
  const Duration budget = deadlineOf(options);
  if (!options.sharedBudget)
    return std::make_shared<Circuit>(budget);
  static auto &circuits = *new Registry<std::shared_ptr<Circuit>>;
  return circuits.findOrAdd(uri.scheme + ":" + uri.place + "?" + std::to_string(budget.count()),
                            std::make_shared<Circuit>(budget));
}

} // namespace mlbridge
