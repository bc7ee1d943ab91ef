// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening: the file is read whole, held against what native runs, and planned.
#include "engine/native/network.h"

#include "core/message.h"
#include "engine/file.h"
#include "engine/native/missing_features.h"
#include "engine/native/planner.h"
#include "engine/native/registry.h"

#include <algorithm>
#include <set>

namespace mlbridge::native {
namespace {

constexpr size_t PlansKept = 16;
constexpr int64_t NewestOperators = 28, NewestFormat = 14; // of onnx 1.23

Expected<TensorSpec> specOf(const onnx::ValueInfo &info, const char *kind) {
  if (info.name.empty())
    return makeError(Code::InvalidModel, "an ", kind, " has no name");
  if (!info.isTensor)
    return makeError(Code::Unsupported,
                     "it is a sequence, a map or optional; only tensors are supported");
  const std::optional<ElementType> type = onnx::elementType(info.type);
  if (!type)
    return makeError(Code::Unsupported, "it has elements of the type ", onnx::name(info.type));
  TensorSpec spec;
  spec.name = std::string(info.name);
  spec.type = *type == BFloat16 ? ElementType::Float32 : *type;
  spec.shape = info.shape;
  return spec;
}

/// Names in a file may have any length.
Status brief(const Status &status) {
  constexpr size_t Most = 4096;
  const std::string &text = status.message();
  return text.size() <= Most ? status : makeError(status.code(), text.substr(0, Most), "...");
}

} // namespace

Network::Network() = default;
Network::~Network() = default;

Expected<std::shared_ptr<Network>> Network::open(const std::string &path, const Limits &limits,
                                                 const Span<const uint8_t> *memory) {
  std::shared_ptr<Network> network(new Network);
  network->path_ = path;
  network->folder_ = memory ? std::string() : engine::folderOf(path);
  network->memory_ = limits.memory;
  Expected<Buffer> file = engine::readModelFile(path, memory, onnx::ModelLimit, limits.deadline);
  if (!file)
    return file.status();
  network->file_ = std::move(*file);
  // Giving the file back takes time as well, about this.
  Deadline deadline = limits.deadline;
  if (!deadline.isNever())
    deadline = Deadline::at(deadline.when() - std::chrono::nanoseconds(network->file_.size() / 4));
  if (Status s = network->load(deadline); !s)
    return brief(s).withContext(path);
  return network;
}

Status Network::load(const Deadline &deadline) {
  Expected<onnx::Model> model = onnx::readModel(file_.span(), deadline);
  if (!model)
    return model.status();
  model_ = std::make_unique<onnx::Model>(std::move(*model));
  if (Status s = onnx::sortNodes(*model_, deadline); !s)
    return s;
  const Metadata leftOut = onnx::leaveOut(*model_);
  MissingFeatures missing;
  if (Status s = checkOperators(deadline, missing); !s)
    return s;
  if (Status s = readSignature(missing); !s)
    return s;
  metadata_.insert(leftOut.begin(), leftOut.end());
  weights_ = std::make_unique<Weights>(folder_, file_.size(), deadline);
  // Plans that are made later find the files' contents as they are now.
  for (const onnx::Tensor &tensor : model_->graph.initializers)
    if (Status s = weights_->readExternal(tensor); !s)
      return missing.isEmpty() ? s : missing.status();
  bool isFixed = true;
  std::vector<Shape> shapes;
  for (const TensorSpec &spec : signature_.inputs) {
    isFixed &= !spec.isDynamic();
    shapes.push_back(spec.shape);
  }
  if (!isFixed)
    return findLengths(deadline, missing);
  Expected<SharedPlan> only = makePlan(shapes, deadline, {}, missing);
  if (!only)
    return missing.isEmpty() || only.status().code() == Code::Unsupported ? only.status()
                                                                          : missing.status();
  plans_.push_back(*only);
  if (!(*only)->decisions.empty())
    return findLengths(deadline, missing);
  for (size_t i = 0; i < signature_.outputs.size(); ++i) {
    TensorSpec &declared = signature_.outputs[i];
    const TensorSpec &planned = (*only)->outputs[i];
    if (declared.type != planned.type ||
        (model_->graph.outputs[i].hasShape && !checkShape(declared, planned.shape)))
      return makeError(Code::InvalidModel, "output '", declared.toString(), "' is in fact ",
                       planned.toString());
    declared.shape = planned.shape;
  }
  model_.reset();
  weights_.reset();
  file_ = Buffer();
  return Status();
}

Status Network::checkOperators(const Deadline &deadline, MissingFeatures &missing) const {
  Status status;
  const auto newest = [&](const onnx::Opsets &opsets) {
    const auto version = opsets.find("");
    if (version != opsets.end() && version->second > NewestOperators)
      missing.add("the model",
                  "it uses opset " + std::to_string(version->second) +
                      "; the newest that native supports is " + std::to_string(NewestOperators),
                  false);
  };
  if (model_->irVersion > NewestFormat)
    missing.add("the model",
                "it has IR version " + std::to_string(model_->irVersion) +
                    "; the newest that native supports is " + std::to_string(NewestFormat) +
                    "; export the model with an older ir_version",
                false);
  newest(model_->opsets);
  for (const onnx::Function &function : model_->functions)
    newest(function.opsets);
  onnx::eachNode(*model_, [&](const onnx::Node &node, const onnx::Opsets &opsets) {
    if (status && deadline.hasPassed())
      status = makeError(Code::DeadlineExceeded, "the deadline passed while it was read");
    if (!status || model_->function(node))
      return;
    const auto version = opsets.find(node.domain);
    if (version == opsets.end() ? !node.domain.empty()
                                : !findOperator(node.domain, node.op, version->second))
      missing.add(
          onnx::describe(node),
          unsupportedOperator(node, version == opsets.end() ? 0 : version->second).message(),
          isInOnnxRuntime(node));
  });
  return status;
}

Status Network::readSignature(MissingFeatures &missing) {
  std::set<std::string_view> initializers;
  bool isWhole = true;
  const auto add = [&](const onnx::ValueInfo &info, const char *kind,
                       std::vector<TensorSpec> &specs) {
    Expected<TensorSpec> spec = specOf(info, kind);
    if (spec) {
      specs.push_back(std::move(*spec));
      return Status();
    }
    if (spec.status().code() != Code::Unsupported)
      return spec.status();
    // onnx: takes no others, either.
    missing.add(std::string(kind) + " '" + std::string(info.name) + "'", spec.status().message(),
                info.isTensor && onnx::name(info.type) == "STRING");
    isWhole = false;
    return Status();
  };
  for (const onnx::Tensor &tensor : model_->graph.initializers)
    initializers.insert(tensor.name);
  for (const onnx::ValueInfo &input : model_->graph.inputs) {
    if (initializers.count(input.name)) // weights with a name of their own
      continue;
    if (Status s = add(input, "input", signature_.inputs); !s)
      return s;
    if (isWhole && !input.hasShape) {
      missing.add("input '" + std::string(input.name) + "'",
                  "it has no shape; declare its dimensions, dynamic ones where they change", false);
      isWhole = false;
    }
  }
  for (const onnx::ValueInfo &output : model_->graph.outputs)
    if (Status s = add(output, "output", signature_.outputs); !s)
      return s;
  if (!isWhole)
    return missing.status();
  if (Status s = signature_.check(); !s)
    return {Code::InvalidModel, s.message()};

  metadata_ = onnx::metadataOf(*model_);
  return Status();
}

Expected<SharedPlan> Network::makePlan(const std::vector<Shape> &shapes, const Deadline &deadline,
                                       const Settled &settled, const MissingFeatures &missing,
                                       Stop *stop) {
  std::vector<TensorSpec> inputs = signature_.inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    inputs[i].shape = shapes[i];
  Planner planner(*model_, *weights_, {deadline, memory_}, settled, missing);
  Expected<SharedPlan> plan = planner.plan(inputs);
  if (stop)
    *stop = planner.stop();
  if (!plan && !planner.missing().isEmpty() && plan.status().code() != Code::DeadlineExceeded)
    return planner.missing().status();
  if (!plan || !(*plan)->decisions.empty())
    return plan;
  for (size_t i = 0; i < signature_.outputs.size(); ++i)
    if (signature_.outputs[i].type != (*plan)->outputs[i].type)
      return makeError(Code::InvalidModel, "output '", signature_.outputs[i].toString(),
                       "' is in fact ", (*plan)->outputs[i].toString());
  return plan;
}

Expected<SharedPlan> Network::plan(const std::vector<Shape> &shapes, const Deadline &deadline,
                                   const Settled &settled) {
  std::unique_lock<std::timed_mutex> turn(mutex_, std::defer_lock); // one thread at a time
  if (deadline.isNever())
    turn.lock();
  else if (!turn.try_lock_until(deadline.when()))
    return makeError(Code::DeadlineExceeded,
                     "native: another thread was still planning the network at the deadline");
  for (size_t p = 0; !settled.plan && p < plans_.size(); ++p) {
    const std::vector<TensorSpec> &inputs = plans_[p]->inputs;
    bool same = true;
    for (size_t i = 0; i < inputs.size(); ++i)
      same &= inputs[i].shape == shapes[i];
    if (!same)
      continue;
    std::rotate(plans_.begin(), plans_.begin() + p, plans_.begin() + p + 1);
    return plans_.front();
  }
  if (!model_)
    return makeError(Code::InvalidArgument,
                     "native: the network has fixed shapes, which differ from those given");
  Expected<SharedPlan> plan = makePlan(shapes, deadline, settled, {});
  if (!plan)
    return brief(plan.status()).withContext(path_);
  if (!settled.plan) {
    plans_.insert(plans_.begin(), *plan);
    if (plans_.size() > PlansKept)
      plans_.pop_back();
  }
  return plan;
}

} // namespace mlbridge::native
