// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks for one value of a type, of JSON: scalar int|long|float|double|bool|char BASENAME
#include "MLModelRunner/PipeModelRunner.h"

#include <iostream>
#include <string>

using namespace MLBridge;

template <typename T> void ask(PipeModelRunner &runner) {
  const T answer = runner.evaluate<T>();
  std::cout << answer << " " << runner.status().toString() << "\n";
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  std::string kind = argv[1], basename = argv[2];
  PipeModelRunner runner(basename + ".out", basename + ".in", SerDesKind::Json);
  if (kind == "int")
    ask<int>(runner);
  else if (kind == "long")
    ask<long>(runner);
  else if (kind == "float")
    ask<float>(runner);
  else if (kind == "double")
    ask<double>(runner);
  else if (kind == "bool")
    ask<bool>(runner);
  else
    ask<char>(runner);
  return 0;
}
