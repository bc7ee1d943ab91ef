// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Preloaded into what `make test` starts: each program writes how it was called and which file it
// is, a tab between, to the file that MLBRIDGE_PROGRAMS names. See tests/closure.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

__attribute__((constructor)) static void record(void) {
  const int before = errno;
  const char *const path = getenv("MLBRIDGE_PROGRAMS");
  const char *const called = (const char *)getauxval(AT_EXECFN);
  const int file =
      path && called ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
  if (file >= 0) {
    char self[2048] = "", folder[2048] = "", line[8192];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
      self[0] = 0;
    if (called[0] == '/' || !getcwd(folder, sizeof folder))
      folder[0] = 0;
    const int size =
        snprintf(line, sizeof line, "%s%s%s\t%s\n", folder, *folder ? "/" : "", called, self);
    if (size > 0 && size < (int)sizeof line && write(file, line, (size_t)size) < 0)
      errno = before; // nobody to tell
    close(file);
  }
  errno = before;
}
