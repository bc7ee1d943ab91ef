// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every type of feature and of answer over pipes, as the release's own users wrote it:
//   types json|bytes BASENAME
#include "MLModelRunner/MLModelRunner.h"
#include "MLModelRunner/PipeModelRunner.h"
#include "MLModelRunner/Utils/DataTypes.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

using namespace MLBridge;

namespace {

std::unique_ptr<MLModelRunner> MLRunner;
int Wrong = 0;

template <typename T1, typename T2> void primitive(std::string label, T1 value, T2 expected) {
  std::pair<std::string, T1> p("request_" + label, value);
  MLRunner->populateFeatures(p);
  T2 out = MLRunner->evaluate<T2>();
  if (std::abs(double(out) - double(expected)) > 1e-5) {
    std::printf("%s: expected %g, got %g (%s)\n", label.c_str(), double(expected), double(out),
                MLRunner->status().toString().c_str());
    ++Wrong;
  }
}

template <typename T1, typename T2>
void vectors(std::string label, std::vector<T1> value, std::vector<T2> expected) {
  std::pair<std::string, std::vector<T1>> p("request_" + label, value);
  MLRunner->populateFeatures(p);
  T2 *out;
  size_t size;
  MLRunner->evaluate<T2 *>(out, size);
  if (size != expected.size()) {
    std::printf("%s: expected %zu values, got %zu (%s)\n", label.c_str(), expected.size(), size,
                MLRunner->status().toString().c_str());
    ++Wrong;
    return;
  }
  for (size_t i = 0; i < size; ++i)
    if (std::abs(double(out[i]) - double(expected[i])) > 1e-5) {
      std::printf("%s[%zu]: expected %g, got %g\n", label.c_str(), i, double(expected[i]),
                  double(out[i]));
      ++Wrong;
    }
  std::free(out);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const bool json = std::string(argv[1]) == "json";
  std::string basename = argv[2];
  BaseSerDes::Kind SerDesType = json ? BaseSerDes::Kind::Json : BaseSerDes::Kind::Bitstream;
  MLRunner =
      std::make_unique<PipeModelRunner>(basename + ".out", basename + ".in", SerDesType, nullptr);
  primitive<int, int>("int", 11, 12);
  primitive<long, long>("long", 1234567890, json ? 12345 : 1234567891);
  primitive<float, float>("float", 3.14, 4.14);
  primitive<double, double>("double", 0.123456789123456789, 1.123456789123456789);
  primitive<char, char>("char", 'a', 'b');
  primitive<bool, bool>("bool", true, false);
  vectors<int, int>("vec_int", {11, 22, 33}, {12, 23, 34});
  vectors<long, long>("vec_long", {123456780, 222, 333}, {123456780, 123456781, 123456782});
  vectors<float, float>("vec_float", {11.1, 22.2, 33.3}, {1.11, 2.22, -3.33, 0});
  vectors<double, double>("vec_double", {-1.1111111111, -2.2222222222, -3.3333333333},
                          {1.12345678912345670, -1.12345678912345671});
  // Several features in one message, and all types of the release.
  std::pair<std::string, std::string> text("request_text", "näme \"quoted\"\n");
  std::pair<std::string, std::vector<bool>> flags("request_flags", {true, false, true});
  std::pair<std::string, long> large("request_large", 1L << 53);
  MLRunner->populateFeatures(text, flags, large);
  if (int answer = MLRunner->evaluate<int>(); answer != 42) {
    std::printf("several: expected 42, got %d (%s)\n", answer,
                MLRunner->status().toString().c_str());
    ++Wrong;
  }
  std::printf("%d wrong\n", Wrong);
  return Wrong != 0;
}
