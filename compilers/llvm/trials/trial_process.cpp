// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "trial_process.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/LLVMRemarkStreamer.h"
#include "llvm/Remarks/RemarkStreamer.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <linux/landlock.h>
#include <mutex>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace mlbridge::trial {

static bool Isolated = false;

std::string whyNot() {
  std::error_code Failed;
  size_t Threads = 0;
  for (sys::fs::directory_iterator It("/proc/self/task", Failed), End; It != End && !Failed;
       It.increment(Failed))
    ++Threads;
  if (Failed)
    return "/proc, which tells the threads of this process: " + Failed.message();
  return Threads == 1 ? "" : "this process has several threads";
}

/// Makes exit() end trials before it does what was to be done at exit so far. To be called before
/// the fork, as another thread may hold the lock of that, and a child would wait for it forever.
static void endTrialsAtExit() {
  static std::once_flag Once;
  std::call_once(Once, [] {
    std::atexit(mustNotBeTrial);
    at_quick_exit(mustNotBeTrial);
  });
}

bool Child::fork() {
  endTrialsAtExit();
  int Ends[2];
  if (pipe2(Ends, O_CLOEXEC) != 0)
    return false;
  const pid_t Parent = getpid();
  Id = ::fork();
  close(Ends[Id == 0 ? 0 : 1]);
  Alive = Ends[Id == 0 ? 1 : 0];
  if (Id < 0)
    close(Alive);
  if (Id != 0)
    return false;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != Parent)
    _exit(1);
  return true;
}

void Child::end() {
  if (Id > 0) {
    kill(Id, SIGKILL);
    reap();
  }
}

int Child::reap() {
  int Ended = 0;
  while (waitpid(Id, &Ended, 0) < 0 && errno == EINTR) {
  }
  close(Alive);
  Id = -1;
  return Ended;
}

void Child::reapWithin(std::chrono::seconds Limit) {
  using Clock = std::chrono::steady_clock;
  const auto Then = Clock::now() + Limit;
  pollfd End{Alive, POLLIN, 0};
  int Ready = 0;
  do {
    const auto Left = std::chrono::ceil<std::chrono::milliseconds>(Then - Clock::now());
    Ready = ::poll(&End, 1, int(std::clamp<int64_t>(Left.count(), 0, INT_MAX)));
  } while (Ready < 0 && errno == EINTR);
  if (Ready > 0)
    reap();
  else
    end();
}

/// The kernel refuses this process, and what it forks, all changes of files by their paths, but
/// that it may write to `Null`. Does nothing where it lacks Landlock.
static void forbidChanges(int Null) {
  landlock_ruleset_attr Changes{};
  Changes.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                              LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                              LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                              LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                              LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  const long Rules =
      syscall(__NR_landlock_create_ruleset, &Changes, sizeof Changes.handled_access_fs, 0);
  if (Rules < 0)
    return;
  landlock_path_beneath_attr Harmless{};
  Harmless.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE;
  Harmless.parent_fd = Null;
  (void)syscall(__NR_landlock_add_rule, Rules, LANDLOCK_RULE_PATH_BENEATH, &Harmless, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    (void)syscall(__NR_landlock_restrict_self, Rules, 0);
  close(int(Rules));
}

/// Lets this process write nothing into files, or anything; the limit can be lifted again.
static void limitFiles(bool None) {
  rlimit Size{};
  getrlimit(RLIMIT_FSIZE, &Size);
  Size.rlim_cur = None ? 0 : Size.rlim_max;
  setrlimit(RLIMIT_FSIZE, &Size);
}

bool isTrial() { return Isolated; }

void mustNotBeTrial() {
  if (Isolated)
    _exit(1);
}

bool writeAll(int File, StringRef Bytes) {
  limitFiles(/*None=*/false);
  while (!Bytes.empty()) {
    const ssize_t Written = ::write(File, Bytes.data(), Bytes.size());
    if (Written < 0 && errno != EINTR)
      break;
    Bytes = Bytes.drop_front(std::max<ssize_t>(0, Written));
  }
  limitFiles(/*None=*/true);
  return Bytes.empty();
}

void isolate(ArrayRef<int> Keep) {
  Isolated = true;
  for (const int Signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGPIPE,
                           SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGXFSZ})
    signal(Signal, SIG_DFL);
  const rlimit NoCore{0, 0};
  setrlimit(RLIMIT_CORE, &NoCore);
  remove_fatal_error_handler();
  install_fatal_error_handler([](void *, const char *, bool) { _exit(1); });
  remove_bad_alloc_error_handler();
  install_bad_alloc_error_handler([](void *, const char *, bool) { _exit(1); });

  const int Null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  std::error_code Failed;
  std::vector<int> Open;
  for (sys::fs::directory_iterator It("/proc/self/fd", Failed), End; It != End && !Failed;
       It.increment(Failed)) {
    int Number = 0;
    if (!sys::path::filename(It->path()).getAsInteger(10, Number))
      Open.push_back(Number);
  }
  if (Null < 0 || Failed)
    _exit(1);
  for (const int File : Open) {
    const int Flags = fcntl(File, F_GETFL);
    if (File != Null && Flags >= 0 && (Flags & O_ACCMODE) != O_RDONLY && !is_contained(Keep, File))
      dup2(Null, File);
  }
  limitFiles(/*None=*/true);
  forbidChanges(Null);
}

void divert(LLVMContext &Context, std::unique_ptr<DiagnosticHandler> To) {
  Context.setLLVMRemarkStreamer(nullptr);
  Context.setMainRemarkStreamer(nullptr);
  Context.setDiagnosticHandler(std::move(To));
}

} // namespace mlbridge::trial
