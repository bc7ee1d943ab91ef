// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MLModelRunner/ONNXModelRunner/agent.h"
#include "MLModelRunner/ONNXModelRunner/onnx.h"

#include <mlbridge/model.h>

#include <algorithm>
#include <cmath>
#include <utility>

using mlbridge::Code;
using mlbridge::Model;
using mlbridge::Runner;
using mlbridge::Span;
using mlbridge::Status;

struct ONNXModel::State {
  Model model;
  Runner runner;
  Status status;
  std::string place, input, output;

  /// Binds the network anew when the count of the input's elements changes.
  Status bindFor(size_t count);
  size_t bound = 0;
  bool isBound = false;
};

namespace {

Model openNetwork(const std::string &place) {
  const size_t colon = place.find(':');
  if (colon != std::string::npos && colon > 1 && place.find('/') > colon)
    return Model::open(place);
  Model model = Model::open("onnx:" + place);
  // The runtime, or the component that opens it, is missing: not the file.
  if (model.status().code() == Code::NotFound || model.status().code() == Code::Unsupported)
    if (Model own = Model::open("native:" + place); own)
      return own;
  return model;
}

} // namespace

Status ONNXModel::State::bindFor(size_t count) {
  if (isBound && bound == count)
    return Status();
  if (std::exchange(isBound, false)) // a Model is bound once
    model = openNetwork(place);
  const mlbridge::Signature *own = model.modelSignature();
  mlbridge::Signature signature;
  if (own) {
    if (own->inputs.size() != 1 || own->outputs.empty() ||
        own->inputs[0].type != mlbridge::ElementType::Float32)
      return {Code::Mismatch,
              "an agent's network has one input of float32, and its first output is "
              "the choice; this one is " +
                  own->toString()};
    mlbridge::TensorSpec spec = own->inputs[0];
    // As the release did it, lengths that change are 1; here the last of them takes what is left.
    size_t fixed = 1;
    for (const int64_t length : spec.shape)
      fixed *= length < 0 ? 1 : static_cast<size_t>(length);
    bool rest = fixed != 0 && count % fixed == 0;
    for (auto length = spec.shape.rbegin(); length != spec.shape.rend(); ++length)
      if (*length < 0)
        *length = std::exchange(rest, false) ? static_cast<int64_t>(count / fixed) : 1;
    spec.maximum.clear();
    if (spec.count() != count)
      return {Code::Mismatch, "the observation has " + std::to_string(count) +
                                  " numbers, the network takes " + own->inputs[0].toString()};
    signature = {{spec}, {own->outputs[0]}};
  } else {
    signature = {{mlbridge::TensorSpec::of<float>("observation", {static_cast<int64_t>(count)})},
                 {mlbridge::TensorSpec::of<float>("logits", {mlbridge::Dynamic})}};
  }
  if (Status s = model.bind(signature); !s)
    return s;
  runner = model.newRunner();
  if (Status s = runner.status(); !s)
    return s;
  input = signature.inputs[0].name;
  output = signature.outputs[0].name;
  bound = count;
  isBound = true;
  return Status();
}

ONNXModel::ONNXModel(const char *model_path) : state_(std::make_shared<State>()) {
  state_->place = model_path ? model_path : "";
  state_->model = openNetwork(state_->place);
  state_->status = state_->model.status();
}

const Status &ONNXModel::status() const { return state_->status; }

Status ONNXModel::run(const float *input, size_t count, std::vector<float> &output) {
  State &s = *state_;
  output.clear();
  if (Status opened = s.model.status(); !opened)
    return s.status = opened;
  if (s.status = s.bindFor(count); !s.status)
    return s.status;
  if (s.status = s.runner.set(s.input, Span<const float>(input, count)); !s.status)
    return s.status;
  if (s.status = s.runner.evaluate(); !s.status)
    return s.status;
  const mlbridge::TensorView answer = s.runner.outputAt(0);
  if (const Span<float> floats = answer.as<float>(); !floats.empty())
    output.assign(floats.begin(), floats.end());
  else
    return s.status = {Code::Mismatch,
                       "the network's output '" + s.output + "' is empty or not of float32"};
  constexpr float BelowAll = -1.17549e+38F;
  std::replace_if(output.begin(), output.end(), [](float x) { return std::isnan(x); }, BelowAll);
  return s.status;
}

namespace MLBridge {

unsigned Agent::computeAction(const float *observation, size_t count) {
  std::vector<float> output;
  status_ = model_.run(observation, count, output);
  if (!status_)
    return 0;
  return static_cast<unsigned>(
      std::distance(output.begin(), std::max_element(output.begin(), output.end())));
}

} // namespace MLBridge
