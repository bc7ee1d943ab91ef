// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An agent's server dies, or falls silent, at a random step of an episode. Every episode ends with
// a status within its deadline, the pass falls back, and the next one may have a new server.
#include "allocator.h"
#include "choose.h"

#include "testing/campaign.h"
#include "testing/server_thread.h"

#include <csignal>
#include <sys/wait.h>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

enum class Fate : uint32_t { DiesBefore, DiesAfter, Refuses, FallsSilent };

/// A process that serves until the request with that number, from 0.
class DoomedServer {
public:
  DoomedServer(const std::string &uri, const std::vector<AgentSpec> &agents, uint64_t fatal,
               Fate fate) {
    int ready[2];
    if (::pipe(ready) != 0)
      return;
    pid_ = ::fork(); // this process has one thread
    if (pid_ == 0) {
      ::close(ready[0]);
      serve(uri, agents, fatal, fate, ready[1]);
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~DoomedServer() {
    if (pid_ <= 0)
      return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

private:
  [[noreturn]] static void serve(const std::string &uri, const std::vector<AgentSpec> &agents,
                                 uint64_t fatal, Fate fate, int ready) {
    ServerOptions options;
    options.agents = agents;
    Expected<Server> server = Server::listen(uri, options);
    if (!server || ::write(ready, "r", 1) != 1)
      ::_exit(1);
    for (uint64_t answered = 0;;) {
      Expected<Event> event = server->next();
      if (!event || event->kind() != EventKind::Request)
        continue;
      if (answered == fatal && fate == Fate::DiesBefore)
        ::raise(SIGKILL);
      if (answered == fatal && fate == Fate::FallsSilent)
        ::raise(SIGSTOP);
      if (answered++ == fatal && fate == Fate::Refuses)
        (void)event->fail(Status(Code::PolicyFailed, "the graph is too large"));
      else
        answer(*event);
      if (answered > fatal && fate == Fate::DiesAfter)
        ::raise(SIGKILL);
    }
  }
  pid_t pid_ = -1;
};

uint64_t draw(uint64_t &state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 33;
}

class Killed : public ::testing::TestWithParam<const char *> {};

TEST_P(Killed, AtARandomStepTheEpisodeEndsAndThePassFallsBack) {
  const std::string kind = GetParam();
  const uint64_t episodes = campaign(250, 50);
  TemporaryFolder folder;
  Allocator pass;
  ASSERT_TRUE(registerChoose(("allocation-" + kind).c_str()));
  Agents own = Agents::open(pass, "function:allocation-" + kind);
  std::vector<AgentSpec> agents(pass.agents().begin(), pass.agents().end());
  std::array<unsigned, 15> codes{};
  unsigned fallbacks = 0;
  for (uint64_t seed = 1; seed <= episodes; ++seed) {
    SCOPED_TRACE(seed);
    EpisodeOptions options;
    options.seed = seed;
    const uint64_t steps = run(pass, own, options).steps;
    const std::vector<int64_t> whole = pass.ranges().registers;
    uint64_t random = seed;
    const uint64_t fatal = draw(random) % steps;
    // Silence costs the deadline, so it is seldom.
    const Fate fate = draw(random) % 25 == 0 ? Fate::FallsSilent : Fate(draw(random) % 3);
    const std::string uri = kind + ":" + folder / std::to_string(seed);
    const DoomedServer server(uri, agents, fatal, fate);

    // Longer ones would never end this test: not even a busy machine needs them.
    options.deadline = fate == Fate::FallsSilent ? Duration(200ms) : Duration(2h);
    Agents asked = Agents::open(pass, uri + "?deadline=2h");
    const EpisodeResult result = run(pass, asked, options);
    const bool isWhole = fate == Fate::DiesAfter && fatal + 1 == steps;
    EXPECT_EQ(result.status.ok(), isWhole) << result.status.toString();
    if (!result.status) {
      if (fate != Fate::FallsSilent) {
        EXPECT_GE(result.steps, fatal);
      }
      EXPECT_LE(result.steps, fatal + 1);
      EXPECT_GE(result.failedAgent, 0) << result.status.toString();
      const std::string where = "step " + std::to_string(result.steps) + ", agent '" +
                                agents[static_cast<size_t>(result.failedAgent)].name + "': ";
      EXPECT_EQ(result.status.message().find(where), 0u) << result.status.toString();
      const Code expected = fate == Fate::FallsSilent ? Code::DeadlineExceeded
                            : fate == Fate::Refuses   ? Code::PolicyFailed
                                                      : Code::Closed;
      EXPECT_EQ(result.status.code(), expected) << result.status.toString();
      pass.ranges().allocateTheRest();
      ++fallbacks;
    } else {
      EXPECT_EQ(pass.ranges().registers, whole);
    }
    ++codes[static_cast<size_t>(result.status.code())];
    EXPECT_TRUE(pass.ranges().isComplete());
  }
  EXPECT_GT(fallbacks, episodes * 9 / 10);
  EXPECT_GT(codes[static_cast<size_t>(Code::Closed)], 0u);
  EXPECT_GT(codes[static_cast<size_t>(Code::PolicyFailed)], 0u);
  EXPECT_GT(codes[static_cast<size_t>(Code::DeadlineExceeded)], 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Killed, ::testing::Values("unix", "shm"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace mlbridge
