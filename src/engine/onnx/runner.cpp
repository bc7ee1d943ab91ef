// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runner.h"

#include "engine/onnx_format.h"
#include "engine/onnx_guards.h"

#include <algorithm>
#include <cstring>

namespace mlbridge::onnx {
namespace {

/// The data of an empty tensor.
alignas(64) char nothing[64];

ONNXTensorElementDataType toOrt(ElementType type) {
  return static_cast<ONNXTensorElementDataType>(engine::toOnnx(type));
}

/// Words ONNX Runtime's failure for the model's user.
Status explained(const Status &failure) {
  const std::string &text = failure.message();
  if (const std::string guarded = engine::guardFailure(text); !guarded.empty())
    return {Code::PolicyFailed, "the model failed: " + guarded};
  // An output of another shape than the memory for it, as versions from 1.31 on say it and before.
  struct Wording {
    std::string_view stated, fact;
  };
  for (const Wording &says :
       {Wording{"has shape {", "} but the computed output shape for this run is {"},
        Wording{"Current shape:{", "} Requested shape:{"}}) {
    const size_t stated = text.find(says.stated), fact = text.find(says.fact, stated);
    if (stated == text.npos || fact == text.npos)
      continue;
    const auto between = [&text](size_t begin, char end) {
      return text.substr(begin, text.find(end, begin) - begin);
    };
    const auto lengths = [&between](size_t begin) {
      std::string list = between(begin, '}');
      for (size_t comma = 0; (comma = list.find(',', comma)) != list.npos; comma += 2)
        list.insert(comma + 1, " ");
      return list;
    };
    constexpr std::string_view Output = "provided for output '";
    const size_t name = text.find(Output);
    return makeError(
        Code::PolicyFailed,
        name == text.npos ? "an output" : "output '" + between(name + Output.size(), '\'') + "'",
        " is [", lengths(fact + says.fact.size()), "]; the model declares [",
        lengths(stated + says.stated.size()), "]; export it with that dimension dynamic");
  }
  return failure;
}

/// Bytes per element.
size_t width(ElementType type) {
  return type == ElementType::String ? sizeof(mlb_string) : sizeOf(type);
}

} // namespace

Expected<std::unique_ptr<Runner>> Runner::create(const Model &model, const int64_t *const *shapes) {
  std::unique_ptr<Runner> runner(new Runner(model));
  const Signature &signature = model.signature();
  // The slots' addresses and the values' places stay as they are from here on.
  runner->inputs_.resize(signature.inputs.size());
  runner->inputValues_.resize(signature.inputs.size());
  runner->outputs_.resize(signature.outputs.size());
  runner->outputValues_.resize(signature.outputs.size());

  bool &hasStringInputs = runner->hasStringInputs_;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    Slot &slot = runner->inputs_[i];
    slot.spec = &signature.inputs[i];
    slot.shape = slot.spec->shape;
    slot.data = nothing;
    hasStringInputs |= slot.spec->type == ElementType::String;
    const size_t rank = slot.shape.size();
    if (std::any_of(shapes[i], shapes[i] + rank, [](int64_t n) { return n < 0; })) {
      std::replace(slot.shape.begin(), slot.shape.end(), Dynamic, int64_t(0));
      ++runner->unsized_;
      continue;
    }
    if (Status s = runner->makeValue(slot, shapes[i], runner->inputValues_[i]); !s)
      return s;
    if (!slot.own.empty())
      std::memset(slot.own.data(), 0, slot.own.size());
  }
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    Slot &slot = runner->outputs_[i];
    slot.spec = &signature.outputs[i];
    if (slot.spec->isDynamic() || slot.spec->type == ElementType::String) {
      slot.isPerCall = runner->hasPerCallOutputs_ = true;
      slot.shape = slot.spec->shape;
      continue;
    }
    if (Status s = runner->makeValue(slot, slot.spec->shape.data(), runner->outputValues_[i]); !s)
      return s;
    std::memset(slot.own.data(), 0, slot.own.size());
  }
  runner->releasePerCallOutputs();
  if (Status s = runner->makeBinding(); !s)
    return s;
  return runner;
}

