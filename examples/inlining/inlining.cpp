// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass in miniature: for each call of a module, a model advises whether to inline it. Which model
// is an option; nothing here knows what runs it. inlining.c is the same in C.
//   inlining-cpp onnx:policy.onnx MODULE...
// A module is a file of lines "NAME FEATURE..."; each is compiled by a thread of its own.
#include <mlbridge/model.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

constexpr int Features = 6;
constexpr const char *Advices[] = {"leave", "inline", "inline early"};

struct Call {
  std::string name;
  float features[Features] = {}; // the first is the callee's size
};

static bool read(std::istream &module, Call &call) {
  module >> call.name;
  for (float &feature : call.features)
    module >> feature;
  return bool(module);
}

/// What a compiler without a model would do.
static int64_t heuristic(const Call &call) { return call.features[0] < 10 ? 1 : 0; }

static void compile(const char *path, const mlbridge::Model &model, std::string &out) {
  // [pass]
  mlbridge::Runner runner = model.newRunner();
  const auto features = runner.input<float>("features");
  const auto step = runner.input<int64_t>("step");
  // [/pass]
  std::ifstream module(path);
  int64_t number = 0;
  for (Call call; read(module, call); ++number) {
    std::copy_n(call.features, features.size(), features.begin());
    std::fill(step.begin(), step.end(), number);
    // [pass]
    const auto advice = runner.evaluateOr<int64_t>([&] { return heuristic(call); });
    // [/pass]
    out += call.name + ": " + (advice >= 0 && advice < 3 ? Advices[advice] : "?");
    for (const float score : runner.output<float>("logits")) {
      char number[32];
      std::snprintf(number, sizeof number, " %.9g", double(score));
      out += number;
    }
    out += '\n';
  }
  if (!runner.status())
    std::fprintf(stderr, "%s: %s\n", path, runner.status().toString().c_str());
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "inlining-cpp MODEL-URI MODULE...\n");
    return 2;
  }
  // [pass]
  using mlbridge::TensorSpec;
  mlbridge::Model model = mlbridge::Model::open(argv[1]);
  const mlbridge::Status bound =
      model.bind({{TensorSpec::of<float>("features", {Features}), TensorSpec::of<int64_t>("step")},
                  {TensorSpec::of<int64_t>("action"), TensorSpec::of<float>("logits", {3})}});
  // [/pass]
  if (!bound)
    std::fprintf(stderr, "no model: %s\n", bound.toString().c_str());
  std::vector<std::string> outs(size_t(argc - 2));
  std::vector<std::thread> threads;
  threads.reserve(outs.size());
  for (size_t i = 0; i < outs.size(); ++i)
    threads.emplace_back([&, i] { compile(argv[i + 2], model, outs[i]); });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &out : outs)
    std::fputs(out.c_str(), stdout);
  return 0;
}
