// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs what cannot be undone in forked processes, several at a time, which
// answer in memory that they share.
#ifndef MLBRIDGE_LLVM_TRIALS_RACE_H
#define MLBRIDGE_LLVM_TRIALS_RACE_H

#include "trial_process.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>
#include <optional>
#include <sys/mman.h>
#include <vector>

namespace mlbridge::trial {

/// An array that this process shares with those that it forks from now on.
template <typename T> class SharedArray {
  static_assert(std::is_trivially_destructible_v<T>);

public:
  /// False if there is no memory, and errno says why. The elements are `T()`.
  bool allocate(size_t Count) {
    const size_t Bytes = Count * sizeof(T);
    void *Memory = mmap(nullptr, Bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (Memory == MAP_FAILED)
      return false;
    Elements = {static_cast<T *>(Memory), Unmap{Bytes}};
    std::uninitialized_value_construct_n(Elements.get(), Count);
    return true;
  }
  T &operator[](size_t Index) const { return Elements[Index]; }

private:
  struct Unmap {
    size_t Bytes = 0;
    void operator()(T *First) const { munmap(First, Bytes); }
  };
  std::unique_ptr<T[], Unmap> Elements;
};

/// Forked processes, each of which carries out one of several numbered runs.
class Race {
public:
  /// A run that takes longer is killed.
  explicit Race(std::chrono::seconds Limit = Longest) : Limit(Limit) {}

  /// The end of a run's process.
  struct End {
    bool IsLate = false; ///< it was killed
    int Status = 0;      ///< otherwise what waitpid says of it
  };

  /// Forks a process for each run, at most `AtOnce` of them at a time, and
  /// returns the number of its run in each: isolated, but that it may write to
  /// `Files` by writeAll, the process goes on from here, and must end by
  /// itself.
  ///
  /// In the caller it returns nothing, once all processes have ended. `OnEnd`
  /// is called there after the end of each; if it returns false, no more are
  /// forked. If a process can't be forked, the others are killed, and error()
  /// is not 0.
  std::optional<size_t> race(llvm::ArrayRef<size_t> Runs, size_t AtOnce, llvm::ArrayRef<int> Files,
                             llvm::function_ref<bool(size_t Run, End How)> OnEnd);
  bool isRunning(size_t Run) const;
  /// The errno of a fork that has failed, or 0.
  int error() const { return Error; }

private:
  struct Running {
    size_t Run;
    Child Process;
    std::chrono::steady_clock::time_point Deadline;
  };
  const std::chrono::seconds Limit;
  std::vector<Running> Current; ///< the oldest first
  int Error = 0;
};

} // namespace mlbridge::trial

#endif
