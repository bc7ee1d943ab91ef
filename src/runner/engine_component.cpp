// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls an engine through its table of C functions.
#include "core/message.h"
#include "runner/registry.h"

#include "core/component.h"
#include "core/component_values.h"
#include "core/registry.h"

#include <mlbridge/engine.h>

#include <cstddef>

namespace mlbridge {
namespace {

class EngineModel;

class EngineRunner final : public RunnerBackend {
public:
  EngineRunner(std::shared_ptr<const EngineModel> model, const Signature &bound)
      : model_(std::move(model)), inputs_(bound.inputs.size()), outputs_(bound.outputs.size()) {
    for (size_t i = 0; i < inputs_.size(); ++i)
      inputs_[i].spec = bound.inputs[i];
    for (size_t i = 0; i < outputs_.size(); ++i)
      outputs_[i].spec = bound.outputs[i];
  }
  ~EngineRunner() override;
  Status create();

  TensorView input(size_t index) override { return inputs_[index].view; }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override;
  Status evaluate(Duration left) override;
  TensorView output(size_t index) override { return outputs_[index].view; }

private:
  struct Slot {
    TensorSpec spec;
    TensorView view;
    Shape shape;            // for engines that move theirs
    mlb_tensor tensor = {}; // the engine's
    Tensor strings;         // of a String tensor, whose elements the engine has as mlb_string
  };
  Status adopt(Slot &slot, const mlb_tensor &tensor, Span<const int64_t> shape);

  std::shared_ptr<const EngineModel> model_;
  void *runner_ = nullptr;
  std::vector<Slot> inputs_, outputs_;
  ComponentError error_;
};

class EngineModel final : public ModelBackend, public std::enable_shared_from_this<EngineModel> {
public:
  EngineModel(const mlb_engine &engine, std::string scheme)
      : engine(engine), scheme(std::move(scheme)) {}
  ~EngineModel() override {
    if (model)
      engine.close(model);
  }
  Status open(const Uri &uri, const Span<const uint8_t> *memory);

  const Metadata &metadata() const override { return metadata_; }
  const Signature *signature() const override { return &signature_; }
  Expected<std::unique_ptr<RunnerBackend>> newRunner(const Signature &bound, const CallContext &,
                                                     Duration) override {
    auto runner = std::make_unique<EngineRunner>(shared_from_this(), bound);
    if (Status s = runner->create(); !s)
      return s;
    return std::unique_ptr<RunnerBackend>(std::move(runner));
  }

