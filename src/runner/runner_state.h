// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inside of a Runner: a slot for each tensor of the caller, in front of the backend's buffers.
#ifndef MLBRIDGE_RUNNER_RUNNER_STATE_H
#define MLBRIDGE_RUNNER_RUNNER_STATE_H

#include "core/backend.h"
#include "core/bind.h"

namespace mlbridge {

struct Runner::State {
  struct Input {
    const Binding::Port *port = nullptr;
    bool sized = false;     ///< has a shape: fixed, or given by resize
    bool touched = false;   ///< was ever set or handed out
    TensorView view;        ///< in the caller's shape
    Tensor scratch;         ///< storage where the model does not know the input
    Status wrong;           ///< the bad `set` that evaluations wait to see corrected
    bool bound = false;     ///< view is the caller's memory
    void *copyTo = nullptr; ///< the model's buffer, if it doesn't read that of the caller
  };
  struct Output {
    const Binding::Port *port = nullptr;
    TensorView view;
    void *bound = nullptr; ///< the caller's memory
    size_t room = 0;       ///< elements there
  };

  std::shared_ptr<ModelBackend> backend;
  CallContext context;
  Duration deadline = Duration::max();    ///< of each evaluation
  std::shared_ptr<const Binding> binding; ///< null while inferring
  std::unique_ptr<RunnerBackend> runner;  ///< null if there is a failure, or while inferring
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  Status failure;      ///< why there is no model, for good
  Status last;         ///< what status() gives
  Status unknownInput; ///< a `set` of a name that does not exist; fails one evaluation
  Status wrongBinding; ///< of bindInput or bindOutput; fails evaluations until clearStatus
  size_t wrongInputs = 0;
  size_t copiedInputs = 0;  ///< those with a copyTo
  size_t unsizedInputs = 0; ///< known to the model and Dynamic, without a shape yet
  bool hasOutputs = false;

  /// The caller stated no signature. Names that the model does not know are remembered and ignored,
  /// and each of its inputs must have been set.
  bool inferred = false;
  bool allTouched = false;
  std::vector<std::string> ignored;
  /// Until the first evaluation on a model that takes any signature.
  bool inferring = false;
  std::vector<Tensor> pending;
  std::optional<ElementType> answerType;
  std::vector<Tensor> nowhere; ///< what wrong calls of input() write to, one for each type

  /// A runner that has failed. With a binding (to nothing) its buffers can still be written to.
  static std::unique_ptr<State> failed(Status why, std::shared_ptr<const Binding> binding);
  /// Errors: the backend's.
  static Expected<std::unique_ptr<State>> bound(std::shared_ptr<ModelBackend> backend,
                                                std::shared_ptr<const Binding> binding,
                                                CallContext context, Duration deadline);

  /// Nothing keeps the next evaluation from running.
  bool isReady() const {
    return failure.ok() && !inferring && !wrongInputs && !unsizedInputs && unknownInput.ok() &&
           wrongBinding.ok() && (!inferred || allTouched);
  }
  /// For a runner that is not: does what is missing, or says why it can't.
  Status prepare();

  Status attach(std::shared_ptr<const Binding> binding, std::unique_ptr<RunnerBackend> runner);
  /// On the first evaluation of a runner that is inferring.
  Status infer();
  Input *find(const TensorKey &key) { return find(inputs, key); }
  Output *findOutput(const TensorKey &key) { return find(outputs, key); }
  /// Errors: InvalidArgument, which evaluations then fail with.
  Expected<Input *> inputOf(const TensorKey &key, ElementType type);
  Status unknown(const char *what, const TensorKey &key,
                 const std::vector<TensorSpec> Signature::*side) const;
  /// While inferring: the tensor of that name, with this shape.
  Expected<TensorView> pendingTensor(const TensorKey &key, ElementType type,
                                     Span<const int64_t> shape);
  /// Gives a Dynamic input the length that follows from the count. Errors: InvalidArgument.
  Status fitTo(Input &input, size_t count);
  void unbind(Input &input);
  /// At least so many elements that nobody reads; the view has `count`, or all if that is unknown.
  TensorView writable(ElementType type, std::optional<size_t> count);
  Status reject(Input *input, Status why);
  /// Remembers what is wrong with a bindInput or bindOutput.
  Status rejectBinding(Status why);
  /// Why buffers of the caller's cannot be bound now.
  Status canBind();
  void accept(Input &input) {
    input.touched = true;
    if (!input.wrong.ok() || !last.ok())
      forgive(input);
  }
  /// The same for an input that was wrong, or after a failure.
  void forgive(Input &input);
  /// Runner::setElements where that is more than a copy.
  Status set(const TensorKey &key, ElementType type, const void *data, size_t count, bool scalar);
  void refreshLast();
  Expected<TensorView> resize(Input &input, Span<const int64_t> shape);
  Status collectOutputs();
  Status wrongOutput(const Binding::Port &port, const TensorView &view) const;
  /// Puts the output where the caller wants it.
  Status copyOut(Output &output);
  /// Has the model read what the caller bound.
  void copyIn();
  Status firstElementError(ElementType type) const;
  void outputError(const TensorKey &key, ElementType type);
  Status checkInputs();
  Status fail(Status why) { return last = std::move(why); }

  static const Status &noModel();

private:
  /// The port of that name or index; null if there is none.
  template <typename Port> static Port *find(std::vector<Port> &ports, const TensorKey &key) {
    if (!key.name_)
      return key.number_ < ports.size() ? &ports[key.number_] : nullptr;
    for (Port &port : ports)
      if (port.port->spec.name == key.name())
        return &port;
    return nullptr;
  }
};

/// The model's view in the caller's rank.
inline TensorView inCallersRank(TensorView view, bool batch) {
  if (batch && !view.shape.empty())
    view.shape = {view.shape.data() + 1, view.shape.size() - 1};
  return view;
}

} // namespace mlbridge

#endif
