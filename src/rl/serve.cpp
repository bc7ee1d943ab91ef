// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An environment that is driven from outside. To the asking loop the driver is an agent: an
// evaluation answers the last reset or step with the observation, and waits for the next step.
// Several agents are several Runners of one conversation; others may be asked in its middle.
#include <mlbridge/environment.h>
#include <mlbridge/server.h>

#include "core/backend.h"
#include "core/convert.h"
#include "rl/player.h"

namespace mlbridge {

namespace {

/// The conversation with the driver, between episodes and within one.
struct Drive {
  Drive(Server &from, const Environment &served) : server(from), environment(served) {}
  Server &server;
  const Environment &environment;
  std::vector<size_t> driven; ///< the environment's number of each agent of the server; empty: one
  Event pending;              ///< the reset or step that is to be answered
  bool owed = false;          ///< there is one
  bool again = false;         ///< it is a reset that came instead of a step
  bool left = false;          ///< the driver has gone
  bool truncated = false;
  uint64_t steps = 0;
  std::vector<double> rewards;

  /// The reward of each agent since it acted.
  Status reply(bool done) {
    owed = false;
    if (driven.empty())
      return pending.reply(
          pending.kind() == EventKind::Step ? EpisodePlayer::rewardSince(environment, 0) : 0, done,
          truncated);
    rewards.clear();
    for (const size_t agent : driven)
      rewards.push_back(EpisodePlayer::rewardSince(environment, agent));
    return pending.reply(Span<const double>(rewards), done, truncated);
  }

  /// The next reset or step, in `pending`. Errors: Closed (the driver has left), Cancelled (stop),
  /// DeadlineExceeded.
  Status await(Deadline deadline) {
    while (true) {
      Expected<Event> event = server.next(deadline);
      if (!event) {
        if (event.status().code() == Code::Cancelled && !server.isStopped())
          continue;
        return event.status();
      }
      if (event->kind() == EventKind::EpisodeEnd) {
        left = true;
        return Status(Code::Closed, "the driver has left");
      }
      if (event->kind() != EventKind::Reset && event->kind() != EventKind::Step)
        continue;
      pending = std::move(*event);
      owed = true;
      return Status();
    }
  }
};

struct DrivenAgent {
  Drive &drive;
  Signature signature;
  int number; ///< of the server's, or -1 for the only one
  std::string name;
};

class DrivenRunner final : public RunnerBackend {
public:
  explicit DrivenRunner(const DrivenAgent &agent) : drive_(agent.drive), agent_(agent) {
    for (const TensorSpec &spec : agent.signature.inputs)
      observation_.push_back(spec.isDynamic() ? Tensor() : Tensor(spec));
  }
  TensorView input(size_t index) override { return observation_[index].view(); }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    if (Status s = observation_[index].reshape(agent_.signature.inputs[index], shape); !s)
      return s;
    return observation_[index].view();
  }
  TensorView output(size_t index) override { return drive_.pending.input(index); }

  Status evaluate(Duration) override {
    if (Status s = write(); !s)
      return s;
    // A driver that has gone shows when the next message is awaited.
    (void)drive_.reply(false);
    if (Status s = drive_.await(Deadline::never()); !s)
      return s;
    drive_.again = drive_.pending.kind() == EventKind::Reset;
    if (drive_.again)
      return Status(Code::Cancelled, "the driver began another episode");
    if (agent_.number >= 0 && drive_.pending.context().agent != agent_.name)
      return Status(Code::InvalidArgument, "the driver sent an action of agent '" +
                                               drive_.pending.context().agent +
                                               "', expected one of agent '" + agent_.name + "'");
    ++drive_.steps;
    return Status();
  }
  /// One that cannot be sent, such as one in which a length was never set, is none.
  void lastObservation() override {
    if (drive_.owed && write())
      (void)drive_.pending.sendLast();
  }
  void truncateEpisode() override { drive_.truncated = true; }
  Status endEpisode(const Status &outcome) override {
    if (!drive_.owed || drive_.again) // a reset is the next episode's to answer
      return Status();
    if (outcome)
      return drive_.reply(true);
    drive_.owed = false;
    return drive_.pending.fail(outcome);
  }

private:
  /// Copies the observation into the answer.
  Status write() {
    if (agent_.number >= 0)
      if (Status s = drive_.pending.setAgent(static_cast<size_t>(agent_.number)); !s)
        return s;
    for (size_t i = 0; i < observation_.size(); ++i) {
      const TensorView from = observation_[i].view();
      Expected<TensorView> to = drive_.pending.resizeOutput(i, from.shape);
      if (!to)
        return to.status();
      if (from.count != to->count)
        return Status(Code::Internal, "an observation changed its size while it was sent");
      copySame(*to, from.data);
    }
    return Status();
  }

