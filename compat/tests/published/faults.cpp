// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a pass of 2024 gets when the other side fails: faults json|bytes BASENAME
// Asks three times; each line is the answer, and why.
#include "MLModelRunner/PipeModelRunner.h"

#include <iostream>
#include <string>
#include <vector>

using namespace MLBridge;

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  std::string basename = argv[2];
  PipeModelRunner runner(basename + ".out", basename + ".in",
                         std::string(argv[1]) == "json" ? BaseSerDes::Kind::Json
                                                        : BaseSerDes::Kind::Bitstream);
  for (int i = 0; i < 3; ++i) {
    std::pair<std::string, std::vector<float>> p("tensor", std::vector<float>(100000, 1));
    runner.populateFeatures(p);
    int out = runner.evaluate<int>();
    std::cout << out << " " << runner.status().toString() << "\n";
    if (runner.evaluateOr<int>([] { return 7; }) == 7)
      std::cout << "fell back\n";
  }
  return 0;
}
