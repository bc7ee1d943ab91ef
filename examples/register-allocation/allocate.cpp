// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocates registers of made-up functions with the agents that a URI names, and prints a hash of
// all that they saw and decided. `allocate function:rules`, `allocate unix:/tmp/agents.sock`;
// `allocate --serve URI` serves the rules to others, `allocate --environment URI` waits for a
// driver.
#include "allocator.h"
#include "policies.h"

#include <cstdio>
#include <cstring>

static int play(const char *uris) {
  RegisterAllocator pass;
  mlbridge::Agents agents = mlbridge::Agents::open(pass, uris);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    mlbridge::EpisodeOptions options;
    options.seed = seed;
    options.context = "function " + std::to_string(seed);
    const mlbridge::EpisodeResult result = mlbridge::run(pass, agents, options);
    if (!result.status) {
      std::fprintf(stderr, "%s\n", result.status.toString().c_str());
      pass.fallBack();
    }
    std::printf("%u ranges, %llu steps, %016llx\n", unsigned(pass.allocation().ranges),
                static_cast<unsigned long long>(result.steps),
                static_cast<unsigned long long>(pass.allocation().trace));
  }
  return 0;
}

static int serve(const char *uri, bool environment) {
  RegisterAllocator pass;
  mlbridge::ServerOptions options;
  options.agents.assign(pass.agents().begin(), pass.agents().end());
  options.environment = environment;
  mlbridge::Expected<mlbridge::Server> server = mlbridge::Server::listen(uri, options);
  if (!server) {
    std::fprintf(stderr, "%s\n", server.status().toString().c_str());
    return 1;
  }
  if (environment)
    return mlbridge::serve(pass, *server).status ? 0 : 1;
  while (true) {
    mlbridge::Expected<mlbridge::Event> event = server->next();
    if (event)
      policies::answer(*event);
  }
}

int main(int argc, char **argv) {
  (void)policies::registerAs("rules");
  if (argc == 3 && std::strcmp(argv[1], "--serve") == 0)
    return serve(argv[2], false);
  if (argc == 3 && std::strcmp(argv[1], "--environment") == 0)
    return serve(argv[2], true);
  return play(argc > 1 ? argv[1] : "function:rules");
}
