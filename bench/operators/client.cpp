// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times each model of a list with native: and with a session of ONNX Runtime, in turns.
//
//   operators-client LIBRARY ROUNDS < LIST
//
// A line of the list is "MODEL INPUTS": an ONNX file, and a file with the bytes of its inputs one
// after another. The answer is "<nanoseconds of native> <of ONNX Runtime>", medians for one
// evaluation, or "- REASON" if one of the two has no such operator.
#include "../floor/session.h"

#include <mlbridge/model.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>

using namespace mlbridge;
using bench::Clock;
using bench::Session;

namespace {

constexpr double TurnNanoseconds = 2e5;

/// One of the two, and the times of its turns.
struct Side {
  template <typename Ask> double turn(Ask ask) const {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < passes; ++i)
      ask();
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    return took.count() / static_cast<double>(passes);
  }
  template <typename Ask> void calibrate(Ask ask) {
    while (passes < 1 << 20 && turn(ask) * static_cast<double>(passes) < TurnNanoseconds)
      passes *= 2;
  }
  double median() {
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

  int64_t passes = 1;
  std::vector<double> times;
};

std::string timed(const OrtEnv *env, const std::string &path, const std::string &bytes,
                  int rounds) {
  Session session(env, path.c_str(), true);
  if (!session.failure.empty())
    return "- onnx: " + session.failure;
  Model model = Model::open("native:" + path);
  if (!model || !model.bind(*model.modelSignature()))
    return "- native: " + model.status().toString();
  Runner runner = model.newRunner();
  size_t at = 0;
  for (size_t i = 0; i < session.inputs.size(); ++i) {
    const bench::Bound &input = session.inputs[i];
    const TensorView view = runner.inputAt(i);
    const size_t size = input.count * input.width;
    if (view.bytes() != size || at + size > bytes.size())
      bench::fail(path + ": its inputs are of another size");
    std::memcpy(view.data, bytes.data() + at, size);
    std::memcpy(input.data, bytes.data() + at, size);
    at += size;
  }
  if (const std::string failure = session.tried(); !failure.empty())
    return "- onnx: " + failure;
  if (Status s = runner.evaluate(); !s)
    return "- native: " + s.toString();
  const auto native = [&] { (void)runner.evaluate(); };
  const auto floor = [&] { session.run(); };
  Side ours, theirs;
  ours.calibrate(native);
  theirs.calibrate(floor);
  for (int i = 0; i < rounds; ++i) {
    ours.times.push_back(ours.turn(native));
    theirs.times.push_back(theirs.turn(floor));
  }
  return std::to_string(ours.median()) + " " + std::to_string(theirs.median());
}

} // namespace

int main(int count, char **arguments) {
  if (count != 3)
    bench::fail("usage: operators-client LIBRARY ROUNDS < LIST");
  const OrtEnv *env = bench::openRuntime(arguments[1]);
  const int rounds = static_cast<int>(std::strtol(arguments[2], nullptr, 10));
  for (std::string model, inputs; std::cin >> model >> inputs;) {
    std::ifstream file(inputs, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    std::string answer = timed(env, model, bytes, rounds);
    std::replace(answer.begin(), answer.end(), '\n', ' ');
    std::cout << answer << std::endl;
  }
  return 0;
}
