// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocates the registers of made-up functions with the agents that a URI names, and prints what
// its spills cost: `allocate unix:agents.sock`. `allocate --environment unix:compiler.sock` waits
// for a trainer (train.py).
#include "allocator.h"

#include <mlbridge/server.h>

#include <cstdio>
#include <cstring>

static int optimize(const char *uris) {
  Allocator pass;
  mlbridge::Agents agents = mlbridge::Agents::open(pass, uris);
  float cost = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    mlbridge::EpisodeOptions options;
    options.seed = seed;
    options.unit = "function " + std::to_string(seed);
    if (const mlbridge::Status status = mlbridge::run(pass, agents, options).status; !status) {
      std::fprintf(stderr, "%s\n", status.toString().c_str());
      pass.ranges().allocateTheRest();
    }
    cost += pass.ranges().cost();
  }
  std::printf("spills cost %g\n", static_cast<double>(cost));
  return 0;
}

static int wait(const char *uri) {
  Allocator pass;
  mlbridge::ServerOptions options;
  options.agents.assign(pass.agents().begin(), pass.agents().end());
  options.environment = true;
  mlbridge::Expected<mlbridge::Server> server = mlbridge::Server::listen(uri, options);
  const mlbridge::Status status = server ? mlbridge::serve(pass, *server).status : server.status();
  if (!status)
    std::fprintf(stderr, "%s\n", status.toString().c_str());
  return status ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc == 3 && std::strcmp(argv[1], "--environment") == 0)
    return wait(argv[2]);
  return optimize(argc > 1 ? argv[1] : "");
}
