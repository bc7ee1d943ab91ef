// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rules of Model::bind.
#include "core/backend.h"
#include "core/convert.h"
#include "core/message.h"
#include "core/nearest.h"

#include <algorithm>
#include <map>
#include <utility>

namespace mlbridge {

static int64_t maximumOf(const TensorSpec &spec, size_t i) {
  return i < spec.maximum.size() ? spec.maximum[i] : 0;
}

// Fits one tensor of the caller to one of the model. Returns what is wrong, or nothing.
static std::string fit(const TensorSpec &caller, const TensorSpec &model, bool isInput,
                       Binding::Port &port, TensorSpec &bound) {
  const auto disagreement = [&](const auto &...what) {
    return join(isInput ? "input" : "output", " '", caller.name, "' is ", what...);
  };
  if (caller.type != model.type)
    return disagreement(name(caller.type), " in the pass and ", name(model.type), " in the model");
  const size_t rank = caller.shape.size();
  port.batch = model.shape.size() == rank + 1 && (model.shape[0] == 1 || model.shape[0] == Dynamic);
  if (model.shape.size() != rank && !port.batch) {
    const bool isForMore =
        model.shape.size() == rank + 1 &&
        std::equal(caller.shape.begin(), caller.shape.end(), model.shape.begin() + 1,
                   [](int64_t a, int64_t b) { return a == b || a == Dynamic || b == Dynamic; });
    return disagreement(caller.shape, " in the pass and ", model.shape,
                        " in the model: different numbers of dimensions",
                        isForMore ? join(" (its first, a batch of ", model.shape[0],
                                         ", would have to be 1 or dynamic; export the model so)")
                                  : std::string());
  }
  bound = {model.name, model.type, {}, {}};
  port.spec = {caller.name, caller.type, {}, {}};
  if (port.batch) {
    bound.shape.push_back(1);
    bound.maximum.push_back(0);
  }
  for (size_t i = 0; i < rank; ++i) {
    const size_t k = i + (port.batch ? 1 : 0);
    const int64_t a = caller.shape[i], b = model.shape[k];
    const int64_t maxA = maximumOf(caller, i), maxB = maximumOf(model, k);
    const auto at = [&](int64_t length, int64_t most) {
      return length != Dynamic ? join(length) : most ? join("?<=", most) : join("?");
    };
    const std::string where =
        join("dimension ", i, ": ", at(a, maxA), " in the pass and ", at(b, maxB), " in the model");
    int64_t length = Dynamic, most = 0;
    if (a != Dynamic && b != Dynamic) {
      if (a != b)
        return disagreement("different in ", where);
      length = a;
    } else if (a != Dynamic) {
      if (maxB && a > maxB)
        return disagreement("longer than the model's maximum in ", where);
      length = a;
    } else if (b != Dynamic) {
      // The pass may send any length, so a model that takes one is wrong; what a model of fixed
      // length answers is fine for a pass that takes any.
      if (isInput)
        return disagreement("fixed in the model but not in the pass: ", where);
      if (maxA && b > maxA)
        return disagreement("longer than the pass's maximum in ", where);
      length = b;
    } else {
      if (isInput && maxA && maxB && maxA > maxB)
        return disagreement("longer than the model's maximum in ", where);
      most = maxA && maxB ? std::min(maxA, maxB) : std::max(maxA, maxB);
    }
    bound.shape.push_back(length);
    bound.maximum.push_back(most);
    port.spec.shape.push_back(length);
    port.spec.maximum.push_back(most);
  }
  return {};
}

static std::string unknownName(const TensorSpec &spec, const std::vector<TensorSpec> &others,
                               const char *what) {
  return join(what, " '", spec.toString(), "'", didYouMean(spec.name, namesOf(others)));
}

/// True if an output of the model would do for the caller's under another name.
static bool isUnderAnotherName(const TensorSpec &spec, const TensorSpec &wanted,
                               const Signature &caller) {
  Binding::Port port;
  TensorSpec bound, renamed = wanted;
  renamed.name = spec.name;
  return std::none_of(caller.outputs.begin(), caller.outputs.end(),
                      [&spec](const TensorSpec &other) { return other.name == spec.name; }) &&
         fit(renamed, spec, false, port, bound).empty();
}

/// The output that gives the caller the integer that it lacks: an integer of another name, such as
/// a classifier's label, which need not be an index; else what makes one of a network's logits.
static std::string adviceFor(const TensorSpec &wanted, const Signature &caller,
                             const Signature &model) {
  if (wanted.type != ElementType::Int64)
    return {};
  const TensorSpec *other = nullptr;
  for (const TensorSpec &spec : model.outputs)
    if (isUnderAnotherName(spec, wanted, caller) && std::exchange(other, &spec))
      return {}; // nobody can say which
  if (other)
    return join("; '?rename=", wanted.name, ":", other->name, "' in the URI gives the model's '",
                other->toString(), "' this name");
  for (const TensorSpec &spec : model.outputs)
    if (isFloat(spec.type) && !spec.shape.empty())
      return join("; '?choose=argmax", wanted.name == "action" ? "" : "&choose_as=",
                  wanted.name == "action" ? "" : wanted.name.c_str(),
                  "' in the URI makes an int64 of the model's '", spec.toString(), "'");
  return {};
}

/// The first few as text, which is all that anyone reads.
class Disagreements {
public:
  void add(const std::string &what) {
    if (!what.empty() && ++count_ <= Shown)
      text_.append(count_ == 1 ? "" : "; ").append(what);
  }
  size_t count() const { return count_; }
  bool hasEnough() const { return count_ >= Shown; }
  std::string text() const {
    return shortened(text_) +
           (count_ > Shown ? "; and " + std::to_string(count_ - Shown) + " more" : "");
  }

private:
  static constexpr size_t Shown = 3;
  size_t count_ = 0;
  std::string text_;
};

/// Signatures that can be taken in at a glance.
static std::string both(const Signature &caller, const Signature &model) {
  constexpr size_t Glance = 200;
  const std::string pass = caller.toString(), offered = model.toString();
  if (pass.size() > Glance || offered.size() > Glance)
    return {};
  return join("; the pass declares ", pass, ", the model has ", offered);
}

/// The index of each name; a peer's signature may have very many.
class Names {
public:
  explicit Names(const std::vector<TensorSpec> &specs) {
    for (const TensorSpec &spec : specs)
      numbers_.emplace(spec.name, static_cast<int>(numbers_.size()));
  }
  int find(std::string_view name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? -1 : found->second;
  }

private:
  std::map<std::string_view, int> numbers_;
};

/// Ports as the caller states them: of a model that takes any signature, or of none.
static std::shared_ptr<Binding> bindingOf(const Signature &caller, bool hasModel) {
  auto binding = std::make_shared<Binding>();
  binding->caller = caller;
  const auto add = [&](const std::vector<TensorSpec> &specs, std::vector<Binding::Port> &ports) {
    for (size_t i = 0; i < specs.size(); ++i)
      ports.push_back({hasModel ? static_cast<int>(i) : -1, false, specs[i]});
  };
  add(caller.inputs, binding->inputs);
  add(caller.outputs, binding->outputs);
  return binding;
}

Expected<std::shared_ptr<const Binding>> bindSignature(const Signature &caller,
                                                       const Signature *model) {
  if (Status s = caller.check(); !s)
    return s.withContext("the signature of the pass");
  if (!model) {
    std::shared_ptr<Binding> binding = bindingOf(caller, true);
    binding->model = caller;
    return std::shared_ptr<const Binding>(std::move(binding));
  }

  auto binding = std::make_shared<Binding>();
  binding->caller = caller;
  binding->model = *model;
  Disagreements wrong;
  const Names theirInputs(model->inputs), ownInputs(caller.inputs), theirOutputs(model->outputs);
  for (const TensorSpec &spec : caller.inputs) {
    Binding::Port port{theirInputs.find(spec.name), false, spec};
    if (port.model >= 0)
      wrong.add(
          fit(spec, model->inputs[port.model], true, port, binding->model.inputs[port.model]));
    binding->inputs.push_back(std::move(port));
  }
  for (const TensorSpec &spec : model->inputs)
    if (ownInputs.find(spec.name) < 0)
      wrong.add(wrong.hasEnough()
                    ? "another"
                    : unknownName(spec, caller.inputs, "the pass does not give the model's input"));
  std::string advice;
  for (const TensorSpec &spec : caller.outputs) {
    const size_t before = wrong.count();
    Binding::Port port{theirOutputs.find(spec.name), false, spec};
    if (port.model >= 0)
      wrong.add(
          fit(spec, model->outputs[port.model], false, port, binding->model.outputs[port.model]));
    else
      wrong.add(wrong.hasEnough() ? "another"
                                  : unknownName(spec, model->outputs,
                                                "the model does not give the pass's output"));
    if (wrong.count() > before && advice.empty())
      advice = adviceFor(spec, caller, *model);
    binding->outputs.push_back(std::move(port));
  }
  if (wrong.count())
    return makeError(Code::Mismatch, wrong.text(), advice, both(caller, *model));
  return std::shared_ptr<const Binding>(std::move(binding));
}

std::shared_ptr<const Binding> bindToNothing(const Signature &caller) {
  return bindingOf(caller, false);
}

Signature inferredFrom(const Signature &model) {
  Signature caller = model;
  for (TensorSpec &spec : caller.inputs) {
    // With one unknown length, that follows from the number of elements set.
    if (std::count(spec.shape.begin(), spec.shape.end(), Dynamic) > 1 && spec.shape[0] == Dynamic) {
      spec.shape[0] = 1;
      if (!spec.maximum.empty())
        spec.maximum[0] = 0;
    }
  }
  return caller;
}

RunnerBackend::~RunnerBackend() = default;
ModelBackend::~ModelBackend() = default;

const std::string *differingProperty(const Metadata &a, const Metadata &b) {
  for (const auto &[one, other] : {std::pair{&a, &b}, {&b, &a}})
    for (const auto &[key, value] : *one) {
      const auto found = other->find(key);
      if (mayDecide(key) && (found == other->end() || found->second != value))
        return &key;
    }
  return nullptr;
}

Expected<std::shared_ptr<const Binding>> ModelBackend::bind(const Signature &caller,
                                                            std::string_view agent) const {
  Expected<const Signature *> own = signatureOf(agent);
  return own ? bindSignature(caller, *own) : own.status();
}

} // namespace mlbridge
