// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The implementation behind a Model and a Runner: an engine in this process, or a conversation
// with a server.
#ifndef MLBRIDGE_CORE_BACKEND_H
#define MLBRIDGE_CORE_BACKEND_H

#include "core/bind.h"
#include "core/message.h"
#include <mlbridge/model.h>

#include <memory>

namespace mlbridge {

/// The buffers and evaluations of one thread. Indexes are those of the bound signature.
class RunnerBackend {
public:
  virtual ~RunnerBackend();
  /// Valid until that input is resized. Dynamic inputs are empty before.
  virtual TensorView input(size_t index) = 0;
  /// `shape` has been checked against the bound spec.
  virtual Expected<TensorView> resize(size_t index, Span<const int64_t> shape) = 0;
  /// `left`: what it may take, Duration::max() for ever. A duration, so that a model in this
  /// process needs no clock.
  virtual Status evaluate(Duration left) = 0;
  /// Valid until the next evaluate.
  virtual TensorView output(size_t index) = 0;
  /// Reads an input that has a shape, or writes an output of fixed shape, in the caller's memory
  /// from now on; null ends that, and so does resize. False: it would take a copy.
  virtual bool useInput(size_t, void *) { return false; }
  virtual bool useOutput(size_t, void *) { return false; }

  virtual Status beginEpisode(std::string_view, std::string_view) { return Status(); }
  virtual Status reward(double) { return Status(); }
  /// Before all agents' endEpisode: the inputs hold what is seen at the end.
  virtual void lastObservation() {}
  /// Before endEpisode: a limit ends the episode, and not its last state.
  virtual void truncateEpisode() {}
  virtual Status endEpisode(const Status &) { return Status(); }
  /// The events above that the model will never hear of.
  virtual uint64_t droppedEvents() const { return 0; }
};

/// Shared by the threads that use a model.
class ModelBackend {
public:
  virtual ~ModelBackend();
  virtual const Metadata &metadata() const = 0;
  /// Null: takes any.
  virtual const Signature *signature() const = 0;
  /// The signature of one of several agents. Errors: NotFound (there is no such agent).
  virtual Expected<const Signature *> signatureOf(std::string_view) const { return signature(); }
  /// Meets a caller's signature. Errors: those of bindSignature and signatureOf.
  virtual Expected<std::shared_ptr<const Binding>> bind(const Signature &caller,
                                                        std::string_view agent) const;
  /// `bound`: all inputs and outputs of signature() in its order, with Dynamic dimensions replaced
  /// where the caller's lengths are fixed; or, if signature() is null, the caller's signature.
  /// `deadline`: how long making the runner may take. Thread-safe.
  virtual Expected<std::unique_ptr<RunnerBackend>>
  newRunner(const Signature &bound, const CallContext &context, Duration deadline) = 0;
  /// The most servers that may answer: opening the model once more reaches the next one.
  virtual uint32_t servers() const { return 1; }
  /// The same after looking up what is a guess otherwise, for at most so long.
  virtual uint32_t countServers(Deadline) const { return servers(); }
  /// The address of the one that was reached, if there may be several.
  virtual std::string server() const { return {}; }
  /// Waits for so long, in which the transport may find more of them.
  virtual void rest(Duration) {}
  /// Thread-safe.
  virtual Expected<Metadata> statistics() {
    return Status(Code::Unsupported, "a model in this process has no server to ask");
  }
};

/// True of a metadata property that a pass may act on; those of the library and of the format say
/// where a model comes from, and are other ones with each.
inline bool mayDecide(std::string_view property) {
  return property.substr(0, 9) != "mlbridge." && property.substr(0, 5) != "onnx.";
}
/// A property that a pass may act on and that the two don't have in common; null if there is none.
const std::string *differingProperty(const Metadata &a, const Metadata &b);

/// Sets what is said; an empty text keeps what was said before.
inline void setEpisode(CallContext &context, std::string_view episode, std::string_view unit) {
  if (!episode.empty())
    context.episode = episode;
  if (!unit.empty())
    context.unit = unit;
}

/// A runner that changes something of another one.
class RunnerWrapper : public RunnerBackend {
public:
  Status beginEpisode(std::string_view episode, std::string_view unit) override {
    setEpisode(context_, episode, unit);
    return inner_->beginEpisode(episode, unit);
  }
  Status reward(double value) override { return inner_->reward(value); }
  void lastObservation() override { inner_->lastObservation(); }
  void truncateEpisode() override { inner_->truncateEpisode(); }
  Status endEpisode(const Status &outcome) override { return inner_->endEpisode(outcome); }
  uint64_t droppedEvents() const override { return inner_->droppedEvents(); }

protected:
  RunnerWrapper(std::shared_ptr<ModelBackend> model, std::unique_ptr<RunnerBackend> inner,
                CallContext context)
      : model_(std::move(model)), inner_(std::move(inner)), context_(std::move(context)) {}
  std::shared_ptr<ModelBackend> model_; ///< outlives its runner
  std::unique_ptr<RunnerBackend> inner_;
  CallContext context_;
};

/// A model that changes something of another one.
class ModelWrapper : public ModelBackend {
public:
  const Metadata &metadata() const override { return inner_->metadata(); }
  Expected<Metadata> statistics() override { return inner_->statistics(); }
  uint32_t servers() const override { return inner_->servers(); }
  uint32_t countServers(Deadline deadline) const override { return inner_->countServers(deadline); }
  std::string server() const override { return inner_->server(); }
  void rest(Duration time) override { inner_->rest(time); }

protected:
  explicit ModelWrapper(std::shared_ptr<ModelBackend> inner) : inner_(std::move(inner)) {}
  const std::shared_ptr<ModelBackend> inner_;
};

/// How a model is opened, which may have to end sooner than the deadline says.
struct Opening : OpenOptions {
  Deadline until;
};

/// The longest wait for opening, and for each evaluation.
inline Duration deadlineOf(const OpenOptions &options) {
  return options.deadline.value_or(DefaultDeadline);
}

} // namespace mlbridge

#endif
