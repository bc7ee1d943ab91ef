// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long another one of several servers is looked for.
#ifndef MLBRIDGE_CORE_UNFIT_SERVERS_H
#define MLBRIDGE_CORE_UNFIT_SERVERS_H

#include <mlbridge/deadline.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace mlbridge {

/// The servers that were found not to fit. Others may still be connecting when the first ones
/// answer, so that the same one may come again.
class UnfitServers {
public:
  explicit UnfitServers(uint32_t servers, Deadline deadline)
      : servers_(servers), until_(earlier(deadline, Deadline::after(MostTime))) {}
  /// The time to leave the others before the next one is asked; none if all were asked, or that
  /// took too long.
  std::optional<Duration> add(const std::string &server) {
    const int times = ++times_[server];
    if (times_.size() >= servers_ || until_.hasPassed())
      return std::nullopt;
    return std::min<Duration>({Pause * (times - 1), 10 * Pause, until_.left()});
  }

private:
  static constexpr Duration MostTime = std::chrono::seconds(2);
  static constexpr Duration Pause = std::chrono::milliseconds(20);
  const uint32_t servers_;
  const Deadline until_;
  std::map<std::string, int> times_;
};

} // namespace mlbridge

#endif
