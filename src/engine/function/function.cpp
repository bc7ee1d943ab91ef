// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The function engine: calls a callable with the tensors of one Runner.
#include "core/convert.h"
#include "core/message.h"
#include "engine/backends.h"

#include <cstring>

namespace mlbridge {

FunctionCall::~FunctionCall() = default;

namespace {

class FunctionRunner final : public RunnerBackend, private FunctionCall {
public:
  FunctionRunner(const Signature &signature, const CallContext &context, Function function)
      : signature_(signature), context_(context), function_(std::move(function)) {}

  Status create() {
    Status s = add(signature_.inputs, inputs_);
    return s ? add(signature_.outputs, outputs_) : s;
  }

  TensorView input(size_t index) override { return inputs_[index].view(); }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    if (Status s = inputs_[index].tensor.reshape(signature_.inputs[index], shape); !s)
      return s;
    inputs_[index].hasShape = true;
    inputs_[index].callers = nullptr;
    return inputs_[index].view();
  }

  Status evaluate(Duration left) override {
    if (left <= Duration::zero())
      return makeError(Code::DeadlineExceeded, "function: the deadline had passed before the call");
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Slot &output = outputs_[i];
      output.hasShape = !signature_.outputs[i].isDynamic();
      if (output.hasShape)
        clear(output.view());
    }
    if (Status s = caught("the function", [&] { return function_(*this); }); !s)
      return s;
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!outputs_[i].hasShape)
        return makeError(Code::PolicyFailed, "function: output '", signature_.outputs[i].toString(),
                         "' was not given a shape by resizeOutput");
    return Status();
  }

  TensorView output(size_t index) override {
    return index < outputs_.size() ? outputs_[index].view() : TensorView();
  }

  bool useInput(size_t index, void *data) override {
    inputs_[index].callers = data;
    return true;
  }
  bool useOutput(size_t index, void *data) override {
    outputs_[index].callers = data;
    return true;
  }

  Status beginEpisode(std::string_view episode, std::string_view unit) override {
    setEpisode(context_, episode, unit);
    return Status();
  }

private:
  struct Slot {
    Tensor tensor;
    bool hasShape = false;
    void *callers = nullptr; ///< memory in place of the tensor's
    TensorView view() {
      TensorView v = tensor.view();
      if (callers)
        v.data = callers;
      if (!hasShape)
        v.data = nullptr, v.count = 0, v.shape = {};
      return v;
    }
  };

  static Status add(const std::vector<TensorSpec> &specs, std::vector<Slot> &slots) {
    for (const TensorSpec &spec : specs) {
      Expected<Tensor> tensor = emptyTensor(spec);
      if (!tensor)
        return tensor.status();
      slots.push_back({std::move(*tensor), !spec.isDynamic()});
    }
    return Status();
  }

  static void clear(const TensorView &view) {
    if (view.type == ElementType::String)
      for (std::string &text : view.as<std::string>())
        text.clear();
    else if (view.count)
      std::memset(view.data, 0, view.bytes());
  }

  // FunctionCall
  const Signature &signature() const override { return signature_; }
  TensorView input(size_t index) const override {
    return index < inputs_.size() ? const_cast<Slot &>(inputs_[index]).view() : TensorView();
  }
  Expected<TensorView> resizeOutput(size_t index, Span<const int64_t> shape) override {
    if (index >= outputs_.size())
      return makeError(Code::InvalidArgument, "there is no output ", index);
    if (Status s = outputs_[index].tensor.reshape(signature_.outputs[index], shape); !s)
      return Status(Code::PolicyFailed, s.message()); // what most functions will pass on
    outputs_[index].hasShape = true;
    clear(outputs_[index].view());
    return outputs_[index].view();
  }
  const CallContext &context() const override { return context_; }

  const Signature signature_;
  CallContext context_;
  Function function_;
  std::vector<Slot> inputs_, outputs_;
};

class FunctionBackend final : public ModelBackend {
public:
  explicit FunctionBackend(FunctionModel model) : model_(std::move(model)) {}

  const Metadata &metadata() const override { return model_.metadata; }
  const Signature *signature() const override {
    return model_.signature ? &*model_.signature : nullptr;
  }
  Expected<std::unique_ptr<RunnerBackend>>
  newRunner(const Signature &bound, const CallContext &context, Duration) override {
    Function function;
    const Status status = caught("making the function", [&] {
      function = model_.newFunction();
      return Status();
    });
    if (!status)
      return status;
    if (!function)
      return makeError(Code::InvalidArgument, "the function model made an empty function");
    auto runner = std::make_unique<FunctionRunner>(bound, context, std::move(function));
    if (Status s = runner->create(); !s)
      return s;
    return std::unique_ptr<RunnerBackend>(std::move(runner));
  }

private:
  const FunctionModel model_;
};

} // namespace

Expected<std::shared_ptr<ModelBackend>> functionBackend(FunctionModel model) {
  if (!model.newFunction)
    return makeError(Code::InvalidArgument, "the function model has no function");
  return std::shared_ptr<ModelBackend>(std::make_shared<FunctionBackend>(std::move(model)));
}

Model fromFunction(FunctionModel model) {
  Expected<std::shared_ptr<ModelBackend>> backend = functionBackend(std::move(model));
  return Model::fromBackend(backend ? std::move(*backend) : nullptr);
}

FunctionModel functionModel(Signature signature, Function function, Metadata metadata) {
  FunctionModel model;
  model.signature = std::move(signature);
  model.metadata = std::move(metadata);
  if (function)
    model.newFunction = [function = std::move(function)] { return function; };
  return model;
}

Model fromFunction(Signature signature, Function function, Metadata metadata) {
  return fromFunction(
      functionModel(std::move(signature), std::move(function), std::move(metadata)));
}

} // namespace mlbridge
