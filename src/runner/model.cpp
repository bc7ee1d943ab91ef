// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Model: opening, binding, and making Runners.
#include <mlbridge/model.h>

#include "runner/registry.h"
#include "runner/runner_state.h"

namespace mlbridge {

struct Model::State {
  Status opening; ///< of open
  Status status;  ///< of open and bind
  std::string uri;
  OpenOptions options;
  std::shared_ptr<ModelBackend> backend;
  std::shared_ptr<const Binding> binding; ///< to nothing if there is a failure
};

Model::Model() : state_(std::make_shared<State>()) {
  state_->opening = state_->status = Status(Code::Unavailable, "no model was opened");
}
Model::Model(std::shared_ptr<State> state) : state_(std::move(state)) {}

// Options of the URI go first, and are no longer the engine's or transport's concern.
static Status mergeOptions(Uri &uri, OpenOptions &options) {
  Expected<Duration> deadline = uri.duration("deadline", options.deadline);
  if (!deadline)
    return deadline.status();
  options.deadline = *deadline;
  options.agent = uri.option("agent", options.agent);
  options.episode = uri.option("episode", options.episode);
  options.context = uri.option("context", options.context);
  for (const char *key : {"deadline", "agent", "episode", "context"})
    uri.options.erase(key);
  return Status();
}

static Status checkBackend(const ModelBackend &backend) {
  if (const Signature *signature = backend.signature())
    if (Status s = signature->check(); !s)
      return Status(Code::InvalidModel, "the model's signature: " + s.message());
  return Status();
}

Model Model::open(std::string_view text, const OpenOptions &options) {
  auto state = std::make_shared<State>();
  state->uri = std::string(text);
  state->options = options;
  const auto failed = [&](const Status &why) {
    state->opening = state->status = why;
    return Model(state);
  };
  Expected<Uri> uri = Uri::parse(text);
  if (!uri)
    return failed(uri.status());
  const std::string where = "'" + state->uri + "'";
  if (Status s = mergeOptions(*uri, state->options); !s)
    return failed(s.withContext(where));
  Expected<std::shared_ptr<ModelBackend>> backend = openBackend(*uri, state->options);
  if (!backend)
    return failed(backend.status().withContext(where));
  if (Status s = checkBackend(**backend); !s)
    return failed(s.withContext(where));
  state->backend = std::move(*backend);
  return Model(std::move(state));
}

Model Model::fromBackend(std::shared_ptr<ModelBackend> backend, const OpenOptions &options) {
  auto state = std::make_shared<State>();
  state->options = options;
  if (!backend)
    state->opening = Status(Code::InvalidArgument, "a model was made from nothing");
  else
    state->opening = checkBackend(*backend);
  state->status = state->opening;
  if (state->opening)
    state->backend = std::move(backend);
  return Model(std::move(state));
}

const Status &Model::status() const { return state_->status; }
const std::string &Model::uri() const { return state_->uri; }

const Metadata &Model::metadata() const {
  static const auto *none = new Metadata;
  return state_->backend ? state_->backend->metadata() : *none;
}

std::optional<std::string> Model::metadata(std::string_view key) const {
  const Metadata &all = metadata();
  const auto it = all.find(std::string(key));
  return it == all.end() ? std::nullopt : std::optional<std::string>(it->second);
}

const Signature *Model::modelSignature() const {
  if (!state_->backend)
    return nullptr;
  return state_->backend->signatureOf(state_->options.agent).valueOr(nullptr);
}

Status Model::bind(const Signature &signature) {
  State &s = *state_;
  s.status = s.opening;
  if (s.status) {
    Expected<std::shared_ptr<const Binding>> binding = s.backend->bind(signature, s.options.agent);
    if (binding) {
      s.binding = std::move(*binding);
      return Status();
    }
    s.status = s.uri.empty() ? binding.status() : binding.status().withContext("'" + s.uri + "'");
  }
  // So that a pass that fills buffers in place need not look whether there is a model.
  s.binding = signature.check() ? bindToNothing(signature) : nullptr;
  return s.status;
}

Model Model::boundTo(const Signature &signature, std::string_view agent) const {
  Model other(std::make_shared<State>(*state_));
  if (!agent.empty())
    other.state_->options.agent = std::string(agent);
  (void)other.bind(signature); // its failure is in its status
  return other;
}

const Signature *Model::signature() const {
  return state_->status && state_->binding ? &state_->binding->caller : nullptr;
}

Expected<Metadata> Model::statistics() const {
  if (!state_->backend)
    return state_->status;
  return state_->backend->statistics();
}

Runner Model::newRunner() const { return newRunner(OpenOptions()); }

Runner Model::newRunner(const OpenOptions &overrides) const {
  const State &s = *state_;
  if (!s.status)
    return Runner(Runner::State::failed(s.status, s.binding));
  if (!s.binding)
    return Runner(Status(Code::InvalidArgument, "bind a signature to the model first"));
  OpenOptions options = s.options;
  if (!overrides.agent.empty())
    options.agent = overrides.agent;
  if (!overrides.episode.empty())
    options.episode = overrides.episode;
  if (!overrides.context.empty())
    options.context = overrides.context;
  Expected<std::unique_ptr<Runner::State>> state =
      Runner::State::bound(s.backend, s.binding, std::move(options));
  if (!state)
    return Runner(Runner::State::failed(state.status(), bindToNothing(s.binding->caller)));
  return Runner(std::move(*state));
}

Runner open(std::string_view uri, const Signature &signature, const OpenOptions &options) {
  Model model = Model::open(uri, options);
  (void)model.bind(signature); // its failure is in the Runner
  return model.newRunner();
}

Runner open(std::string_view uri, const OpenOptions &options) {
  return Runner::inferring(Model::open(uri, options));
}

Runner Runner::inferring(const Model &opened) {
  Model model = opened;
  if (!model)
    return Runner(model.status());
  if (const Signature *own = model.modelSignature()) {
    (void)model.bind(inferredFrom(*own));
    Runner runner = model.newRunner();
    if (runner.state_)
      runner.state_->inferred = true;
    return runner;
  }
  auto state = std::make_unique<State>();
  state->backend = model.state_->backend;
  state->options = model.state_->options;
  state->inferring = true;
  return Runner(std::move(state));
}

} // namespace mlbridge
