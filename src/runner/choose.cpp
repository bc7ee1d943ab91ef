// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runner/choose.h"

#include "core/nearest.h"

#include <mlbridge/choice.h>

#include <charconv>
#include <cmath>

namespace mlbridge {
namespace {

bool isFloat(ElementType type) {
  return type == ElementType::Float16 || type == ElementType::Float32 ||
         type == ElementType::Float64;
}

class ChoosingRunner final : public RunnerBackend {
public:
  ChoosingRunner(std::shared_ptr<ModelBackend> model, std::unique_ptr<RunnerBackend> inner,
                 size_t from, std::string name, const Choosing &how, const OpenOptions &context)
      : model_(std::move(model)), inner_(std::move(inner)), from_(from), name_(std::move(name)),
        sample_(how.sample), sampler_(how.seed, how.temperature), episode_(context.episode),
        context_(context.context) {
    sampler_.restart(episode_, context_);
  }

  TensorView input(size_t index) override { return inner_->input(index); }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    return inner_->resize(index, shape);
  }
  Status evaluate(Duration left) override {
    if (Status s = inner_->evaluate(left); !s)
      return s;
    const TensorView logits = inner_->output(from_);
    switch (logits.type) {
    case ElementType::Float16:
      return choose<Half>(logits);
    case ElementType::Float32:
      return choose<float>(logits);
    case ElementType::Float64:
      return choose<double>(logits);
    default:
      return wrong("has " + std::string(name(logits.type)) + " elements");
    }
  }
  TensorView output(size_t index) override {
    if (index > 0)
      return inner_->output(index - 1);
    return {ElementType::Int64, actions_.data(), actions_.size(), shape_};
  }

  Status beginEpisode(std::string_view episode, std::string_view context) override {
    if (!episode.empty())
      episode_ = episode;
    if (!context.empty())
      context_ = context;
    sampler_.restart(episode_, context_);
    return inner_->beginEpisode(episode, context);
  }
  Status reward(double value) override { return inner_->reward(value); }
  void truncateEpisode() override { inner_->truncateEpisode(); }
  Status endEpisode(const Status &outcome) override { return inner_->endEpisode(outcome); }

private:
  Status wrong(const std::string &what) const {
    return Status(Code::PolicyFailed, "choosing from output '" + name_ + "': it " + what);
  }

  template <typename T> Status choose(const TensorView &logits) {
    if (logits.shape.empty())
      return wrong("is a scalar");
    const auto choices = static_cast<size_t>(std::max<int64_t>(0, *(logits.shape.end() - 1)));
    if (choices == 0 || logits.count % choices != 0)
      return wrong("is " + toString(logits.shape));
    shape_.assign(logits.shape.begin(), logits.shape.end() - 1);
    actions_.resize(logits.count / choices);
    const auto *row = static_cast<const T *>(logits.data);
    for (int64_t &action : actions_) {
      const Span<const T> all(row, choices);
      Expected<int64_t> chosen = sample_ ? sampler_.sample(all) : argMax(all);
      if (!chosen)
        return chosen.status().withContext("output '" + name_ + "'");
      action = *chosen;
      row += choices;
    }
    return Status::ok();
  }

  std::shared_ptr<ModelBackend> model_;
  std::unique_ptr<RunnerBackend> inner_;
  size_t from_; ///< among the model's own outputs
  std::string name_;
  bool sample_;
  Sampler sampler_;
  std::string episode_, context_;
  std::vector<int64_t> actions_;
  Shape shape_;
};

class ChoosingModel final : public ModelBackend {
public:
  ChoosingModel(std::shared_ptr<ModelBackend> inner, Choosing how, size_t from)
      : inner_(std::move(inner)), how_(std::move(how)), from_(from),
        signature_(*inner_->signature()) {
    TensorSpec action = signature_.outputs[from_];
    action.name = how_.as;
    action.type = ElementType::Int64;
    action.shape.pop_back();
    if (!action.maximum.empty())
      action.maximum.pop_back();
    signature_.outputs.insert(signature_.outputs.begin(), std::move(action));
  }