  const mlb_engine &engine;
  const std::string scheme;
  void *model = nullptr;

private:
  Metadata metadata_;
  Signature signature_;
};

Status readSide(const mlb_tensor_spec *specs, uint64_t size, std::vector<TensorSpec> &to) {
  for (uint64_t i = 0; i < size; ++i) {
    Expected<TensorSpec> spec = fromComponent(specs[i]);
    if (!spec)
      return spec.status();
    to.push_back(std::move(*spec));
  }
  return Status();
}

Status EngineModel::open(const Uri &uri, const Span<const uint8_t> *memory) {
  const std::vector<mlb_option> options = toComponent(uri.options);
  ComponentError error;
  const bool takesMemory = engine.size > offsetof(mlb_engine, open_memory) && engine.open_memory;
  if (memory && !takesMemory)
    return makeError(Code::Unsupported, scheme, ": the engine takes no model from memory");
  const mlb_string place = toComponent(uri.place);
  const mlb_code code =
      memory ? engine.open_memory({memory->data(), memory->size()}, place, options.data(),
                                  options.size(), &model, error.get())
             : engine.open(place, options.data(), options.size(), &model, error.get());
  if (code) {
    model = nullptr;
    return error.status(code, scheme);
  }
  constexpr uint64_t MostMetadata = 1 << 16;
  for (uint64_t i = 0; i < MostMetadata; ++i) {
    mlb_string key{}, value{};
    if (engine.metadata(model, i, &key, &value))
      break;
    metadata_.emplace(fromComponent(key), fromComponent(value));
  }
  const mlb_tensor_spec *inputs = nullptr, *outputs = nullptr;
  uint64_t inputsSize = 0, outputsSize = 0;
  engine.signature(model, &inputs, &inputsSize, &outputs, &outputsSize);
  Status s = readSide(inputs, inputsSize, signature_.inputs);
  if (s)
    s = readSide(outputs, outputsSize, signature_.outputs);
  if (s)
    s = signature_.check();
  if (!s)
    return makeError(Code::InvalidModel, scheme, ": the model's signature: ", s.message());
  return Status();
}

EngineRunner::~EngineRunner() {
  if (runner_)
    model_->engine.destroy_runner(runner_);
}

Status EngineRunner::create() {
  std::vector<const int64_t *> shapes;
  shapes.reserve(inputs_.size());
  for (const Slot &slot : inputs_)
    shapes.push_back(slot.spec.shape.data());
  if (const mlb_code code =
          model_->engine.create_runner(model_->model, shapes.data(), &runner_, error_.get())) {
    runner_ = nullptr;
    return error_.status(code, model_->scheme);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Slot &slot = inputs_[i];
    slot.view.type = slot.spec.type;
    if (slot.spec.isDynamic())
      continue;
    mlb_tensor tensor{};
    if (const mlb_code code = model_->engine.input(runner_, i, &tensor, error_.get()))
      return error_.status(code, model_->scheme + ": input '" + slot.spec.name + "'");
    if (Status s = adopt(slot, tensor, slot.spec.shape); !s)
      return s;
  }
  return Status();
}

// Makes the engine's buffer the slot's; `shape` is what it must have.
Status EngineRunner::adopt(Slot &slot, const mlb_tensor &tensor, Span<const int64_t> shape) {
  const size_t count = elementCount(shape).value_or(0);
  if (tensor.count != count || (count && !tensor.data))
    return makeError(Code::Internal, model_->scheme, ": tensor '", slot.spec.toString(), "' has ",
                     tensor.count, " elements instead of ", count);
  slot.tensor = tensor;
  slot.shape.assign(shape.begin(), shape.end());
  if (slot.spec.type == ElementType::String) {
    Expected<Tensor> strings = Tensor::make(slot.spec, shape);
    if (!strings)
      return strings.status();
    slot.strings = std::move(*strings);
    slot.view = slot.strings.view();
  } else {
    slot.view.data = tensor.data;
    slot.view.count = count;
  }
  slot.view.type = slot.spec.type;
  slot.view.shape = slot.shape;
  return Status();
}

Expected<TensorView> EngineRunner::resize(size_t index, Span<const int64_t> shape) {
  Slot &slot = inputs_[index];
  mlb_tensor tensor{};
  if (const mlb_code code =
          model_->engine.resize(runner_, index, shape.data(), &tensor, error_.get()))
    return error_.status(code, model_->scheme + ": input '" + slot.spec.name + "'");
  if (Status s = adopt(slot, tensor, shape); !s)
    return s;
  return slot.view;
}

Status EngineRunner::evaluate(Duration limit) {
  for (Slot &slot : inputs_) {
    if (slot.spec.type != ElementType::String)
      continue;
    auto *to = static_cast<mlb_string *>(slot.tensor.data);
    for (const std::string &text : slot.view.as<std::string>())
      *to++ = toComponent(text);
  }
  const uint64_t left =
      limit == Duration::max() ? MLB_NO_DEADLINE : static_cast<uint64_t>(limit.count());
  if (const mlb_code code = model_->engine.evaluate(runner_, left, error_.get()))
    return error_.status(code, model_->scheme);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Slot &slot = outputs_[i];
    mlb_tensor tensor{};
    if (const mlb_code code = model_->engine.output(runner_, i, &tensor, error_.get()))
      return error_.status(code, model_->scheme + ": output '" + slot.spec.name + "'");
    if (!tensor.shape && !slot.spec.shape.empty())
      return makeError(Code::Internal, model_->scheme, ": output '", slot.spec.name,
                       "' came without a shape");
    const Span<const int64_t> shape(tensor.shape, slot.spec.shape.size());
    if (slot.spec.type == ElementType::String) {
      if (Status s = checkShape(slot.spec, shape); !s)
        return makeError(Code::PolicyFailed, model_->scheme, ": ", s.message());
      if (Status s = adopt(slot, tensor, shape); !s)
        return s;
      const auto *from = static_cast<const mlb_string *>(tensor.data);
      for (std::string &text : slot.view.as<std::string>())
        text = std::string(fromComponent(*from++));
      continue;
    }
    // The runner checks shape and count.
    slot.view = {slot.spec.type, tensor.data, tensor.count, shape};
  }
  return Status();
}

using Engines = Registry<const mlb_engine *>;

/// The engines that the program registered, by scheme and by name.
Registry<std::shared_ptr<Engines>> &linkedEngines() {
  static auto &all = *new Registry<std::shared_ptr<Engines>>;
  return all;
}

} // namespace

Status registerEngine(const std::string &scheme, std::string name, const mlb_engine &engine) {
  if (Status s = checkNotReserved(scheme); !s)
    return s;
  if (name.empty())
    return makeError(Code::InvalidArgument, "an engine was registered without a name");
  if (const std::string missing = missingInTable(engine); !missing.empty())
    return makeError(Code::InvalidArgument, "engine ", scheme, ":", name,
                     " has no complete table: ", missing);
  if (!linkedEngines()
           .findOrAdd(scheme, std::make_shared<Engines>())
           ->add(std::move(name), &engine))
    return makeError(Code::InvalidArgument, "an engine is registered under the same name already");
  return Status();
}

// Here, so that a program that registers a component has what opens an engine.
Status registerComponent(const mlb_component &component) { return addComponent(component); }

std::vector<std::string> linkedSchemes() { return linkedEngines().names(); }

OpenedBackend openLinked(const Uri &uri) {
  const std::optional<std::shared_ptr<Engines>> engines = linkedEngines().find(uri.scheme);
  if (!engines)
    return std::shared_ptr<ModelBackend>();
  const auto engine = (*engines)->find(uri.place);
  return engine
             ? openEngine(**engine, uri, nullptr)
             : makeError(Code::NotFound, "no model '", uri.place, "' is linked into this program",
                         (*engines)->suggestion(uri.place, uri.scheme));
}

OpenedBackend openEngine(const mlb_engine &engine, const Uri &uri,
                         const Span<const uint8_t> *memory) {
  auto model = std::make_shared<EngineModel>(engine, uri.scheme);
  if (Status s = model->open(uri, memory); !s)
    return s;
  return std::shared_ptr<ModelBackend>(std::move(model));
}

} // namespace mlbridge
