// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiler that evaluates a model in process, through the library.
//
//   in-process-client ask URI EXAMPLES      says "ready"; each line "<passes>" of standard input is
//                                           answered with the nanoseconds that they took
//   in-process-client start URI             "<ms until the first answer> <resident KB>"
//   in-process-client threads one|two URI EXAMPLES MS
//                       evaluations of two threads in that time, with one Model or two
#include "examples.h"

#include <mlbridge/function.h>
#include <mlbridge/model.h>

#include <atomic>
#include <thread>

using namespace mlbridge;
using namespace inprocess;
using bench::Clock;
using bench::milliseconds;

namespace {

long residentKilobytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word)
    if (word == "Rss:") {
      long found = 0;
      file >> found;
      return found;
    }
  return 0;
}

Model opened(const char *uri) {
  const bool none = std::strcmp(uri, "function:none") == 0;
  const Signature signature = {{TensorSpec::of<float>("x", {16})},
                               {TensorSpec::of<float>("y", {2})}};
  Model model =
      none ? fromFunction(signature, [](FunctionCall &) { return Status(); }) : Model::open(uri);
  if (!model)
    fail(model.status().toString());
  if (!model.modelSignature())
    fail("the model has no signature");
  if (Status s = model.bind(*model.modelSignature()); !s)
    fail(s.toString());
  return model;
}

/// One thread's runner with its examples.
struct Asker {
  Asker(const Model &model, const char *examples)
      : runner(model.newRunner()),
        data(examples, inputs(model), *elementCount(model.modelSignature()->outputs[0].shape)) {}

  const float *evaluate() {
    if (Status s = runner.evaluate(); !s)
      fail(s.toString());
    return static_cast<const float *>(runner.outputAt(0).data);
  }

  std::vector<Input> inputs(const Model &model) {
    const Signature &signature = *model.modelSignature();
    std::vector<Input> found;
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      const TensorView view = runner.inputAt(i);
      if (!view.data)
        fail(runner.status().toString());
      const size_t width = signature.inputs[i].type == ElementType::Int64 ? 8 : 4;
      found.push_back({static_cast<unsigned char *>(view.data), view.count * width, width});
    }
    return found;
  }

  Runner runner;
  Examples data;
};

int start(const char *uri) {
  const Clock::time_point begin = Clock::now();
  const Model model = opened(uri);
  Runner runner = model.newRunner();
  if (Status s = runner.evaluate(); !s)
    fail(s.toString());
  const double took = milliseconds(begin);
  std::printf("%.4f %ld\n", took, residentKilobytes());
  return 0;
}

int threads(bool shared, const char *uri, const char *examples, long time) {
  std::vector<Model> models;
  std::vector<std::unique_ptr<Asker>> askers;
  for (int i = 0; i < 2; ++i) {
    if (i == 0 || !shared)
      models.push_back(opened(uri));
    askers.push_back(std::make_unique<Asker>(models.back(), examples));
    Asker &asker = *askers.back();
    asker.data.check([&] { return asker.evaluate(); });
  }
  std::atomic<int> waiting{2};
  std::atomic<long> evaluations{0};
  std::vector<std::thread> running;
  for (auto &asker : askers)
    running.emplace_back([&asker, &waiting, &evaluations, time] {
      --waiting;
      while (waiting)
        std::this_thread::yield();
      long count = 0;
      const Clock::time_point begin = Clock::now();
      while (milliseconds(begin) < static_cast<double>(time))
        for (int i = 0; i < 16; ++i, ++count)
          asker->evaluate();
      evaluations += count;
    });
  for (std::thread &thread : running)
    thread.join();
  std::printf("%ld\n", evaluations.load());
  return 0;
}

} // namespace

int main(int count, char **arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  if (mode == "start" && count == 3)
    return start(arguments[2]);
  if (mode == "threads" && count == 6)
    return threads(arguments[2] == std::string("one"), arguments[3], arguments[4],
                   std::strtol(arguments[5], nullptr, 10));
  if (mode != "ask" || count != 4)
    fail("usage: in-process-client ask URI EXAMPLES | start URI | threads one|two URI EXAMPLES MS");
  Model model = opened(arguments[2]);
  Asker asker(model, arguments[3]);
  asker.data.serveLines([&] { return asker.evaluate(); });
  return 0;
}