  const Metadata &metadata() const override { return inner_->metadata(); }
  const Signature *signature() const override { return &signature_; }
  Expected<std::unique_ptr<RunnerBackend>> newRunner(const Signature &bound,
                                                     const OpenOptions &context) override {
    Signature own = bound;
    own.outputs.erase(own.outputs.begin());
    Expected<std::unique_ptr<RunnerBackend>> runner = inner_->newRunner(own, context);
    if (!runner)
      return runner.status();
    return std::unique_ptr<RunnerBackend>(std::make_unique<ChoosingRunner>(
        inner_, std::move(*runner), from_, signature_.outputs[from_ + 1].name, how_, context));
  }
  Expected<Metadata> statistics() override { return inner_->statistics(); }

private:
  std::shared_ptr<ModelBackend> inner_;
  Choosing how_;
  size_t from_;
  Signature signature_;
};

/// The output that is chosen from.
Expected<size_t> sourceOf(const Signature &signature, const std::string &name) {
  std::vector<std::string_view> able;
  size_t index = 0;
  for (size_t i = 0; i < signature.outputs.size(); ++i)
    if (isFloat(signature.outputs[i].type) && !signature.outputs[i].shape.empty()) {
      able.push_back(signature.outputs[i].name);
      if (name.empty() || signature.outputs[i].name == name)
        index = i;
    }
  if (!name.empty()) {
    if (std::find(able.begin(), able.end(), name) != able.end())
      return index;
    return Status(Code::InvalidArgument, "option choose_from: the model has no output '" + name +
                                             "' of floating-point elements" +
                                             didYouMean(name, able) + "; it has " +
                                             signature.toString());
  }
  if (able.size() == 1)
    return index;
  return Status(Code::InvalidArgument, std::string("option choose: the model has ") +
                                           (able.empty() ? "no output" : "several outputs") +
                                           " of floating-point elements to choose from" +
                                           (able.empty() ? "" : "; name one with choose_from") +
                                           ": " + signature.toString());
}

std::optional<std::string> takeOption(Uri &uri, const char *key) {
  const auto it = uri.options.find(key);
  if (it == uri.options.end())
    return std::nullopt;
  std::string value = std::move(it->second);
  uri.options.erase(it);
  return value;
}

} // namespace

Expected<std::optional<Choosing>> Choosing::take(Uri &uri) {
  const std::optional<std::string> kind = takeOption(uri, "choose");
  if (!kind)
    return std::optional<Choosing>();
  Choosing how;
  if (*kind != "argmax" && *kind != "sample")
    return Status(Code::InvalidArgument,
                  "option choose: expected argmax or sample, not '" + *kind + "'");
  how.sample = *kind == "sample";
  if (std::optional<std::string> from = takeOption(uri, "choose_from"))
    how.from = std::move(*from);
  if (std::optional<std::string> as = takeOption(uri, "choose_as"))
    how.as = std::move(*as);
  if (how.as.empty())
    return Status(Code::InvalidArgument, "option choose_as: expected a name");
  for (const char *key : {"seed", "temperature"})
    if (!how.sample && uri.options.count(key))
      return Status(Code::InvalidArgument,
                    std::string("option ") + key + " is for choose=sample, not choose=argmax");
  if (const std::optional<std::string> seed = takeOption(uri, "seed")) {
    const char *end = seed->data() + seed->size();
    const auto [stop, error] = std::from_chars(seed->data(), end, how.seed);
    if (error != std::errc() || stop != end)
      return Status(Code::InvalidArgument,
                    "option seed: expected a number from 0 to 2^64 - 1, not '" + *seed + "'");
  }
  if (const std::optional<std::string> t = takeOption(uri, "temperature")) {
    const char *end = t->data() + t->size();
    const auto [stop, error] = std::from_chars(t->data(), end, how.temperature);
    if (error != std::errc() || stop != end || !(how.temperature > 0) ||
        !std::isfinite(how.temperature))
      return Status(Code::InvalidArgument,
                    "option temperature: expected a number above 0, not '" + *t + "'");
  }
  return std::optional<Choosing>(std::move(how));
}

Expected<std::shared_ptr<ModelBackend>> chooseFrom(std::shared_ptr<ModelBackend> model,
                                                   const Choosing &how) {
  const Signature *signature = model->signature();
  if (!signature)
    return Status(Code::Unsupported,
                  "option choose: the model takes any signature, so that it is not known what it "
                  "would be chosen from");
  Expected<size_t> from = sourceOf(*signature, how.from);
  if (!from)
    return from.status();
  if (signature->findOutput(how.as) >= 0)
    return Status(Code::InvalidArgument,
                  "option choose: the model has an output '" + how.as +
                      "' already; name the choice with choose_as: " + signature->toString());
  return std::shared_ptr<ModelBackend>(
      std::make_shared<ChoosingModel>(std::move(model), how, *from));
}

} // namespace mlbridge
