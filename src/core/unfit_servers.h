// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long one of several servers is waited for, and how long another one is looked for.
#ifndef MLBRIDGE_CORE_UNFIT_SERVERS_H
#define MLBRIDGE_CORE_UNFIT_SERVERS_H

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace mlbridge {

/// The part of the time that is left after which a silent server is left for another one.
inline Duration patienceOf(Duration left) {
  constexpr Duration Most = std::chrono::seconds(5);
  return std::min(left / 4, Most);
}

/// The servers that were asked in vain. gRPC gives each call to the next one that is there; others
/// may still be connecting when the first ones answer, so that the same one comes again.
class UnfitServers {
public:
  explicit UnfitServers(Deadline deadline) : until_(earlier(deadline, Deadline::after(MostTime))) {}

  /// The time to leave the others before the next one is asked; none if all have said no, or there
  /// is no time left. `count` is called to know how many there are. A server that leaves or stands
  /// still has said nothing: another one may take its place.
  template <typename Count>
  std::optional<Duration> add(const std::string &server, const Status &why, const Count &count) {
    Asked &asked = asked_[server];
    const bool saysNo = why.code() != Code::Closed && why.code() != Code::Unavailable &&
                        why.code() != Code::DeadlineExceeded;
    if (saysNo != asked.saysNo)
      refusals_ += saysNo ? 1 : -1;
    asked.saysNo = saysNo;
    if (until_.left() < LeastTime || (saysNo && refusals_ >= static_cast<int64_t>(count())))
      return std::nullopt;
    const Duration pause = std::min<Duration>({Pause * asked.times, MostPause, until_.left()});
    ++asked.times;
    return pause;
  }

private:
  struct Asked {
    int times = 0;
    bool saysNo = false;
  };
  // A deadline may be hours long.
  static constexpr Duration MostTime = std::chrono::seconds(30);
  // With less time left no other server is asked.
  static constexpr Duration LeastTime = std::chrono::milliseconds(1);
  static constexpr Duration Pause = std::chrono::milliseconds(20);
  static constexpr Duration MostPause = std::chrono::milliseconds(500);
  const Deadline until_;
  std::map<std::string, Asked> asked_;
  int64_t refusals_ = 0;
};

} // namespace mlbridge

#endif
