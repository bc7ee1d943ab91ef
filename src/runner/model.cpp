// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Model: opening, binding, and making Runners.
#include <mlbridge/fitting.h>
#include <mlbridge/model.h>

#include "core/message.h"
#include "core/unfit_servers.h"
#include "core/uri_options.h"
#include "runner/registry.h"
#include "runner/runner_state.h"

#include <algorithm>
#include <mutex>
#include <set>

namespace mlbridge {

static Status noModel() { return makeError(Code::Unavailable, "no model was opened"); }

/// The part of the metadata that a caller has read, and may rely on. Thread-safe.
class Model::KnownMetadata {
public:
  KnownMetadata() = default;
  KnownMetadata(const KnownMetadata &other) {
    const std::lock_guard<std::mutex> lock(other.mutex_);
    all_ = other.all_;
    keys_ = other.keys_;
  }
  KnownMetadata &operator=(const KnownMetadata &) = delete;
  void addAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_ = true;
  }
  void add(std::string_view key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (mayDecide(key))
      keys_.emplace(key);
  }
  bool isSameIn(const Metadata &a, const Metadata &b) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (all_)
      return !differingProperty(a, b);
    return std::all_of(keys_.begin(), keys_.end(), [&](const std::string &key) {
      const auto one = a.find(key), other = b.find(key);
      return one == a.end() || other == b.end() ? (one == a.end()) == (other == b.end())
                                                : one->second == other->second;
    });
  }

private:
  mutable std::mutex mutex_;
  bool all_ = false;
  std::set<std::string> keys_;
};

struct Model::Opened {
  Status status;
  std::string uri;
  OpenOptions options; ///< with those of the URI, and a deadline
  std::shared_ptr<ModelBackend> backend;
  std::shared_ptr<KnownMetadata> known = std::make_shared<KnownMetadata>();
  std::shared_ptr<const Opened> before = nullptr; ///< whose metadata a caller may still hold
};

struct Model::Bound {
  Status status; ///< of opening and binding
  std::string agent;
  std::shared_ptr<const Binding> binding; ///< to nothing if there is a failure
};

Model::Model() : Model(std::make_shared<const Opened>(Opened{noModel(), {}, {}, nullptr})) {}
Model::Model(std::shared_ptr<const Opened> opened)
    : opened_(std::move(opened)), bound_(std::make_shared<const Bound>(Bound{
                                      opened_->status, opened_->options.context.agent, nullptr})) {}

// Options of the URI go first, and are no longer the engine's or transport's concern.
static Status mergeOptions(Uri &uri, OpenOptions &options) {
  Expected<Duration> deadline =
      uri.duration("deadline", options.deadline.value_or(DefaultDeadline));
  if (!deadline)
    return deadline.status();
  options.deadline = *deadline;
  uri.options.erase("deadline");
  takeOption(uri, "agent", options.context.agent);
  takeOption(uri, "episode", options.context.episode);
  takeOption(uri, "unit", options.context.unit);
  return Status();
}

static Status checkBackend(const ModelBackend &backend) {
  if (const Signature *signature = backend.signature())
    if (Status s = signature->check(); !s)
      return makeError(Code::InvalidModel, "the model's signature: ", s.message());
  return Status();
}

// `memory` is null for a model that the URI names.
static OpenedBackend openChecked(std::string_view text, const Span<const uint8_t> *memory,
                                 OpenOptions &options, Deadline until = Deadline::never()) {
  Expected<Uri> uri = Uri::parse(text);
  if (!uri)
    return uri.status();
  const std::string where = "'" + std::string(text) + "'";
  if (Status s = mergeOptions(*uri, options); !s)
    return s.withContext(where);
  OpenedBackend backend = openBackend(*uri, {options, until}, memory);
  if (!backend)
    return backend.status().withContext(where);
  if (Status s = checkBackend(**backend); !s)
    return s.withContext(where);
  return backend;
}

