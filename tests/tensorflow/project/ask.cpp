// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ask URI: reads "STEP FEATURE..." lines, prints "ACTION LOGIT...", in each of four threads the
// same; without anything of TensorFlow, and without exceptions and RTTI as LLVM is built.
#include <mlbridge/model.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

using namespace mlbridge;

constexpr int Features = 6, Actions = 3;

struct Case {
  long long step = 0;
  float features[Features] = {};
};

static std::string answers(const Model &model, const std::vector<Case> &cases) {
  std::string text;
  Runner runner = model.newRunner();
  const Span<float> features = runner.input<float>("features");
  const Span<int64_t> step = runner.input<int64_t>("step");
  if (features.size() != Features || step.size() != 1)
    return runner.status().toString() + "\n";
  for (const Case &one : cases) {
    std::copy_n(one.features, Features, features.data());
    step[0] = one.step;
    if (Status s = runner.evaluate(); !s)
      return s.toString() + "\n";
    text += std::to_string(runner.output<int64_t>("action")[0]);
    for (const float logit : runner.output<float>("logits")) {
      char number[32];
      std::snprintf(number, sizeof number, " %.9g", double(logit));
      text += number;
    }
    text += '\n';
  }
  return text;
}

int main(int argc, char **argv) {
  const Signature signature{
      {TensorSpec::of<float>("features", {Features}), TensorSpec::of<int64_t>("step")},
      {TensorSpec::of<int64_t>("action"), TensorSpec::of<float>("logits", {Actions})}};
  Model model = Model::open(argc > 1 ? argv[1] : "");
  if (Status s = model.bind(signature); !s) {
    std::fprintf(stderr, "%s\n", s.toString().c_str());
    return 1;
  }
  std::vector<Case> cases;
  for (Case one; std::scanf("%lld", &one.step) == 1; cases.push_back(one))
    for (float &feature : one.features)
      if (std::scanf("%f", &feature) != 1)
        return 2;
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  threads.reserve(found.size());
  for (std::string &text : found)
    threads.emplace_back([&] { text = answers(model, cases); });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &text : found)
    if (text != found[0])
      return 3;
  std::fputs(found[0].c_str(), stdout);
  return 0;
}
