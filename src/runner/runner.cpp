// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runner: setting, asking and reading.
#include <mlbridge/runner.h>

#include "core/convert.h"
#include "core/message.h"
#include "core/nearest.h"
#include "runner/runner_state.h"

#include <algorithm>

namespace mlbridge {

// The failure of a Runner that was default-constructed or moved from.
static const Status &noModel() {
  static const auto *status = new Status(Code::Unavailable, "no model was opened");
  return *status;
}

static Status noSignature() {
  return Status(Code::InvalidArgument, "the model takes any signature and none was stated: set "
                                       "each input by name once before using its buffer or index");
}

Runner::Runner() = default;
Runner::Runner(Status failure) : state_(State::failed(std::move(failure), nullptr)) {
  if (state_->failure.ok())
    state_->failure = state_->last = noModel();
}
Runner::Runner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Runner::~Runner() = default;
Runner::Runner(Runner &&) noexcept = default;
Runner &Runner::operator=(Runner &&) noexcept = default;

const Status &Runner::status() const { return state_ ? state_->last : noModel(); }

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

Status Runner::setElements(TensorKey key, ElementType type, const void *data, size_t count,
                           bool scalar) {
  if (!state_)
    return noModel();
  State &s = *state_;
  if (!s.failure.ok())
    return s.failure;
  if (s.inferring) {
    const int64_t length = static_cast<int64_t>(count);
    Expected<TensorView> view = s.pendingTensor(key, type, {&length, size_t(scalar ? 0 : 1)});
    return view ? copyElements(*view, type, data) : view.status();
  }
  State::Input *input = s.find(key);
  if (!input) {
    if (!s.inferred || !key.name_)
      return s.reject(nullptr, s.unknown("input", key, &Signature::inputs));
    if (std::find(s.ignored.begin(), s.ignored.end(), key.name()) == s.ignored.end())
      s.ignored.emplace_back(key.name());
    return Status();
  }
  if (type == input->view.type && count == input->view.count && input->sized && !input->bound) {
    copySame(input->view, data);
    s.accept(*input);
    return Status();
  }
  s.unbind(*input);
  if (Status why = s.fitTo(*input, count); !why)
    return s.reject(input, std::move(why));
  if (Status why = copyElements(input->view, type, data); !why)
    return s.reject(
        input, Status(why.code(), "input '" + input->port->spec.toString() + "' " + why.message()));
  s.accept(*input);
  return Status();
}

Status Runner::set(TensorKey input, const std::vector<bool> &values) {
  const std::unique_ptr<bool[]> copy(new bool[values.size()]);
  std::copy(values.begin(), values.end(), copy.get());
  return setElements(input, ElementType::Bool, copy.get(), values.size(), false);
}

TensorView Runner::inputView(TensorKey key, ElementType type) {
  if (!state_)
    state_ = State::failed(noModel(), nullptr);
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
    return noModel();
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
    return noModel();
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
    return noModel();
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
    return noModel();
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

Status Runner::evaluate() { return evaluateWithin(state_ ? state_->deadline : Duration::max()); }

Status Runner::evaluate(Deadline deadline) { return evaluateWithin(deadline.left()); }

Status Runner::evaluateWithin(Duration left) {
  if (!state_)
    return noModel();
  State &s = *state_;
  s.hasOutputs = false;
  if (!s.failure.ok())
    return s.failure;
  if (s.inferring)
    if (Status e = s.infer(); !e)
      return s.fail(std::move(e));
  if (Status e = s.checkInputs(); !e)
    return s.fail(std::move(e));
  if (s.copiedInputs)
    for (const State::Input &input : s.inputs)
      if (input.copyTo)
        copySame({input.view.type, input.copyTo, input.view.count, {}}, input.view.data);
  if (Status e = s.runner->evaluate(left); !e)
    return s.fail(std::move(e));
  if (Status e = s.collectOutputs(); !e)
    return s.fail(std::move(e));
  s.hasOutputs = true;
  if (!s.last.ok())
    s.last = Status();
  return Status();
}

void Runner::expectOutput(ElementType type) {
  if (state_)
    state_->answerType = type;
}

Expected<TensorView> Runner::firstElement(ElementType type) {
  State &s = *state_;
  if (s.outputs.empty())
    return s.fail(Status(Code::InvalidArgument, "the signature has no output"));
  const State::Output &output = s.outputs.front();
  if (type != output.port->spec.type)
    return s.fail(typeError("output", output.port->spec, type));
  if (output.view.count == 0)
    return s.fail(
        makeError(Code::PolicyFailed, "output '", output.port->spec.toString(), "' is empty"));
  return output.view;
}

TensorView Runner::outputView(TensorKey key, ElementType type) {
  if (!state_)
    return {};
  State &s = *state_;
  if (!s.hasOutputs) {
    if (s.last.ok())
      s.last = Status(Code::InvalidArgument, "an output was read before an evaluation");
    return {};
  }
  const State::Output *output = s.findOutput(key);
  if (!output)
    s.last = s.unknown("output", key, &Signature::outputs);
  else if (output->port->spec.type != type)
    s.last = typeError("output", output->port->spec, type);
  else
    return output->view;
  return {};
}

TensorView Runner::outputAt(size_t index) {
  if (!state_ || !state_->hasOutputs || index >= state_->outputs.size())
    return {};
  return state_->outputs[index].view;
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
