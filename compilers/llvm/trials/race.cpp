// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "race.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cerrno>
#include <poll.h>

using namespace llvm;

namespace mlbridge::trial {

using Clock = std::chrono::steady_clock;

/// The milliseconds until then, at least 0, rounded up.
static int millisecondsUntil(Clock::time_point Then) {
  const auto Left = std::chrono::ceil<std::chrono::milliseconds>(Then - Clock::now());
  return int(std::max<int64_t>(0, Left.count()));
}

bool Race::isRunning(size_t Run) const {
  return any_of(Current, [Run](const Running &One) { return One.Run == Run; });
}

std::optional<size_t> Race::race(ArrayRef<size_t> Runs, size_t AtOnce, ArrayRef<int> Files,
                                 function_ref<bool(size_t Run, End How)> OnEnd) {
  while (!Runs.empty() || !Current.empty()) {
    while (!Runs.empty() && Current.size() < AtOnce) {
      Running New{Runs.front(), {}, Clock::now() + Limit};
      if (New.Process.fork()) {
        SmallVector<int> Kept(Files);
        Kept.push_back(New.Process.Alive);
        isolate(Kept);
        return New.Run;
      }
      if (New.Process.Id < 0) {
        Error = errno;
        for (Running &One : Current)
          One.Process.end();
        Current.clear();
        return std::nullopt;
      }
      Current.push_back(New);
      Runs = Runs.drop_front();
    }
    SmallVector<pollfd, 2> Ends;
    for (const Running &One : Current)
      Ends.push_back({One.Process.Alive, POLLIN, 0});
    poll(Ends.data(), Ends.size(), millisecondsUntil(Current.front().Deadline));
    for (size_t I = Ends.size(); I-- > 0;) {
      Running One = Current[I];
      End How;
      How.IsLate = !Ends[I].revents && Clock::now() >= One.Deadline;
      if (Ends[I].revents)
        How.Status = One.Process.reap();
      else if (How.IsLate)
        One.Process.end();
      else
        continue;
      Current.erase(Current.begin() + I);
      if (!OnEnd(One.Run, How))
        Runs = {};
    }
  }
  return std::nullopt;
}

} // namespace mlbridge::trial
