// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ask URI: the answer of a model for [0.5, 2, 1]. Nothing but the first lines knows of graphs.
#ifdef GRAPH_LINKED
#include <mlbridge/engine.h>
const mlb_component &graphComponent(); // graph.cpp
#endif
#include <mlbridge/model.h>

#include <cstdint>
#include <cstdio>

int main(int argc, char **argv) {
#ifdef GRAPH_LINKED
  if (mlbridge::Status s = mlbridge::registerComponent(graphComponent()); !s)
    std::fprintf(stderr, "%s\n", s.toString().c_str());
#endif
  const mlbridge::Signature signature = {{mlbridge::TensorSpec::of<float>("embedding", {3})},
                                         {mlbridge::TensorSpec::of<int64_t>("action")}};
  mlbridge::Runner runner = mlbridge::open(argc > 1 ? argv[1] : "", signature);
  const float embedding[] = {0.5F, 2, 1};
  (void)runner.set("embedding", mlbridge::Span<const float>(embedding)); // status() will tell
  const int64_t action = runner.evaluateOr<int64_t>([] { return int64_t{-1}; });
  std::printf("%d %s\n", int(action), runner.status().toString().c_str());
  return 0;
}
