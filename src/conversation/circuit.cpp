// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/circuit.h"

#include <map>

namespace mlbridge {

namespace {
constexpr Duration MinPause = std::chrono::seconds(10);
constexpr Duration MaxPause = std::chrono::hours(1);
} // namespace

Expected<Deadline> Circuit::admit(Deadline asked) {
  if (!troubled_.load(std::memory_order_relaxed))
    return asked;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  if (open_) {
    if (now < retryAt_)
      return Status(Code::Unavailable, "not asked: an earlier call waited in vain (" + why_ + ")");
    // Only one caller tries; the others fail at once until it is back.
    retryAt_ = now + pause_;
    return earlier(asked, Deadline::at(now + budget_ / 10));
  }
  return earlier(asked, Deadline::at(now + left_));
}

void Circuit::recover() {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_ = false;
  left_ = budget_;
  pause_ = Duration::zero();
  troubled_.store(false, std::memory_order_relaxed);
}

void Circuit::waitedInVain(Deadline::Clock::time_point since, const Status &why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  left_ -= std::min(left_, Duration(now - since));
  troubled_.store(true, std::memory_order_relaxed);
  // A peer that ended the connection cost little, and asking again costs as little.
  if (why.code() != Code::DeadlineExceeded && left_ > Duration::zero())
    return;
  if (!open_ || pause_ == Duration::zero()) {
    why_ = why.message();
    pause_ = std::max(MinPause, budget_ > MaxPause / 10 ? MaxPause : budget_ * 10);
  } else {
    pause_ = std::min(pause_ * 2, MaxPause);
  }
  open_ = true;
  left_ = Duration::zero();
  retryAt_ = now + pause_;
}

// Kept until the process ends: a model that was given up must not cost another deadline when it is
// opened again.
std::shared_ptr<Circuit> circuitOf(const Uri &uri, const OpenOptions &options) {
  if (!options.sharedBudget)
    return std::make_shared<Circuit>(options.deadline);
  static std::mutex mutex;
  static std::map<std::pair<std::string, Duration>, std::shared_ptr<Circuit>> circuits;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Circuit> &circuit = circuits[{uri.scheme + ":" + uri.place, options.deadline}];
  if (!circuit)
    circuit = std::make_shared<Circuit>(options.deadline);
  return circuit;
}

} // namespace mlbridge
