// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runner: what is done once, and what goes wrong; evaluate.cpp has the rest.
#include <mlbridge/runner.h>

#include "core/convert.h"
#include "core/message.h"
#include "core/nearest.h"
#include "runner/runner_state.h"

#include <algorithm>

namespace mlbridge {

// The failure of a Runner that was default-constructed or moved from.
const Status &Runner::State::noModel() {
  static const auto *status = new Status(Code::Unavailable, "no model was opened");
  return *status;
}

static Status noSignature() {
  return makeError(Code::InvalidArgument,
                   "the model takes any signature and none was stated: set "
                   "each input by name once before using its buffer or index");
}

Runner::Runner() = default;
Runner::Runner(Status failure) : state_(State::failed(std::move(failure), nullptr)) {
  if (state_->failure.ok())
    state_->failure = state_->last = State::noModel();
}
Runner::Runner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Runner::~Runner() = default;
Runner::Runner(Runner &&) noexcept = default;
Runner &Runner::operator=(Runner &&) noexcept = default;

const Status &Runner::status() const { return state_ ? state_->last : State::noModel(); }

const Signature *Runner::signature() const {
  return state_ && state_->runner ? &state_->binding->caller : nullptr;
}

void Runner::clearStatus() {
  if (!state_)
    return;
  for (State::Input &input : state_->inputs)
    input.wrong = Status();
  state_->wrongInputs = 0;
  state_->unknownInput = state_->wrongBinding = Status();
  state_->refreshLast();
}

static Status typeError(const char *what, const TensorSpec &spec, ElementType type) {
  return makeError(Code::InvalidArgument, what, " '", spec.toString(), "' was used as ",
                   mlbridge::name(type));
}

Status Runner::State::unknown(const char *what, const TensorKey &key,
                              const std::vector<TensorSpec> Signature::*side) const {
  static const std::vector<TensorSpec> none;
  const std::vector<TensorSpec> &specs = binding ? binding->caller.*side : none;
  const std::vector<std::string_view> names = namesOf(specs);
  return makeError(Code::InvalidArgument, "there is no ", what, " ", key.toString(),
                   key.name_ ? didYouMean(key.name(), names) : std::string(), " (", what,
                   "s: ", listOf(names), ")");
}

Expected<Runner::State::Input *> Runner::State::inputOf(const TensorKey &key, ElementType type) {
  Input *input = find(key);
  if (!input)
    return reject(nullptr, unknown("input", key, &Signature::inputs));
  if (type != input->port->spec.type)
    return reject(input, typeError("input", input->port->spec, type));
  return input;
}

Expected<TensorView> Runner::State::pendingTensor(const TensorKey &key, ElementType type,
                                                  Span<const int64_t> shape) {
  if (!key.name_)
    return reject(nullptr, noSignature());
  TensorSpec spec;
  spec.name = std::string(key.name());
  spec.type = type;
  spec.shape.assign(shape.begin(), shape.end());
  const auto known = std::find_if(pending.begin(), pending.end(), [&](const Tensor &tensor) {
    return tensor.spec().name == key.name();
  });
  if (known != pending.end() && known->spec() == spec)
    return known->view();
  Expected<Tensor> fresh = Tensor::make(spec, shape);
  if (!fresh)
    return reject(nullptr, fresh.status());
  if (known == pending.end())
    return pending.emplace_back(std::move(*fresh)).view();
  *known = std::move(*fresh);
  return known->view();
}

Status Runner::State::set(const TensorKey &key, ElementType type, const void *data, size_t count,
                          bool scalar) {
  if (!failure.ok())
    return failure;
  if (inferring) {
    const int64_t length = static_cast<int64_t>(count);
    Expected<TensorView> view = pendingTensor(key, type, {&length, size_t(scalar ? 0 : 1)});
    return view ? copyElements(*view, type, data) : view.status();
  }
  Input *input = find(key);
  if (!input) {
    if (!inferred || !key.name_)
      return reject(nullptr, unknown("input", key, &Signature::inputs));
    if (std::find(ignored.begin(), ignored.end(), key.name()) == ignored.end())
      ignored.emplace_back(key.name());
    return Status();
  }
  unbind(*input);
  if (Status why = fitTo(*input, count); !why)
    return reject(input, std::move(why));
  if (Status why = copyElements(input->view, type, data); !why)
    return reject(
        input, makeError(why.code(), "input '", input->port->spec.toString(), "' ", why.message()));
  accept(*input);
  return Status();
}

Status Runner::set(TensorKey input, const std::vector<bool> &values) {
  const std::unique_ptr<bool[]> copy(new bool[values.size()]);
  std::copy(values.begin(), values.end(), copy.get());
  return setElements(input, ElementType::Bool, copy.get(), values.size(), false);
}

TensorView Runner::inputView(TensorKey key, ElementType type) {
  if (!state_)
    state_ = State::failed(State::noModel(), nullptr);
  State &s = *state_;
  if (s.inferring) {
    for (Tensor &tensor : s.pending)
      if (key.name_ && tensor.spec().name == key.name() && tensor.spec().type == type)
        return tensor.view();
    (void)s.reject(nullptr, noSignature());
    return s.writable(type, std::nullopt);
  }
  Expected<State::Input *> input = s.inputOf(key, type);
  if (!input) {
    const State::Input *other = s.find(key);
    return s.writable(type, other ? std::optional(other->view.count) : std::nullopt);
  }
  (*input)->touched = true;
  return (*input)->view.data ? (*input)->view : s.writable(type, 0);
}

Expected<TensorView> Runner::resizeInput(TensorKey key, ElementType type,
                                         Span<const int64_t> shape) {
  if (!state_)
    return State::noModel();
  if (state_->inferring)
    return state_->pendingTensor(key, type, shape);
  Expected<State::Input *> input = state_->inputOf(key, type);
  if (!input)
    return input.status();
  return resizeAt(static_cast<size_t>(*input - state_->inputs.data()), shape);
}

Status Runner::State::rejectBinding(Status why) { return wrongBinding = last = std::move(why); }

Status Runner::State::canBind() {
  if (!failure.ok())
    return failure;
  return inferring ? rejectBinding(noSignature()) : Status();
}

Status Runner::bindInputTo(TensorKey key, ElementType type, void *data, size_t count) {
  if (!state_)
    return State::noModel();
  State &s = *state_;
  if (Status why = s.canBind(); !why)
    return why;
  Expected<State::Input *> found = s.inputOf(key, type);
  if (!found)
    return s.rejectBinding(found.status());
  State::Input &input = **found;
  s.unbind(input);
  if (!data)
    return Status();
  if (Status why = s.fitTo(input, count); !why)
    return s.rejectBinding(std::move(why));
  const int index = input.port->model;
  if (index >= 0 && !s.runner->useInput(static_cast<size_t>(index), data)) {
    input.copyTo = input.view.data;
    ++s.copiedInputs;
  }
  input.bound = true;
  input.view.data = data;
  s.accept(input);
  return Status();
}

Status Runner::bindOutputTo(TensorKey key, ElementType type, void *data, size_t count) {
  if (!state_)
    return State::noModel();
  State &s = *state_;
  if (Status why = s.canBind(); !why)
    return why;
  State::Output *found = s.findOutput(key);
  if (!found)
    return s.rejectBinding(s.unknown("output", key, &Signature::outputs));
  State::Output &output = *found;
  const TensorSpec &spec = output.port->spec;
  if (type != spec.type)
    return s.rejectBinding(typeError("output", spec, type));
  const bool isFixed = !spec.isDynamic();
  if (data && isFixed && count != spec.count())
    return s.rejectBinding(makeError(Code::InvalidArgument, "output '", spec.toString(),
                                     "' was bound to ", count, " elements instead of ",
                                     *spec.count()));
  if (isFixed)
    (void)s.runner->useOutput(static_cast<size_t>(output.port->model), data);
  output.bound = data;
  output.room = count;
  return Status();
}

TensorView Runner::inputAt(size_t index) {
  if (!state_ || index >= state_->inputs.size())
    return {};
  state_->inputs[index].touched = true;
  return state_->inputs[index].view;
}

Expected<TensorView> Runner::resizeAt(size_t index, Span<const int64_t> shape) {
  if (!state_)
    return State::noModel();
  State &s = *state_;
  if (index >= s.inputs.size())
    return s.reject(nullptr, makeError(Code::InvalidArgument, "there is no input ", index, " of ",
                                       s.inputs.size()));
  Expected<TensorView> view = s.resize(s.inputs[index], shape);
  if (!view)
    return s.reject(&s.inputs[index], view.status());
  s.accept(s.inputs[index]);
  return view;
}

Status Runner::State::firstElementError(ElementType type) const {
  if (outputs.empty())
    return makeError(Code::InvalidArgument, "the signature has no output");
  const TensorSpec &spec = outputs.front().port->spec;
  return type != spec.type
             ? typeError("output", spec, type)
             : makeError(Code::PolicyFailed, "output '", spec.toString(), "' is empty");
}

void Runner::State::outputError(const TensorKey &key, ElementType type) {
  const Output *output = findOutput(key);
  if (output && hasOutputs)
    last = typeError("output", output->port->spec, type);
  else if (hasOutputs)
    last = unknown("output", key, &Signature::outputs);
  else if (last.ok())
    last = makeError(Code::InvalidArgument, "an output was read before an evaluation");
}

Status Runner::beginEpisode(std::string_view episode, std::string_view unit) {
  if (!state_ || !state_->failure.ok())
    return status();
  if (state_->inferring) { // there is no stream yet
    setEpisode(state_->context, episode, unit);
    return Status();
  }
  return state_->runner->beginEpisode(episode, unit);
}

Status Runner::reward(double value) {
  if (!state_ || !state_->failure.ok())
    return status();
  return state_->inferring ? Status() : state_->runner->reward(value);
}

Status Runner::endEpisode(const Status &outcome, bool truncated) {
  if (!state_ || !state_->failure.ok())
    return status();
  if (state_->inferring)
    return Status();
  if (truncated)
    state_->runner->truncateEpisode();
  return state_->runner->endEpisode(outcome);
}

uint64_t Runner::droppedEvents() const {
  return state_ && state_->runner ? state_->runner->droppedEvents() : 0;
}

} // namespace mlbridge