  Drive &drive_;
  const DrivenAgent agent_;
  std::vector<Tensor> observation_;
};

class DrivenModel final : public ModelBackend {
public:
  explicit DrivenModel(DrivenAgent agent) : agent_(std::move(agent)) {}
  const Metadata &metadata() const override { return metadata_; }
  const Signature *signature() const override { return &agent_.signature; }
  Expected<std::unique_ptr<RunnerBackend>> newRunner(const Signature &bound, const CallContext &,
                                                     Duration) override {
    return std::unique_ptr<RunnerBackend>(
        new DrivenRunner({agent_.drive, bound, agent_.number, agent_.name}));
  }

private:
  const Metadata metadata_;
  const DrivenAgent agent_;
};

Runner drivenRunner(const DrivenAgent &agent) {
  OpenOptions forever;
  forever.deadline = Duration::max();
  Model model = Model::fromBackend(std::make_shared<DrivenModel>(agent), forever);
  (void)model.bind(agent.signature); // its failure is in the Runner
  return model.newRunner();
}

/// All agents of an episode: those that the server names are driven, the others are asked.
struct Cast {
  std::vector<Runner> driven;
  std::vector<Runner *> all;

  Status gather(Environment &environment, Drive &drive, Agents *others) {
    const Span<const AgentSpec> specs = environment.agents();
    if (Status s = checkAgents(specs); !s)
      return s;
    const Span<const AgentSpec> named = drive.server.agents();
    if (specs.empty()) {
      driven.push_back(drivenRunner({drive, environment.signature(), -1, ""}));
      all.push_back(&driven.back());
      return driven.back().status();
    }
    if (others && others->specs().size() == specs.size())
      all = EpisodePlayer::runnersOf(*others);
    all.resize(specs.size());
    driven.reserve(named.size());
    for (size_t i = 0; i < named.size(); ++i) {
      const int number = findAgent(specs, named[i].name);
      if (number < 0 || specs[static_cast<size_t>(number)] != named[i])
        return Status(Code::Mismatch,
                      "the server was made with an agent '" + named[i].name +
                          "', which the environment does not have with this signature");
      driven.push_back(
          drivenRunner({drive, named[i].signature, static_cast<int>(i), named[i].name}));
      drive.driven.push_back(static_cast<size_t>(number));
      all[static_cast<size_t>(number)] = &driven.back();
    }
    for (size_t i = 0; i < all.size(); ++i)
      if (!all[i])
        return Status(Code::NotFound,
                      "agent '" + specs[i].name + "' has neither a driver nor a model");
    return Status();
  }
};

} // namespace

static ServeResult serve(Environment &environment, Server &server, Agents *others,
                         const ServeOptions &options) {
  ServeResult result;
  Drive drive{server, environment};
  Cast cast;
  result.status = cast.gather(environment, drive, others);
  if (!result.status)
    return result;
  while (true) {
    if (!drive.owed)
      result.status = drive.await(Deadline::after(options.idle));
    drive.left = false;
    if (!result.status) {
      if (result.status.code() == Code::Closed && options.keepServing)
        continue;
      if (result.status.code() == Code::Closed)
        result.status = Status();
      break;
    }
    EpisodeOptions episode;
    episode.maxSteps = options.maxSteps;
    episode.unit = drive.pending.context().unit;
    episode.seed = drive.pending.seed();
    drive.again = drive.truncated = false;
    const uint64_t before = drive.steps;
    const EpisodeResult played = run(environment, Span<Runner *const>(cast.all), episode);
    if (drive.owed && !drive.again) { // it could not even begin
      drive.owed = false;
      (void)drive.pending.fail(played.status);
    }
    ++result.episodes;
    result.steps += drive.steps - before;
    if (drive.left) {
      drive.left = false;
      if (!options.keepServing)
        break;
    } else if (played.status.code() == Code::Cancelled && server.isStopped()) {
      result.status = played.status;
      break;
    }
  }
  return result;
}

ServeResult serve(Environment &environment, Server &server, const ServeOptions &options) {
  return serve(environment, server, nullptr, options);
}

ServeResult serve(Environment &environment, Server &server, Agents &others,
                  const ServeOptions &options) {
  return serve(environment, server, &others, options);
}

} // namespace mlbridge
