// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_CORE_PROCESS_H
#define MLBRIDGE_CORE_PROCESS_H

#include <csignal>
#include <cstdint>

namespace mlbridge {

/// Another number in each process of a family: after fork the child has a new one. Costs no system
/// call.
uint64_t processNumber();

/// Signals belong to the program's own threads: those made in its scope get none.
class NoSignals {
public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals &) = delete;
  NoSignals &operator=(const NoSignals &) = delete;

private:
  sigset_t before_;
};

} // namespace mlbridge

#endif
