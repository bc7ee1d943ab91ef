// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What runs in each evaluation. It is compiled for speed, and the rest of the Runner for size, so
// what seldom happens is there.
#include "core/convert.h"
#include "runner/runner_state.h"

namespace mlbridge {

Status Runner::setElements(TensorKey key, ElementType type, const void *data, size_t count,
                           bool scalar) {
  if (!state_)
    return State::noModel();
  State::Input *input = state_->find(key);
  if (!input || type != input->view.type || count != input->view.count || !input->sized ||
      input->bound || !state_->failure.ok())
    return state_->set(key, type, data, count, scalar);
  copySame(input->view, data);
  state_->accept(*input);
  return Status();
}

Status Runner::evaluate() { return evaluateWithin(state_ ? state_->deadline : Duration::max()); }

Status Runner::evaluate(Deadline deadline) { return evaluateWithin(deadline.left()); }

Status Runner::evaluateWithin(Duration left) {
  if (!state_)
    return State::noModel();
  State &s = *state_;
  s.hasOutputs = false;
  if (!s.isReady())
    if (Status e = s.prepare(); !e)
      return e;
  if (s.copiedInputs)
    s.copyIn();
  if (Status e = s.runner->evaluate(left); !e)
    return s.fail(std::move(e));
  if (Status e = s.collectOutputs(); !e)
    return s.fail(std::move(e));
  s.hasOutputs = true;
  if (!s.last.ok())
    s.last = Status();
  return Status();
}

Status Runner::State::collectOutputs() {
  for (Output &output : outputs) {
    const Binding::Port &port = *output.port;
    const TensorView view = runner->output(static_cast<size_t>(port.model));
    output.view = inCallersRank(view, port.batch);
    if (view.type != port.spec.type || (port.batch && (view.shape.empty() || view.shape[0] != 1)) ||
        !checkShape(port.spec, output.view.shape) || view.count != elementCount(view.shape))
      return wrongOutput(port, view);
    if (output.bound)
      if (Status s = copyOut(output); !s)
        return s;
  }
  return Status();
}

void Runner::expectOutput(ElementType type) {
  if (state_)
    state_->answerType = type;
}

Expected<TensorView> Runner::firstElement(ElementType type) {
  State &s = *state_;
  if (s.outputs.empty() || type != s.outputs.front().port->spec.type ||
      s.outputs.front().view.count == 0)
    return s.fail(s.firstElementError(type));
  return s.outputs.front().view;
}

TensorView Runner::outputView(TensorKey key, ElementType type) {
  if (!state_)
    return {};
  const State::Output *output = state_->hasOutputs ? state_->findOutput(key) : nullptr;
  if (output && output->port->spec.type == type)
    return output->view;
  state_->outputError(key, type);
  return {};
}

TensorView Runner::outputAt(size_t index) {
  if (!state_ || !state_->hasOutputs || index >= state_->outputs.size())
    return {};
  return state_->outputs[index].view;
}

} // namespace mlbridge
