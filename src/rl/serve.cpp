// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An environment that is driven from outside. To the asking loop the driver is an agent: an
// evaluation answers the last reset or step with the observation, and waits for the next step.
#include <mlbridge/environment.h>
#include <mlbridge/server.h>

#include "runner/backend.h"

#include <cstring>

namespace mlbridge {

namespace {

/// The conversation with the driver, between episodes and within one.
struct Drive {
  explicit Drive(Server &from) : server(from) {}
  Server &server;
  Event pending;      ///< the reset or step that is to be answered
  bool owed = false;  ///< there is one
  bool again = false; ///< it is a reset that came instead of a step
  bool left = false;  ///< the driver has gone
  uint64_t steps = 0;
  double reward = 0;

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
      return Status::ok();
    }
  }
};

Status copy(const TensorView &from, const TensorView &to) {
  if (from.count != to.count)
    return Status(Code::Internal, "an observation changed its size while it was sent");
  if (from.type == ElementType::String)
    std::copy_n(static_cast<const std::string *>(from.data), from.count,
                static_cast<std::string *>(to.data));
  else if (from.count)
    std::memcpy(to.data, from.data, from.bytes());
  return Status::ok();
}

class DrivenRunner final : public RunnerBackend {
public:
  DrivenRunner(Drive &drive, const Signature &signature) : drive_(drive), signature_(signature) {
    for (const TensorSpec &spec : signature.inputs)
      observation_.push_back(spec.isDynamic() ? Tensor() : Tensor(spec));
  }
  TensorView input(size_t index) override { return observation_[index].view(); }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    if (Status s = observation_[index].reshape(signature_.inputs[index], shape); !s)
      return s;
    return observation_[index].view();
  }
  TensorView output(size_t index) override { return drive_.pending.input(index); }

  Status evaluate(Duration) override {
    for (size_t i = 0; i < observation_.size(); ++i) {
      const TensorView from = observation_[i].view();
      Expected<TensorView> to = drive_.pending.resizeOutput(i, from.shape);
      if (!to)
        return to.status();
      if (Status s = copy(from, *to); !s)
        return s;
    }
    drive_.owed = false;
    // A driver that has gone shows when the next message is awaited.
    (void)drive_.pending.reply(drive_.reward, false);
    drive_.reward = 0;
    if (Status s = drive_.await(Deadline::never()); !s)
      return s;
    drive_.again = drive_.pending.kind() == EventKind::Reset;
    if (drive_.again)
      return Status(Code::Cancelled, "the driver began another episode");
    ++drive_.steps;
    return Status::ok();
  }
  Status reward(double value) override {
    drive_.reward = value;
    return Status::ok();
  }
  Status endEpisode(const Status &outcome) override {
    if (!drive_.owed || drive_.again) // a reset is the next episode's to answer
      return Status::ok();
    drive_.owed = false;
    Status sent =
        outcome ? drive_.pending.reply(drive_.reward, true) : drive_.pending.fail(outcome);
    drive_.reward = 0;
    return sent;
  }

private:
  Drive &drive_;
  const Signature signature_;
  std::vector<Tensor> observation_;
};

class DrivenModel final : public ModelBackend {
public:
  DrivenModel(Drive &drive, Signature signature)
      : drive_(drive), signature_(std::move(signature)) {}
  const Metadata &metadata() const override { return metadata_; }
  const Signature *signature() const override { return &signature_; }
  Expected<std::unique_ptr<RunnerBackend>> newRunner(const Signature &bound,
                                                     const OpenOptions &) override {
    return std::unique_ptr<RunnerBackend>(std::make_unique<DrivenRunner>(drive_, bound));
  }

private:
  Drive &drive_;
  const Metadata metadata_;
  const Signature signature_;
};

} // namespace

ServeResult serve(Environment &environment, Server &server, const ServeOptions &options) {
  ServeResult result;
  Drive drive{server};
  OpenOptions forever;
  forever.deadline = Duration::max();
  Model model =
      Model::fromBackend(std::make_shared<DrivenModel>(drive, environment.signature()), forever);
  result.status = model.bind(environment.signature());
  if (!result.status)
    return result;
  Runner agent = model.newRunner();
  while (true) {
    if (!drive.owed)
      result.status = drive.await(Deadline::after(options.idle));
    drive.left = false;
    if (!result.status) {
      if (result.status.code() == Code::Closed && options.keepServing)
        continue;
      if (result.status.code() == Code::Closed)
        result.status = Status::ok();
      break;
    }
    EpisodeOptions episode;
    episode.maxSteps = options.maxSteps;
    episode.context = std::string(drive.pending.context().context);
    episode.seed = drive.pending.seed();
    drive.again = false;
    const uint64_t before = drive.steps;
    const EpisodeResult played = run(environment, agent, episode);
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

} // namespace mlbridge
