// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "trial_process.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/LLVMRemarkStreamer.h"
#include "llvm/Remarks/RemarkStreamer.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace mlbridge::trial {

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

bool Child::fork() {
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

void isolate(ArrayRef<int> Keep) {
  for (const int Signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGPIPE,
                           SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM})
    signal(Signal, SIG_DFL);
  const rlimit NoCore{0, 0};
  setrlimit(RLIMIT_CORE, &NoCore);
  remove_fatal_error_handler();
  install_fatal_error_handler([](void *, const char *, bool) { _exit(1); });
  remove_bad_alloc_error_handler();
  install_bad_alloc_error_handler([](void *, const char *, bool) { _exit(1); });
  std::atexit([] { _exit(1); });

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
}

void divert(LLVMContext &Context, std::unique_ptr<DiagnosticHandler> To) {
  Context.setLLVMRemarkStreamer(nullptr);
  Context.setMainRemarkStreamer(nullptr);
  Context.setDiagnosticHandler(std::move(To));
}

} // namespace mlbridge::trial
