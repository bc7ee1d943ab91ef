// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runner/registry.h"

#include "core/convert.h"
#include "core/message.h"
#include "core/nearest.h"
#include "core/uri_options.h"

#include <mlbridge/sampler.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>

namespace mlbridge {
namespace {

/// How a choice is made: the options of the URI.
struct Choosing {
  bool sample = false;
  std::string from; ///< the output; "": the only one of floating-point elements
  std::string as = "action";
  std::string mask; ///< an input that says what may be chosen; "": everything
  uint64_t seed = 0;
  double temperature = 1;
};

/// One agent's signature with the choice, and where its parts are.
struct Chosen {
  Signature signature;
  size_t from = 0;        ///< the logits, among the model's own outputs
  int mask = -1;          ///< among the inputs
  bool isMaskOwn = false; ///< of the model; otherwise the last input, which the model doesn't see
};

/// True if an element is not zero.
bool allowsAt(const TensorView &mask, size_t index) {
  // A byte that is to be a bool may have another value than 0 and 1.
  return withNumber(mask.type == ElementType::Bool ? ElementType::UInt8 : mask.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T value = static_cast<const T *>(mask.data)[index];
    if constexpr (std::is_same_v<T, Half>)
      return (value.bits & 0x7fff) != 0; // there are two zeros
    else
      return value != T{};
  });
}

template <typename T> constexpr T minusInfinity() { return -std::numeric_limits<T>::infinity(); }
template <> constexpr Half minusInfinity<Half>() { return Half{0xfc00}; }

/// The error of a mask of these logits; nothing if its shape can be theirs, or that of one
/// row.
Status checkMask(const TensorSpec &mask, const TensorSpec &logits) {
  const Shape &m = mask.shape, &l = logits.shape;
  const auto differs = [&](size_t back) {
    const int64_t a = m[m.size() - back], b = l[l.size() - back];
    return a != b && a != Dynamic && b != Dynamic;
  };
  bool fits = mask.type != ElementType::String && !m.empty() && m.size() <= l.size();
  // A leading 1 may be a batch of one, which the pass doesn't state.
  for (size_t back = 1; fits && back <= m.size(); ++back)
    fits = !differs(back) || (back > 1 && m[m.size() - back] == 1);
  return fits ? Status()
              : makeError(Code::Mismatch, "option mask: input '", mask.toString(),
                          "' must have a bool or number for each element of the output '",
                          logits.toString(), "'");
}

class ChoosingRunner final : public RunnerWrapper {
public:
  /// `mask`: its spec, if it is none of the model's inputs.
  ChoosingRunner(std::shared_ptr<ModelBackend> model, std::unique_ptr<RunnerBackend> inner,
                 const Chosen &chosen, const TensorSpec *mask, const Choosing &how,
                 const CallContext &context)
      : RunnerWrapper(std::move(model), std::move(inner), context), from_(chosen.from),
        name_(chosen.signature.outputs[chosen.from + 1].name), mask_(chosen.mask),
        maskName_(how.mask), sample_(how.sample), sampler_(how.seed, how.temperature) {
    sampler_.restart(context_.episode, context_.unit);
    if (mask) {
      maskSpec_ = *mask;
      if (!mask->isDynamic())
        ownMask_ = Tensor(*mask);
    }
  }

  TensorView input(size_t index) override {
    return isOwnMask(index) ? ownMask_.view() : inner_->input(index);
  }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    if (!isOwnMask(index))
      return inner_->resize(index, shape);
    if (Status s = ownMask_.reshape(*maskSpec_, shape); !s)
      return s;
    return ownMask_.view();
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
      return wrong("has ", name(logits.type), " elements");
    }
  }
  TensorView output(size_t index) override {
    if (index > 0)
      return inner_->output(index - 1);
    return {ElementType::Int64, actions_.data(), actions_.size(), shape_};
  }

  Status beginEpisode(std::string_view episode, std::string_view unit) override {
    Status begun = RunnerWrapper::beginEpisode(episode, unit);
    sampler_.restart(context_.episode, context_.unit);
    return begun;
  }

