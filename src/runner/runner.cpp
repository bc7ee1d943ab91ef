// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runner: setting, asking and reading.
#include <mlbridge/runner.h>

#include "core/nearest.h"
#include "runner/runner_state.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {

// What a Runner carries that was default-constructed or moved from.
static const Status &noModel() {
  static const auto *status = new Status(Code::Unavailable, "no model was opened");
  return *status;
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
  state_->unknownInput = Status();
  state_->refreshLast();
}

static Status typeError(const char *what, const TensorSpec &spec, ElementType type) {
  return Status(Code::InvalidArgument, std::string(what) + " '" + spec.toString() +
                                           "' was used as " + mlbridge::name(type));
}

static Status nameError(const char *what, std::string_view name,
                        const std::vector<TensorSpec> &specs) {
  const std::vector<std::string_view> names = namesOf(specs);
  return Status(Code::InvalidArgument, "there is no " + std::string(what) + " '" +
                                           std::string(name) + "'" + didYouMean(name, names) +
                                           " (" + what + "s: " + listOf(names) + ")");
}

static void copyElements(const TensorView &to, const void *data) {
  if (to.type == ElementType::String) {
    const auto *from = static_cast<const std::string *>(data);
    std::copy(from, from + to.count, static_cast<std::string *>(to.data));
  } else if (to.count) {
    std::memcpy(to.data, data, to.bytes());
  }
}

// While inferring: the tensor of that name, with this shape.
static Expected<TensorView> pendingTensor(std::vector<Tensor> &pending, std::string_view name,
                                          ElementType type, Span<const int64_t> shape) {
  TensorSpec spec;
  spec.name = std::string(name);
  spec.type = type;
  spec.shape.assign(shape.begin(), shape.end());
  for (Tensor &tensor : pending)
    if (tensor.spec() == spec)
      return tensor.view();
  Expected<Tensor> fresh = Tensor::make(spec, shape);
  if (!fresh)
    return fresh.status();
  for (Tensor &tensor : pending)
    if (tensor.spec().name == name) {
      tensor = std::move(*fresh);
      return tensor.view();
    }
  pending.push_back(std::move(*fresh));
  return pending.back().view();
}

Status Runner::setElements(std::string_view name, ElementType type, const void *data, size_t count,
                           bool scalar) {
  if (!state_)
    return noModel();
  State &s = *state_;
  if (!s.failure.ok())
    return s.failure;
  if (s.inferring) {
    const int64_t length = static_cast<int64_t>(count);
    const Span<const int64_t> shape(&length, scalar ? 0 : 1);
    Expected<TensorView> view = pendingTensor(s.pending, name, type, shape);
    if (!view)
      return s.reject(nullptr, view.status());
    copyElements(*view, data);
    return Status();
  }
  State::Input *input = s.find(name);
  if (!input) {
    if (s.inferred) {
      if (std::find(s.ignored.begin(), s.ignored.end(), name) == s.ignored.end())
        s.ignored.emplace_back(name);
      return Status();
    }
    return s.reject(nullptr, nameError("input", name, s.binding->caller.inputs));
  }
  const TensorSpec &spec = input->port->spec;
  if (type != spec.type)
    return s.reject(input, typeError("input", spec, type));
  if (!input->sized || count != input->view.count) {
    const auto wrongCount = [&](const std::string &what) {
      return s.reject(
          input, Status(Code::InvalidArgument, "input '" + spec.toString() + "' was given " +
                                                   std::to_string(count) + " elements" + what));
    };
    Shape shape = spec.shape;
    const auto unknown = std::find(shape.begin(), shape.end(), Dynamic);
    if (unknown == shape.end())
      return wrongCount(" instead of " + std::to_string(input->view.count));
    *unknown = 1;
    if (std::find(shape.begin(), shape.end(), Dynamic) != shape.end())
      return wrongCount("; it has several lengths that change: call resize first");
    const size_t unit = elementCount(shape).value_or(0);
    if (unit == 0 ? count != 0 : count % unit != 0)
      return wrongCount(", which is no multiple of " + std::to_string(unit));
    *unknown = unit ? static_cast<int64_t>(count / unit) : 0;
    if (Expected<TensorView> view = s.resize(*input, shape); !view)
      return s.reject(input, view.status());
  }
  copyElements(input->view, data);
  s.accept(*input);
  return Status();
}

Status Runner::set(std::string_view name, const std::vector<bool> &values) {
  const std::unique_ptr<bool[]> copy(new bool[values.size()]);
  std::copy(values.begin(), values.end(), copy.get());
  return setElements(name, ElementType::Bool, copy.get(), values.size(), false);
}