Status Runner::makeBinding() {
  OrtStatus *failure = api_->CreateIoBinding(model_.session(), &binding_);
  for (size_t i = 0; i < inputs_.size() && !failure; ++i)
    if (inputs_[i].isSized)
      failure = api_->BindInput(binding_, model_.inputNames()[i], inputValues_[i]);
  for (size_t i = 0; i < outputs_.size() && !failure; ++i)
    failure =
        outputs_[i].isPerCall
            ? api_->BindOutputToDevice(binding_, model_.outputNames()[i], model_.runtime().memory)
            : api_->BindOutput(binding_, model_.outputNames()[i], outputValues_[i]);
  return take(api_, failure, Code::Internal, "binding the buffers");
}

// ONNX Runtime doesn't write an output that it was given memory for if that is an input of the
// graph too, but replaces it: the binding then has the input. What it does with an output depends
// on the graph alone, so the first evaluation settles for which outputs its own memory is taken.
Status Runner::adoptOutputs() {
  OrtAllocator *allocator = model_.runtime().allocator;
  OrtValue **values = nullptr;
  size_t count = 0;
  if (Status s = take(api_, api_->GetBoundOutputValues(binding_, allocator, &values, &count),
                      Code::Internal, "the outputs");
      !s)
    return s;
  Status status;
  if (count != outputs_.size())
    status = makeError(Code::Internal, "ONNX Runtime gave ", count, " outputs instead of ",
                       outputs_.size());
  for (size_t i = 0; i < count; ++i) {
    void *data = nullptr;
    if (status && !outputs_[i].isPerCall)
      status = take(api_, api_->GetTensorMutableData(values[i], &data), Code::PolicyFailed,
                    "output '" + outputs_[i].spec->name + "'");
    if (status && (outputs_[i].isPerCall || data != outputs_[i].own.data())) {
      outputs_[i].isPerCall = hasPerCallOutputs_ = true;
      std::swap(outputValues_[i], values[i]);
    }
    if (values[i])
      api_->ReleaseValue(values[i]);
  }
  if (values)
    allocator->Free(allocator, static_cast<void *>(values));
  if (status && hasPerCallOutputs_) {
    api_->ReleaseIoBinding(binding_);
    binding_ = nullptr;
  }
  isSettled_ = status.ok();
  return status;
}

Runner::~Runner() {
  if (binding_)
    api_->ReleaseIoBinding(binding_);
  for (std::vector<OrtValue *> *values : {&inputValues_, &outputValues_})
    for (OrtValue *value : *values)
      if (value)
        api_->ReleaseValue(value);
}

Status Runner::makeValue(Slot &slot, const int64_t *shape, OrtValue *&value) {
  const TensorSpec &spec = *slot.spec;
  const Span<const int64_t> wanted(shape, spec.shape.size());
  if (Status s = checkShape(spec, wanted); !s)
    return s;
  const uint64_t bytes = *elementCount(wanted) * width(spec.type);
  // The memory may move, so the old value goes first.
  if (value)
    api_->ReleaseValue(value);
  value = nullptr;
  slot.data = nothing;
  slot.count = 0;
  slot.isSized = false;
  if (spec.type == ElementType::String)
    return makeStrings(slot, wanted, bytes / width(spec.type), value);
  // An empty tensor has memory too: ONNX Runtime takes no null pointer.
  if (Status s = slot.own.resize(std::max<uint64_t>(bytes, sizeof nothing)); !s)
    return s.withContext("'" + spec.name + "'");
  if (Status s =
          take(api_,
               api_->CreateTensorWithDataAsOrtValue(model_.runtime().memory, slot.own.data(), bytes,
                                                    shape, wanted.size(), toOrt(spec.type), &value),
               Code::LimitExceeded, "'" + spec.name + "'");
      !s)
    return s;
  slot.shape.assign(wanted.begin(), wanted.end());
  slot.data = slot.own.data();
  slot.count = bytes / width(spec.type);
  slot.isSized = true;
  return Status();
}