private:
  bool isOwnMask(size_t index) const { return maskSpec_ && static_cast<int>(index) == mask_; }
  template <typename... What> Status wrong(const What &...what) const {
    return makeError(Code::PolicyFailed, "choosing from output '", name_, "': it ", what...);
  }

  template <typename T> Status choose(const TensorView &logits) {
    if (logits.shape.empty())
      return wrong("is a scalar, expected a dimension with one element for each action");
    const auto choices = static_cast<size_t>(std::max<int64_t>(0, *(logits.shape.end() - 1)));
    if (choices == 0 || logits.count % choices != 0)
      return wrong("has the shape ", toString(logits.shape), ", with nothing to choose from");
    shape_.assign(logits.shape.begin(), logits.shape.end() - 1);
    actions_.resize(logits.count / choices);
    const auto *row = static_cast<const T *>(logits.data);
    TensorView mask;
    std::vector<T> &allowed = std::get<std::vector<T>>(allowed_);
    if (mask_ >= 0) {
      mask = input(static_cast<size_t>(mask_));
      if (mask.count != logits.count && mask.count != choices)
        return wrong("has the shape ", toString(logits.shape), ", the mask '", maskName_, "' has ",
                     toString(mask.shape));
      allowed.resize(choices);
    }
    size_t at = 0; // in the mask
    for (int64_t &action : actions_) {
      Span<const T> all(row, choices);
      if (mask_ >= 0) {
        bool any = false;
        for (size_t i = 0; i < choices; ++i) {
          const bool may = allowsAt(mask, at + i);
          any |= may;
          allowed[i] = may ? row[i] : minusInfinity<T>();
        }
        if (!any)
          return wrong("has ", choices, " elements, of which input '", maskName_, "' allows none");
        if (mask.count == logits.count)
          at += choices;
        all = allowed;
      }
      Expected<int64_t> chosen = sample_ ? sampler_.sample(all) : argMax(all);
      if (!chosen)
        return chosen.status().withContext(join("output '", name_, "'"));
      action = *chosen;
      row += choices;
    }
    return Status();
  }

  size_t from_; ///< among the model's own outputs
  std::string name_;
  const int mask_; ///< among the inputs
  const std::string maskName_;
  std::optional<TensorSpec> maskSpec_; ///< of one that is none of the model's inputs
  Tensor ownMask_;
  std::tuple<std::vector<Half>, std::vector<float>, std::vector<double>> allowed_; ///< of a row
  bool sample_;
  Sampler sampler_;
  std::vector<int64_t> actions_;
  Shape shape_;
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
    return makeError(Code::InvalidArgument, "option choose_from: the model has no output '", name,
                     "' of floating-point elements", didYouMean(name, able), "; it has ",
                     signature.toString());
  }
  if (able.size() == 1)
    return index;
  return makeError(Code::InvalidArgument, "option choose: the model has ",
                   able.empty() ? "no output" : "several outputs",
                   " of floating-point elements to choose from",
                   able.empty() ? "" : "; name one with choose_from", ": ", signature.toString());
}

Expected<Chosen> chosenFrom(const Signature &own, const Choosing &how) {
  Expected<size_t> from = sourceOf(own, how.from);
  if (!from)
    return from.status();
  if (own.findOutput(how.as) >= 0)
    return makeError(Code::InvalidArgument, "option choose: the model has an output '", how.as,
                     "' already; name the choice with choose_as: ", own.toString());
  Chosen chosen;
  chosen.signature = own;
  chosen.from = *from;
  const TensorSpec &logits = own.outputs[*from];
  if (!how.mask.empty()) {
    chosen.mask = own.findInput(how.mask);
    chosen.isMaskOwn = chosen.mask >= 0;
    if (!chosen.isMaskOwn) { // unless the pass states another type
      chosen.mask = static_cast<int>(own.inputs.size());
      chosen.signature.inputs.push_back(
          {how.mask, ElementType::Bool, logits.shape, logits.maximum});
    } else if (Status s = checkMask(own.inputs[static_cast<size_t>(chosen.mask)], logits); !s) {
      return s;
    }
  }
  TensorSpec action = logits;
  action.name = how.as;
  action.type = ElementType::Int64;
  action.shape.pop_back();
  if (!action.maximum.empty())
    action.maximum.pop_back();
  chosen.signature.outputs.insert(chosen.signature.outputs.begin(), std::move(action));
  return chosen;
}

class ChoosingModel final : public ModelWrapper {
public:
  ChoosingModel(std::shared_ptr<ModelBackend> inner, Choosing how)
      : ModelWrapper(std::move(inner)), how_(std::move(how)) {}

  /// The choice for an agent, "" for the only one. Errors: why it is not possible to choose.
  Expected<const Chosen *> chosenOf(const std::string &agent) const {
    const std::lock_guard<std::mutex> guard(lock_);
    if (const auto known = agents_.find(agent); known != agents_.end())
      return &known->second;
    Expected<const Signature *> own = inner_->signatureOf(agent);
    if (!own)
      return own.status();
    if (!*own)
      return makeError(Code::Unsupported,
                       "option choose: the model takes any signature, so there is "
                       "no known output to choose from");
    Expected<Chosen> chosen = chosenFrom(**own, how_);
    if (!chosen)
      return chosen.status();
    return &agents_.emplace(agent, std::move(*chosen)).first->second;
  }

