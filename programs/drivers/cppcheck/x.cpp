// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command, started in a folder where it finds its libraries' descriptions: cppcheck CFG
// ARGUMENT...
#include <unistd.h>

#include "../cli/cppcheckexecutor.h"

int main(int argc, char **argv) {
  if (argc < 3 || chdir(argv[1]) != 0 || dup2(1, 2) < 0)
    return 2;
  CppCheckExecutor executor;
  return executor.check(argc - 1, argv + 1);
}
