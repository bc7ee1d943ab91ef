// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the benchmarks' programs share: how they are asked for their times, and how they fail.
#ifndef MLBRIDGE_BENCH_TIMED_H
#define MLBRIDGE_BENCH_TIMED_H

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace bench {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void fail(const std::string &why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::exit(1);
}

inline double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

/// Says "ready". Then each line of standard input, "<passes>", is handed to `work` and answered
/// with the nanoseconds it took.
template <typename Work> void serveLines(Work work) {
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    const Clock::time_point start = Clock::now();
    work(std::strtol(line, nullptr, 10));
    const std::chrono::nanoseconds took = Clock::now() - start;
    std::printf("%lld\n", static_cast<long long>(took.count()));
    std::fflush(stdout);
  }
}

} // namespace bench

#endif