Status Runner::makeStrings(Slot &slot, Span<const int64_t> shape, uint64_t count,
                           OrtValue *&value) {
  if (count > UINT32_MAX)
    return makeError(Code::LimitExceeded, "'", slot.spec->name, "': too many strings in ",
                     toString(shape));
  if (Status s =
          take(api_,
               api_->CreateTensorAsOrtValue(model_.runtime().allocator, shape.data(), shape.size(),
                                            toOrt(ElementType::String), &value),
               Code::LimitExceeded, "'" + slot.spec->name + "'");
      !s)
    return s;
  slot.texts.assign(count, mlb_string{});
  slot.shape.assign(shape.begin(), shape.end());
  slot.data = count ? static_cast<void *>(slot.texts.data()) : nothing;
  slot.count = count;
  slot.isSized = true;
  return Status();
}

Status Runner::writeStrings() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].spec->type != ElementType::String)
      continue;
    for (size_t k = 0; k < inputs_[i].texts.size(); ++k) {
      const mlb_string &from = inputs_[i].texts[k];
      char *to = nullptr;
      if (Status s = take(
              api_, api_->GetResizedStringTensorElementBuffer(inputValues_[i], k, from.size, &to),
              Code::LimitExceeded, "'" + inputs_[i].spec->name + "'");
          !s)
        return s;
      if (from.size)
        std::memcpy(to, from.data, from.size);
    }
  }
  return Status();
}

Status Runner::readStrings(Slot &slot, const OrtValue *value, size_t count) {
  const auto done = [&](OrtStatus *status) {
    return take(api_, status, Code::PolicyFailed, "output '" + slot.spec->name + "'");
  };
  size_t size = 0;
  slot.texts.resize(count);
  slot.offsets.resize(count + 1);
  slot.data = nothing;
  slot.count = count;
  if (count == 0)
    return Status();
  if (Status s = done(api_->GetStringTensorDataLength(value, &size)); !s)
    return s;
  slot.characters.resize(size + 1);
  if (Status s = done(api_->GetStringTensorContent(value, slot.characters.data(), size,
                                                   slot.offsets.data(), count));
      !s)
    return s;
  slot.offsets[count] = size;
  for (size_t k = 0; k < count; ++k)
    slot.texts[k] = {slot.characters.data() + slot.offsets[k],
                     slot.offsets[k + 1] - slot.offsets[k]};
  slot.data = slot.texts.data();
  return Status();
}

Status Runner::input(uint64_t i, mlb_tensor &tensor) {
  if (i >= inputs_.size())
    return makeError(Code::InvalidArgument, "there is no input ", i);
  const Slot &slot = inputs_[i];
  tensor = {slot.data, slot.count, slot.shape.data()};
  return Status();
}

Status Runner::resize(uint64_t i, const int64_t *shape, mlb_tensor &tensor) {
  if (i >= inputs_.size())
    return makeError(Code::InvalidArgument, "there is no input ", i);
  Slot &slot = inputs_[i];
  if (!slot.isSized || !std::equal(slot.shape.begin(), slot.shape.end(), shape)) {
    unsized_ -= !slot.isSized;
    Status status = makeValue(slot, shape, inputValues_[i]);
    if (status && binding_)
      status = take(api_, api_->BindInput(binding_, model_.inputNames()[i], inputValues_[i]),
                    Code::Internal, "binding the buffers");
    slot.isSized = slot.isSized && status;
    unsized_ += !slot.isSized;
    if (!status)
      return status;
  }
  return input(i, tensor);
}