Model Model::openFrom(std::string_view uri, const Span<const uint8_t> *memory,
                      const OpenOptions &options) {
  auto opened = std::make_shared<Opened>(Opened{Status(), std::string(uri), options, nullptr});
  OpenedBackend backend = openChecked(uri, memory, opened->options);
  opened->status = backend.status();
  if (backend)
    opened->backend = std::move(*backend);
  return Model(std::move(opened));
}

Model Model::open(std::string_view uri, const OpenOptions &options) {
  return openFrom(uri, nullptr, options);
}

Model Model::fromMemory(std::string_view uri, const void *data, size_t size,
                        const OpenOptions &options) {
  const Span<const uint8_t> bytes(static_cast<const uint8_t *>(data), data ? size : 0);
  return openFrom(uri, &bytes, options);
}

Model Model::fromBackend(std::shared_ptr<ModelBackend> backend, const OpenOptions &options) {
  auto opened = std::make_shared<Opened>(Opened{Status(), {}, options, nullptr});
  opened->options.deadline = options.deadline.value_or(DefaultDeadline);
  opened->status =
      backend ? checkBackend(*backend)
              : makeError(Code::InvalidArgument, "no backend was given to make a model from");
  if (opened->status)
    opened->backend = std::move(backend);
  return Model(std::move(opened));
}

const Status &Model::status() const { return bound_->status; }
const std::string &Model::uri() const { return opened_->uri; }

const Metadata &Model::metadata() const {
  static const auto *none = new Metadata;
  opened_->known->addAll();
  return opened_->backend ? opened_->backend->metadata() : *none;
}

std::optional<std::string> Model::metadata(std::string_view key) const {
  if (!opened_->backend)
    return std::nullopt;
  opened_->known->add(key);
  const Metadata &all = opened_->backend->metadata();
  const auto it = all.find(std::string(key));
  return it == all.end() ? std::nullopt : std::optional<std::string>(it->second);
}

const Signature *Model::modelSignature() const {
  if (!opened_->backend)
    return nullptr;
  return opened_->backend->signatureOf(bound_->agent).valueOr(nullptr);
}

