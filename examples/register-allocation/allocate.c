/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The same in C: `allocate-c unix:/tmp/agents.sock`. */
#include "allocator_c.h"

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv) {
  static Allocator pass;
  allocator_begin(&pass);
  mlbridge_agents *agents = mlbridge_agents_open(pass.environment, argc > 1 ? argv[1] : "", NULL);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    char function[32];
    (void)snprintf(function, sizeof function, "function %" PRIu64, seed);
    const mlbridge_episode_options options = {
        .size = sizeof options, .context = function, .seed = seed};
    mlbridge_episode_result result = {.size = sizeof result};
    if (mlbridge_environment_run(pass.environment, agents, &options, &result))
      (void)fprintf(stderr, "%s\n", mlbridge_environment_message(pass.environment));
    printf("%u ranges, %" PRIu64 " steps, %016" PRIx64 "\n", pass.allocation.ranges, result.steps,
           pass.allocation.trace);
  }
  mlbridge_agents_close(agents);
  allocator_end(&pass);
  return 0;
}