  const Signature *signature() const override {
    return inner_->signature() ? signatureOf("").valueOr(nullptr) : nullptr;
  }
  Expected<const Signature *> signatureOf(std::string_view agent) const override {
    Expected<const Chosen *> chosen = chosenOf(std::string(agent));
    return chosen ? Expected<const Signature *>(&(*chosen)->signature) : chosen.status();
  }
  /// A mask that the model doesn't see is as the pass states it.
  Expected<std::shared_ptr<const Binding>> bind(const Signature &caller,
                                                std::string_view agent) const override {
    Expected<const Chosen *> chosen = chosenOf(std::string(agent));
    if (!chosen)
      return chosen.status();
    Signature own = (*chosen)->signature;
    const int mask = caller.findInput(how_.mask);
    if ((*chosen)->mask >= 0 && !(*chosen)->isMaskOwn && mask >= 0) {
      own.inputs.back() = caller.inputs[static_cast<size_t>(mask)];
      if (Status s = checkMask(own.inputs.back(), own.outputs[(*chosen)->from + 1]); !s)
        return s.withContext("the signature of the pass");
    }
    return bindSignature(caller, &own);
  }
  Expected<std::unique_ptr<RunnerBackend>>
  newRunner(const Signature &bound, const CallContext &context, Duration deadline) override {
    Expected<const Chosen *> chosen = chosenOf(context.agent);
    if (!chosen)
      return chosen.status();
    Signature own = bound;
    own.outputs.erase(own.outputs.begin());
    const bool isMaskOwn = (*chosen)->mask < 0 || (*chosen)->isMaskOwn;
    if (!isMaskOwn)
      own.inputs.pop_back();
    Expected<std::unique_ptr<RunnerBackend>> runner = inner_->newRunner(own, context, deadline);
    if (!runner)
      return runner.status();
    return std::unique_ptr<RunnerBackend>(std::make_unique<ChoosingRunner>(
        inner_, std::move(*runner), **chosen, isMaskOwn ? nullptr : &bound.inputs.back(), how_,
        context));
  }

private:
  const Choosing how_;
  mutable std::mutex lock_;
  mutable std::map<std::string, Chosen> agents_; ///< those that were asked for
};

/// Reads the option, if it is there, as an integer or a number above 0. Errors: InvalidArgument.
template <typename T> Status takeNumber(Uri &uri, const char *key, const char *expected, T &to) {
  const std::optional<std::string> text = takeOption(uri, key);
  if (!text)
    return Status();
  const char *end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, to);
  const bool fits = std::is_integral_v<T> || (to > 0 && std::isfinite(static_cast<double>(to)));
  if (error == std::errc() && stop == end && fits)
    return Status();
  return makeError(Code::InvalidArgument, "option ", key, ": expected a number ", expected,
                   ", not '", *text, "'");
}

Expected<Choosing> takeChoosing(Uri &uri) {
  const std::string kind = takeOption(uri, "choose").value_or("");
  Choosing how;
  if (kind != "argmax" && kind != "sample")
    return makeError(Code::InvalidArgument, "option choose: expected argmax or sample, not '", kind,
                     "'");
  how.sample = kind == "sample";
  how.from = takeOption(uri, "choose_from").value_or("");
  how.as = takeOption(uri, "choose_as").value_or(how.as);
  if (how.as.empty())
    return makeError(Code::InvalidArgument, "option choose_as: expected a name");
  if (std::optional<std::string> mask = takeOption(uri, "mask")) {
    if (mask->empty())
      return makeError(Code::InvalidArgument, "option mask: expected the name of an input");
    how.mask = std::move(*mask);
  }
  for (const char *key : {"seed", "temperature"})
    if (!how.sample && uri.options.count(key))
      return makeError(Code::InvalidArgument, "option ", key,
                       " is for choose=sample, not choose=argmax");
  if (Status s = takeNumber(uri, "seed", "from 0 to 2^64 - 1", how.seed); !s)
    return s;
  if (Status s = takeNumber(uri, "temperature", "above 0", how.temperature); !s)
    return s;
  return how;
}

} // namespace

OpenedBackend openChoosing(Uri &uri, const ModelOpener &open) {
  Expected<Choosing> how = takeChoosing(uri);
  if (!how)
    return how.status();
  OpenedBackend model = open(uri);
  if (!model)
    return model;
  const bool isKnown = (*model)->signatureOf(open.agent()).status().ok();
  auto choosing = std::make_shared<ChoosingModel>(std::move(*model), std::move(*how));
  if (isKnown) // otherwise an agent may be named later
    if (Status s = choosing->chosenOf(open.agent()).status(); !s)
      return s;
  return std::shared_ptr<ModelBackend>(std::move(choosing));
}

} // namespace mlbridge