// True if the names, with commas between them, have this one.
static bool lists(const std::string &names, const std::string &name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

// The reason why an engine left an output out of a model's signature, if the pass asks for it.
static Status withLeftOut(const Status &status, const Signature &wanted, const Metadata &metadata) {
  for (const TensorSpec &output : wanted.outputs)
    if (const auto why = metadata.find("onnx.left_out." + output.name);
        !status && why != metadata.end())
      return makeError(status.code(), status.message(), "; the model's ", why->second);
  return status;
}

// An input with a default isn't in the signature, so what a pass gives for it would be ignored.
static Status checkDefaults(const Binding &binding, const Metadata &metadata) {
  const auto defaults = metadata.find("onnx.defaults");
  for (const Binding::Port &input : binding.inputs)
    if (input.model < 0 && defaults != metadata.end() && lists(defaults->second, input.spec.name))
      return makeError(Code::Mismatch, "the pass gives '", input.spec.name,
                       "', for which the model has a default (an initializer that is also an "
                       "input), which cannot be replaced from outside; export the model without "
                       "this initializer, or leave the input out of the pass's signature");
  return Status();
}

Status Model::bind(const Signature &signature) { return bindAs(bound_->agent, signature); }

static Expected<std::shared_ptr<const Binding>>
bindTo(const ModelBackend &backend, const std::string &agent, const Signature &signature) {
  Expected<std::shared_ptr<const Binding>> binding = backend.bind(signature, agent);
  const Metadata &metadata = backend.metadata();
  Status status = binding ? checkDefaults(**binding, metadata)
                          : withLeftOut(binding.status(), signature, metadata);
  if (!status)
    return status;
  return binding;
}

void Model::bindHere(std::string agent, const Signature &signature) {
  Bound bound{opened_->status, std::move(agent), nullptr};
  if (bound.status) {
    Expected<std::shared_ptr<const Binding>> binding =
        bindTo(*opened_->backend, bound.agent, signature);
    bound.status = binding.status();
    const std::string server = opened_->backend->server();
    if (binding)
      bound.binding = std::move(*binding);
    else if (!opened_->uri.empty())
      bound.status = bound.status.withContext(
          join("'", opened_->uri, "'", server.empty() ? "" : ": ", server));
  }
  // So that a pass that fills buffers in place need not look whether there is a model.
  if (!bound.status && signature.check())
    bound.binding = bindToNothing(signature);
  bound_ = std::make_shared<const Bound>(std::move(bound));
}

void Model::bindElsewhere(const KnownMetadata &known, const std::function<void(Model &)> &bind) {
  if (bound_->status.code() != Code::Mismatch || !opened_->backend ||
      opened_->backend->servers() == 1)
    return;
  const Deadline deadline = Deadline::after(deadlineOf(opened_->options));
  const auto count = [&] { return opened_->backend->countServers(deadline); };
  UnfitServers unfit(deadline);
  Model last = *this; // keeps the way to the next server open
  while (const std::optional<Duration> pause =
             unfit.add(last.opened_->backend->server(), bound_->status, count)) {
    last.opened_->backend->rest(*pause);
    auto opened = std::make_shared<Opened>(*opened_);
    OpenedBackend backend = openChecked(opened->uri, nullptr, opened->options, deadline);
    if (!backend)
      return;
    opened->backend = std::move(*backend);
    opened->known = std::make_shared<KnownMetadata>(known);
    opened->before = opened_;
    const bool isKnown = known.isSameIn(opened->backend->metadata(), opened_->backend->metadata());
    last = Model(std::move(opened));
    if (!isKnown)
      continue;
    bind(last);
    if (last.bound_->status) {
      *this = std::move(last);
      return;
    }
  }
}

Status Model::bindAs(std::string agent, const Signature &signature) {
  bindHere(agent, signature);
  bindElsewhere(*opened_->known, [&](Model &other) { other.bindHere(agent, signature); });
  return bound_->status;
}

Status bindFitting(Model &model, const std::function<Signature(const Model &)> &signatureFor) {
  const Model::KnownMetadata before(*model.opened_->known);
  const std::shared_ptr<const Model::Opened> first = model.opened_;
  bool isElsewhere = false;
  const auto bindHere = [&](Model &one) {
    isElsewhere = one.opened_ != first;
    one.bindHere(one.bound_->agent, signatureFor(one));
  };
  bindHere(model);
  model.bindElsewhere(before, bindHere);
  if (isElsewhere && model.opened_ == first)
    (void)signatureFor(model); // what it keeps is about this model again
  return model.status();
}

Model Model::boundTo(const Signature &signature, std::string_view agent) const {
  Model other = *this;
  // Its failure is in its status.
  (void)other.bindAs(agent.empty() ? bound_->agent : std::string(agent), signature);
  return other;
}

const Signature *Model::signature() const {
  return bound_->status && bound_->binding ? &bound_->binding->caller : nullptr;
}

Expected<Metadata> Model::statistics() const {
  if (!opened_->backend)
    return opened_->status;
  return opened_->backend->statistics();
}

Runner Model::newRunner() const { return newRunner(CallContext()); }

Runner Model::newRunner(const CallContext &stated, std::optional<Duration> deadline) const {
  const std::shared_ptr<const Binding> &binding = bound_->binding;
  if (!bound_->status)
    return Runner(Runner::State::failed(bound_->status, binding));
  if (!binding)
    return Runner(makeError(Code::InvalidArgument, "bind a signature to the model first"));
  CallContext context = opened_->options.context;
  context.agent = stated.agent.empty() ? bound_->agent : stated.agent;
  setEpisode(context, stated.episode, stated.unit);
  Expected<std::unique_ptr<Runner::State>> state =
      Runner::State::bound(opened_->backend, binding, std::move(context),
                           deadline.value_or(deadlineOf(opened_->options)));
  if (!state)
    return Runner(Runner::State::failed(state.status(), bindToNothing(binding->caller)));
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
  state->backend = model.opened_->backend;
  state->context = model.opened_->options.context;
  state->deadline = deadlineOf(model.opened_->options);
  state->inferring = true;
  return Runner(std::move(state));
}

} // namespace mlbridge
