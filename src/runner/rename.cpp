// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runner/registry.h"

#include "core/message.h"
#include "core/nearest.h"
#include "core/uri_options.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace mlbridge {
namespace {

/// New names, and those that the model has.
using Renames = std::vector<std::pair<std::string, std::string>>;

template <typename... What> Status unfit(const What &...what) {
  return makeError(Code::InvalidArgument, "option rename: ", what...);
}

Expected<Signature> renamed(Signature signature, const Renames &names) {
  for (auto *side : {&signature.inputs, &signature.outputs}) {
    for (TensorSpec &spec : *side) {
      const auto found = std::find_if(names.begin(), names.end(),
                                      [&](const auto &name) { return name.second == spec.name; });
      if (found != names.end())
        spec.name = found->first;
    }
  }
  // Names were right before, so that what is wrong now is one that is there twice.
  if (Status s = signature.check(); !s)
    return unfit(s.message(), ": ", signature.toString());
  return signature;
}

class RenamedModel final : public ModelWrapper {
public:
  RenamedModel(std::shared_ptr<ModelBackend> inner, Renames names)
      : ModelWrapper(std::move(inner)), names_(std::move(names)) {}

  const Signature *signature() const override {
    const Signature *own = inner_->signature();
    return own ? of(*own).valueOr(nullptr) : nullptr;
  }
  Expected<const Signature *> signatureOf(std::string_view agent) const override {
    Expected<const Signature *> own = inner_->signatureOf(agent);
    return own && *own ? of(**own) : own;
  }
  // Runners know tensors by their indexes, so those of the model will do.
  Expected<std::unique_ptr<RunnerBackend>>
  newRunner(const Signature &bound, const CallContext &context, Duration deadline) override {
    Expected<const Signature *> own = inner_->signatureOf(context.agent);
    if (!own)
      return own.status();
    Signature named = bound;
    restore(named.inputs, *own ? &(*own)->inputs : nullptr);
    restore(named.outputs, *own ? &(*own)->outputs : nullptr);
    return inner_->newRunner(named, context, deadline);
  }

private:
  /// `own` is a signature of the model, which lasts as long as the model.
  Expected<const Signature *> of(const Signature &own) const {
    const std::lock_guard<std::mutex> guard(lock_);
    const auto known = signatures_.find(&own);
    if (known != signatures_.end())
      return &known->second;
    Expected<Signature> result = renamed(own, names_);
    if (!result)
      return result.status();
    return &signatures_.emplace(&own, std::move(*result)).first->second;
  }
  /// Old names; `own` is null for a model that takes any.
  void restore(std::vector<TensorSpec> &specs, const std::vector<TensorSpec> *own) const {
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto known = std::find_if(names_.begin(), names_.end(), [&](const auto &name) {
        return name.first == specs[i].name;
      });
      if (own && i < own->size())
        specs[i].name = (*own)[i].name;
      else if (!own && known != names_.end())
        specs[i].name = known->second;
    }
  }

  const Renames names_;
  mutable std::mutex lock_;
  mutable std::map<const Signature *, Signature> signatures_;
};

Expected<Renames> takeRenames(Uri &uri) {
  Renames names;
  const std::string option = takeOption(uri, "rename").value_or("");
  std::string_view rest = option;
  while (true) {
    const std::string_view one = rest.substr(0, rest.find(','));
    const size_t colon = one.find(':');
    const auto wrong = [&](const auto &...what) { return unfit("'", one, "': ", what...); };
    if (colon == one.npos || colon == 0 || colon + 1 == one.size())
      return wrong("expected NEW:OLD, or several of them separated by commas");
    names.emplace_back(one.substr(0, colon), one.substr(colon + 1));
    for (size_t i = 0; i + 1 < names.size(); ++i)
      if (names[i].first == names.back().first || names[i].second == names.back().second)
        return wrong("one of its names is already in '", names[i].first, ":", names[i].second, "'");
    if (one.size() == rest.size())
      break;
    rest.remove_prefix(one.size() + 1);
  }
  return names;
}

} // namespace

OpenedBackend openRenamed(Uri &uri, const ModelOpener &open) {
  Expected<Renames> names = takeRenames(uri);
  if (!names)
    return names.status();
  OpenedBackend model = open(uri);
  if (!model)
    return model;
  // A server of several agents may be asked for one later.
  if (Expected<const Signature *> own = (*model)->signatureOf(open.agent()); own && *own) {
    const Signature &signature = **own;
    std::vector<std::string_view> known = namesOf(signature.inputs);
    for (const std::string_view name : namesOf(signature.outputs))
      known.push_back(name);
    for (const auto &[to, from] : *names)
      if (std::find(known.begin(), known.end(), from) == known.end())
        return unfit("the model has no input or output '", from, "'", didYouMean(from, known),
                     "; it has ", signature.toString());
    if (Expected<Signature> result = renamed(signature, *names); !result)
      return result.status();
  }
  return std::shared_ptr<ModelBackend>(
      std::make_shared<RenamedModel>(std::move(*model), std::move(*names)));
}

} // namespace mlbridge