TensorView Runner::inputView(std::string_view name, ElementType type) {
  if (!state_)
    return {};
  State &s = *state_;
  if (s.inferring) {
    for (Tensor &tensor : s.pending)
      if (tensor.spec().name == name && tensor.spec().type == type)
        return tensor.view();
    (void)s.reject(nullptr,
                   Status(Code::InvalidArgument, "input '" + std::string(name) +
                                                     "' has no buffer before it was set: the "
                                                     "model takes any signature and none was "
                                                     "stated"));
    return {};
  }
  State::Input *input = s.find(name);
  if (!input) {
    static const std::vector<TensorSpec> none;
    (void)s.reject(nullptr, nameError("input", name, s.binding ? s.binding->caller.inputs : none));
    return {};
  }
  if (type != input->port->spec.type) {
    (void)s.reject(input, typeError("input", input->port->spec, type));
    return {};
  }
  input->touched = true;
  return input->view;
}

Expected<TensorView> Runner::resizeInput(std::string_view name, ElementType type,
                                         Span<const int64_t> shape) {
  if (!state_)
    return noModel();
  State &s = *state_;
  if (s.inferring) {
    Expected<TensorView> view = pendingTensor(s.pending, name, type, shape);
    return view ? view : Expected<TensorView>(s.reject(nullptr, view.status()));
  }
  State::Input *input = s.find(name);
  if (!input)
    return s.reject(nullptr,
                    s.binding ? nameError("input", name, s.binding->caller.inputs) : s.failure);
  if (type != input->port->spec.type)
    return s.reject(input, typeError("input", input->port->spec, type));
  return resizeAt(static_cast<size_t>(input - s.inputs.data()), shape);
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
    return s.reject(nullptr,
                    Status(Code::InvalidArgument, "there is no input " + std::to_string(index) +
                                                      " of " + std::to_string(s.inputs.size())));
  Expected<TensorView> view = s.resize(s.inputs[index], shape);
  if (!view)
    return s.reject(&s.inputs[index], view.status());
  s.accept(s.inputs[index]);
  return view;
}

Status Runner::evaluate() {
  return evaluateWithin(state_ ? state_->options.deadline : Duration::max());
}

Status Runner::evaluate(Deadline deadline) { return evaluateWithin(deadline.left()); }

Status Runner::evaluateWithin(Duration left) {
  if (!state_)
    return noModel();
  State &s = *state_;
  s.hasOutputs = false;
  if (!s.failure.ok())
    return s.failure;
  const auto failed = [&](Status why) {
    s.last = std::move(why);
    return s.last;
  };
  if (s.inferring)
    if (Status e = s.infer(); !e)
      return failed(std::move(e));
  if (Status e = s.checkInputs(); !e)
    return failed(std::move(e));
  if (Status e = s.runner->evaluate(left); !e)
    return failed(std::move(e));
  if (Status e = s.collectOutputs(); !e)
    return failed(std::move(e));
  s.hasOutputs = true;
  if (!s.last.ok())
    s.last = Status();
  return Status();
}

void Runner::expectOutput(ElementType type) {
  if (state_)
    state_->asked = type;
}

Expected<TensorView> Runner::firstElement(ElementType type) {
  State &s = *state_;
  const auto failed = [&](Status why) {
    s.last = std::move(why);
    return s.last;
  };
  if (s.outputs.empty())
    return failed(Status(Code::InvalidArgument, "the signature has no output"));
  const State::Output &output = s.outputs.front();
  if (type != output.port->spec.type)
    return failed(typeError("output", output.port->spec, type));
  if (output.view.count == 0)
    return failed(
        Status(Code::PolicyFailed, "output '" + output.port->spec.toString() + "' is empty"));
  return output.view;
}

TensorView Runner::outputView(std::string_view name, ElementType type) {
  if (!state_)
    return {};
  State &s = *state_;
  if (!s.hasOutputs) {
    if (s.last.ok())
      s.last = Status(Code::InvalidArgument,
                      "output '" + std::string(name) + "' was read before an evaluation");
    return {};
  }
  for (const State::Output &output : s.outputs) {
    if (output.port->spec.name != name)
      continue;
    if (output.port->spec.type == type)
      return output.view;
    s.last = typeError("output", output.port->spec, type);
    return {};
  }
  s.last = nameError("output", name, s.binding->caller.outputs);
  return {};
}

TensorView Runner::outputAt(size_t index) {
  if (!state_ || !state_->hasOutputs || index >= state_->outputs.size())
    return {};
  return state_->outputs[index].view;
}

Status Runner::beginEpisode(std::string_view episode, std::string_view context) {
  if (!state_ || !state_->failure.ok())
    return status();
  if (state_->inferring) { // there is no stream yet
    if (!episode.empty())
      state_->options.episode = std::string(episode);
    if (!context.empty())
      state_->options.context = std::string(context);
    return Status();
  }
  return state_->runner->beginEpisode(episode, context);
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
