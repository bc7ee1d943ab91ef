// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slots, their buffers, and what is wrong with them.
#include "runner/runner_state.h"

#include "core/convert.h"
#include "core/message.h"

#include <algorithm>

namespace mlbridge {

std::unique_ptr<Runner::State> Runner::State::failed(Status why,
                                                     std::shared_ptr<const Binding> binding) {
  auto state = std::make_unique<State>();
  state->failure = state->last = std::move(why);
  if (binding)
    (void)state->attach(std::move(binding), nullptr);
  return state;
}

Expected<std::unique_ptr<Runner::State>>
Runner::State::bound(std::shared_ptr<ModelBackend> backend, std::shared_ptr<const Binding> binding,
                     CallContext context, Duration deadline) {
  Expected<std::unique_ptr<RunnerBackend>> runner =
      backend->newRunner(binding->model, context, deadline);
  if (!runner)
    return runner.status();
  auto state = std::make_unique<State>();
  state->backend = std::move(backend);
  state->context = std::move(context);
  state->deadline = deadline;
  if (Status s = state->attach(std::move(binding), std::move(*runner)); !s)
    return s;
  return state;
}

Status Runner::State::attach(std::shared_ptr<const Binding> b, std::unique_ptr<RunnerBackend> r) {
  binding = std::move(b);
  runner = std::move(r);
  inputs.clear();
  inputs.resize(binding->inputs.size());
  outputs.clear();
  outputs.resize(binding->outputs.size());
  unsizedInputs = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input &input = inputs[i];
    input.port = &binding->inputs[i];
    const TensorSpec &spec = input.port->spec;
    input.sized = !spec.isDynamic();
    input.view.type = spec.type;
    if (input.port->model < 0) {
      Expected<Tensor> scratch = emptyTensor(spec);
      if (!scratch)
        return scratch.status();
      input.scratch = std::move(*scratch);
      input.view = input.scratch.view();
    } else if (input.sized) {
      input.view =
          inCallersRank(runner->input(static_cast<size_t>(input.port->model)), input.port->batch);
      if (input.view.type != spec.type || input.view.count != spec.count())
        return makeError(Code::Internal, "the engine's buffer of input '", spec.toString(),
                         "' has ", input.view.count, " elements of ", name(input.view.type));
    } else {
      ++unsizedInputs;
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i].port = &binding->outputs[i];
  return Status();
}

Status Runner::State::infer() {
  Signature signature;
  for (const Tensor &tensor : pending)
    signature.inputs.push_back(tensor.spec());
  if (!answerType)
    return makeError(
        Code::InvalidArgument,
        "the model takes any signature and none was stated, so the type of its answer is "
        "unknown: ask with evaluate<T>()");
  TensorSpec answer;
  answer.name = "output";
  answer.type = *answerType;
  signature.outputs.push_back(std::move(answer));
  Expected<std::shared_ptr<const Binding>> fitting = bindSignature(signature, nullptr);
  if (!fitting)
    return fitting.status();
  Expected<std::unique_ptr<RunnerBackend>> evaluator =
      backend->newRunner((*fitting)->model, context, deadline);
  if (!evaluator)
    return evaluator.status();
  if (Status s = attach(std::move(*fitting), std::move(*evaluator)); !s)
    return s;
  for (size_t i = 0; i < inputs.size(); ++i) {
    copySame(inputs[i].view, pending[i].view().data);
    inputs[i].touched = true;
  }
  pending.clear();
  inferring = false;
  allTouched = true;
  return Status();
}

TensorView Runner::State::writable(ElementType type, std::optional<size_t> count) {
  constexpr size_t Bytes = size_t(1) << 20, Strings = 4096;
  const size_t least = type == ElementType::String ? Strings : Bytes / sizeOf(type);
  for (Tensor &tensor : nowhere)
    if (tensor.spec().type == type && tensor.count() >= count.value_or(0))
      return {type, tensor.view().data, count.value_or(tensor.count()), {}};
  Expected<Tensor> tensor =
      Tensor::make({"nowhere", type, {Dynamic}, {}},
                   {{static_cast<int64_t>(std::max(least, count.value_or(0)))}});
  if (!tensor)
    return {};
  nowhere.push_back(std::move(*tensor));
  return writable(type, count);
}

void Runner::State::refreshLast() {
  if (!failure.ok()) {
    last = failure;
    return;
  }
  if (wrongInputs) {
    for (const Input &input : inputs)
      if (!input.wrong.ok()) {
        last = input.wrong;
        return;
      }
  }
  if (!wrongBinding.ok())
    last = wrongBinding;
  else if (!unknownInput.ok())
    last = unknownInput;
  else if (!last.ok())
    last = Status();
}

Status Runner::State::reject(Input *input, Status why) {
  if (!failure.ok())
    return failure;
  last = why;
  if (!input)
    unknownInput = std::move(why);
  else {
    wrongInputs += input->wrong.ok();
    input->wrong = std::move(why);
  }
  return last;
}

void Runner::State::forgive(Input &input) {
  if (!input.wrong.ok()) {
    input.wrong = Status();
    --wrongInputs;
  }
  if (!last.ok())
    refreshLast();
}

Status Runner::State::fitTo(Input &input, size_t count) {
  if (input.sized && count == input.view.count)
    return Status();
  const TensorSpec &spec = input.port->spec;
  const auto wrong = [&](const auto &...what) {
    return makeError(Code::InvalidArgument, "input '", spec.toString(), "' was given ", count,
                     " elements", what...);
  };
  Shape shape = spec.shape;
  const auto unknown = std::find(shape.begin(), shape.end(), Dynamic);
  if (unknown == shape.end())
    return wrong(" instead of ", input.view.count);
  *unknown = 1;
  if (std::find(shape.begin(), shape.end(), Dynamic) != shape.end())
    return wrong("; it has several lengths that change: call resize first");
  const size_t unit = elementCount(shape).value_or(0);
  if (unit == 0 ? count != 0 : count % unit != 0)
    return wrong(", which is not a multiple of ", unit);
  *unknown = unit ? static_cast<int64_t>(count / unit) : 0;
  return resize(input, shape).status();
}

void Runner::State::unbind(Input &input) {
  if (!input.bound)
    return;
  const auto index = static_cast<size_t>(input.port->model);
  input.bound = false;
  copiedInputs -= input.copyTo != nullptr;
  input.copyTo = nullptr;
  if (input.port->model < 0) {
    input.view = input.scratch.view();
  } else {
    (void)runner->useInput(index, nullptr);
    input.view = inCallersRank(runner->input(index), input.port->batch);
  }
}

Expected<TensorView> Runner::State::resize(Input &input, Span<const int64_t> shape) {
  const TensorSpec &spec = input.port->spec;
  if (Status s = checkShape(spec, shape); !s)
    return s;
  unbind(input);
  if (!spec.isDynamic())
    return input.view;
  // The old buffer may be gone even if there is no new one.
  const auto lost = [&](const Status &why) {
    unsizedInputs += input.sized && input.port->model >= 0;
    input.sized = false;
    input.view = {spec.type, nullptr, 0, {}};
    return why;
  };
  TensorView view;
  if (input.port->model < 0) {
    if (Status s = input.scratch.reshape(spec, shape); !s)
      return lost(s);
    view = input.scratch.view();
  } else {
    Shape withBatch;
    if (input.port->batch) {
      withBatch.push_back(1);
      withBatch.insert(withBatch.end(), shape.begin(), shape.end());
    }
    const Expected<TensorView> resized =
        runner->resize(static_cast<size_t>(input.port->model),
                       input.port->batch ? Span<const int64_t>(withBatch) : shape);
    if (!resized)
      return lost(resized.status());
    view = inCallersRank(*resized, input.port->batch);
    if (view.type != spec.type || view.count != elementCount(shape))
      return lost(makeError(Code::Internal, "the engine's buffer of input '", spec.toString(),
                            "' has ", view.count, " elements of ", name(view.type),
                            " for the shape ", toString(shape)));
    unsizedInputs -= !input.sized;
  }
  input.sized = true;
  input.view = view;
  return view;
}

Status Runner::State::checkInputs() {
  if (wrongInputs || !unknownInput.ok() || !wrongBinding.ok()) {
    refreshLast();
    Status why = last;
    unknownInput = Status();
    return why;
  }
  if (unsizedInputs)
    for (const Input &input : inputs)
      if (!input.sized && input.port->model >= 0)
        return makeError(Code::InvalidArgument, "input '", input.port->spec.toString(),
                         "' was neither set nor resized");
  if (inferred && !allTouched) {
    for (const Input &input : inputs) {
      if (input.touched)
        continue;
      std::string why = "the model's input '" + input.port->spec.toString() + "' was not set";
      if (!ignored.empty())
        why += "; these were set, but the model has no such inputs: " +
               listOf(std::vector<std::string_view>(ignored.begin(), ignored.end()));
      return Status(Code::InvalidArgument, std::move(why));
    }
    allTouched = true;
  }
  return Status();
}

Status Runner::State::prepare() {
  if (!failure.ok())
    return failure;
  if (inferring)
    if (Status s = infer(); !s)
      return fail(std::move(s));
  Status s = checkInputs();
  return s ? s : fail(std::move(s));
}

void Runner::State::copyIn() {
  for (const Input &input : inputs)
    if (input.copyTo)
      copySame({input.view.type, input.copyTo, input.view.count, {}}, input.view.data);
}

Status Runner::State::wrongOutput(const Binding::Port &port, const TensorView &view) const {
  std::string why;
  if (view.type == port.spec.type) {
    if (port.batch && (view.shape.empty() || view.shape[0] != 1))
      why = " without a leading dimension of 1";
    else if (checkShape(port.spec, inCallersRank(view, port.batch).shape))
      why = " with " + std::to_string(view.count) + " elements";
  }
  return makeError(Code::PolicyFailed, "the model's output '", port.spec.toString(), "' came as ",
                   name(view.type), view.shape, why);
}

Status Runner::State::copyOut(Output &output) {
  if (output.view.count > output.room)
    return makeError(Code::LimitExceeded, "output '", output.port->spec.toString(), "' has ",
                     output.view.count, " elements, but the memory bound to it has room for only ",
                     output.room);
  const void *from = std::exchange(output.view.data, output.bound);
  if (from != output.bound)
    copySame(output.view, from);
  return Status();
}

} // namespace mlbridge