Status Runner::evaluate() {
  if (unsized_ != 0) {
    const auto slot =
        std::find_if(inputs_.begin(), inputs_.end(), [](const Slot &s) { return !s.isSized; });
    return makeError(Code::InvalidArgument, "the lengths of the input '", slot->spec->name,
                     "' were never set; call resize first");
  }
  if (model_.isNeverEmpty())
    for (const Slot &slot : inputs_)
      if (slot.count == 0)
        return makeError(Code::PolicyFailed, engine::emptyInput(slot.spec->name));
  if (hasPerCallOutputs_)
    releasePerCallOutputs();
  if (hasStringInputs_)
    if (Status s = writeStrings(); !s)
      return s;
  const OrtRunOptions *options = model_.runtime().runOptions;
  OrtStatus *failure =
      binding_ ? api_->RunWithBinding(model_.session(), options, binding_)
               : api_->Run(model_.session(), options, model_.inputNames().data(),
                           inputValues_.data(), inputValues_.size(), model_.outputNames().data(),
                           outputValues_.size(), outputValues_.data());
  if (failure)
    return explained(take(api_, failure, Code::PolicyFailed, "the model failed"));
  if (!isSettled_)
    if (Status s = adoptOutputs(); !s)
      return s;
  if (hasPerCallOutputs_)
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i].isPerCall)
        if (Status s = readPerCallOutput(outputs_[i], outputValues_[i]); !s)
          return s;
  return Status();
}

Status Runner::output(uint64_t i, mlb_tensor &tensor) {
  if (i >= outputs_.size())
    return makeError(Code::InvalidArgument, "there is no output ", i);
  const Slot &slot = outputs_[i];
  tensor = {slot.data, slot.count, slot.shape.data()};
  return Status();
}

Status Runner::readPerCallOutput(Slot &slot, OrtValue *value) {
  const std::string &name = slot.spec->name;
  OrtTensorTypeAndShapeInfo *info = nullptr;
  OrtStatus *failure = nullptr;
  const auto ok = [&](OrtStatus *status) { return (failure = status) == nullptr; };
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0, count = 0;
  void *data = nullptr;
  const bool isRead =
      ok(api_->GetTensorTypeAndShape(value, &info)) &&
      ok(api_->GetTensorElementType(info, &type)) && ok(api_->GetDimensionsCount(info, &rank)) &&
      (rank != slot.shape.size() || ok(api_->GetDimensions(info, slot.shape.data(), rank))) &&
      ok(api_->GetTensorShapeElementCount(info, &count)) &&
      (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING ||
       ok(api_->GetTensorMutableData(value, &data)));
  if (info)
    api_->ReleaseTensorTypeAndShapeInfo(info);
  if (!isRead)
    return take(api_, failure, Code::PolicyFailed, "output '" + name + "'");
  if (type != toOrt(slot.spec->type))
    return makeError(Code::PolicyFailed, "output '", name,
                     "' has another element type than declared");
  if (rank != slot.shape.size())
    return makeError(Code::PolicyFailed, "output '", name, "' has ", rank,
                     " dimensions; the model declares ", toString(slot.spec->shape));
  if (!checkShape(*slot.spec, slot.shape))
    return makeError(Code::PolicyFailed, "output '", name, "' is ", toString(slot.shape),
                     "; the model declares ", toString(slot.spec->shape));
  if (slot.spec->type == ElementType::String)
    return readStrings(slot, value, count);
  slot.count = count;
  slot.data = nothing;
  if (count == 0)
    return Status();
  slot.data = data;
  // The memory of an input changes with the next evaluation.
  const bool isInput = std::any_of(inputs_.begin(), inputs_.end(), [data](const Slot &input) {
    return input.isSized && input.own.data() == data;
  });
  if (!isInput && slot.spec->isDynamic())
    return Status();
  if (Status s = slot.own.resize(count * width(slot.spec->type)); !s)
    return s.withContext("output '" + name + "'");
  std::memcpy(slot.own.data(), data, count * width(slot.spec->type));
  slot.data = slot.own.data();
  return Status();
}

void Runner::releasePerCallOutputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Slot &slot = outputs_[i];
    if (!slot.isPerCall)
      continue;
    if (outputValues_[i])
      api_->ReleaseValue(outputValues_[i]);
    outputValues_[i] = nullptr;
    slot.data = nothing;
    slot.count = 0;
    std::fill(slot.shape.begin(), slot.shape.end(), 0);
  }
}

} // namespace mlbridge::onnx
