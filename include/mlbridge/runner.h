// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Runner is one thread's way to evaluate a Model: its typed buffers and its last status.
//
//     mlbridge::Runner runner = mlbridge::open("native:policy.onnx", signature); // of model.h
//     mlbridge::Span<float> input = runner.input<float>("embedding"); // looked up once
//     input[0] = 1; // written in place before each evaluation
//     if (mlbridge::Expected<int64_t> action = runner.evaluate<int64_t>())
//       apply(*action);
//     else
//       report(runner.status().message());
#ifndef MLBRIDGE_RUNNER_H
#define MLBRIDGE_RUNNER_H

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlbridge {

class Model;

/// The key of an input or output: its name, or its index in signature(), which needs no lookup. Use
/// it only within one call: it refers to the caller's name.
class TensorKey {
public:
  /// From a name: anything that converts to std::string_view.
  template <typename S,
            typename = std::enable_if_t<std::is_convertible_v<const S &, std::string_view>>>
  TensorKey(const S &name) {
    const std::string_view text(name);
    name_ = text.data() ? text.data() : "";
    number_ = text.size();
  }
  /// From an index, or an enumerator that is one.
  TensorKey(size_t index) : number_(index) {}
  /// "'embedding'" or "3".
  std::string toString() const {
    return name_ ? "'" + std::string(name()) + "'" : std::to_string(number_);
  }

private:
  friend class Runner;
  std::string_view name() const { return {name_, number_}; }
  const char *name_ = nullptr; // null: an index. No more members, so that it goes in registers
  size_t number_;              // the name's length, or the index
};

/// Movable. Keeps its Model alive. Inputs keep their values between evaluations. An evaluation of
/// fixed-shape numbers allocates nothing in process.
///
/// # Threads
/// Used by one thread at a time; each thread makes its own.
///
/// # Errors
/// Never null: a Runner whose model could not be opened carries the failure, and every evaluation
/// returns it at once.
class Runner {
public:
  Runner(); ///< carries Unavailable
  /// Carries the given failure.
  explicit Runner(Status failure);
  ~Runner();
  Runner(Runner &&) noexcept;
  Runner &operator=(Runner &&) noexcept;

  /// Why the last call failed; Ok after one that did not. A wrong `set` stays, and evaluations fail
  /// with it, until that input is set properly or clearStatus(). A name or index that does not
  /// exist fails one evaluation.
  const Status &status() const;
  explicit operator bool() const { return status().ok(); }

  /// Copies a value into an input: a scalar, a string, or anything contiguous. Numbers of a
  /// different type are converted if each value fits: integers exactly, floating-point numbers by
  /// rounding. For an input with one Dynamic dimension the length follows from the count; with
  /// several, call resize first. Errors (InvalidArgument): unknown name or index, text for a
  /// number, a value that does not fit, wrong count; nothing is written on an error.
  template <typename T> Status set(TensorKey input, const T &value) {
    if constexpr (std::is_convertible_v<const T &, std::string_view>) {
      const std::string text{std::string_view(value)};
      return setElements(input, ElementType::String, &text, 1, true);
    } else if constexpr (isScalar<T>) {
      return setElements(input, typeOf<T>(), &value, 1, true);
    } else {
      const auto *data = value.data();
      using E = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
      return setElements(input, typeOf<E>(), data, value.size(), false);
    }
  }
  template <typename T> Status set(TensorKey input, std::initializer_list<T> values) {
    return setElements(input, typeOf<T>(), values.begin(), values.size(), false);
  }
  /// For std::vector<bool>, which has no contiguous elements.
  Status set(TensorKey input, const std::vector<bool> &values);

  /// The input's buffer, to be written in place; valid until the Runner is destroyed or that input
  /// resized. Never null. A wrong name, index or type is an error like a wrong `set`, and gives a
  /// buffer that nobody reads: of the input's size, or of 1 MB (4096 strings) if there is no such
  /// input. So does an input of a model that could not be opened. An input with Dynamic lengths has
  /// no elements before set or resize.
  template <typename T> Span<T> input(TensorKey input) {
    return typed<T>(inputView(input, ElementTypeOf<T>::value));
  }
  /// Sets the lengths of an input's Dynamic dimensions and gives its buffer, whose contents are
  /// unspecified. Earlier spans of this input are invalid afterwards.
  template <typename T> Expected<Span<T>> resize(TensorKey input, Span<const int64_t> shape) {
    Expected<TensorView> view = resizeInput(input, ElementTypeOf<T>::value, shape);
    if (!view)
      return view.status();
    return typed<T>(*view);
  }
  template <typename T>
  Expected<Span<T>> resize(TensorKey input, std::initializer_list<int64_t> shape) {
    return resize<T>(input, Span<const int64_t>(shape.begin(), shape.size()));
  }

  /// Lets each evaluation read an input from the caller's memory, until set or resize of that
  /// input, or a bindInput with an empty span. The memory must last that long. `function:` reads it
  /// where it is; for other models it is copied before each evaluation. Lengths follow from the
  /// count, as for set. Errors (InvalidArgument): unknown name or index, other type or count;
  /// evaluations fail with it until clearStatus().
  template <typename T> Status bindInput(TensorKey input, Span<T> elements) {
    using E = std::remove_const_t<T>;
    return bindInputTo(input, ElementTypeOf<E>::value, const_cast<E *>(elements.data()),
                       elements.size());
  }
  /// Lets each evaluation write an output to the caller's memory, until a bindOutput with an empty
  /// span; output() then gives that memory. A fixed-shape output must have the size of the span; a
  /// Dynamic one longer than the span fails the evaluation with LimitExceeded. `function:` writes
  /// fixed-shape outputs in place; all others are copied. Errors: as bindInput.
  template <typename T> Status bindOutput(TensorKey output, Span<T> elements) {
    return bindOutputTo(output, ElementTypeOf<T>::value, elements.data(), elements.size());
  }

  /// Asks the model. Returns by the deadline of the Model (or the one given) if it is out of
  /// process. Errors: that of an earlier wrong `set`; DeadlineExceeded, Unavailable, Busy, Closed,
  /// PolicyFailed, Protocol, LimitExceeded, Cancelled; outputs are then unspecified.
  Status evaluate();
  Status evaluate(Deadline deadline);

  /// evaluate(), then the first element of the only (or first) output.
  template <typename T> Expected<T> evaluate() {
    expectOutput(ElementTypeOf<T>::value);
    if (Status s = evaluate(); !s)
      return s;
    Expected<TensorView> view = firstElement(ElementTypeOf<T>::value);
    if (!view)
      return view.status();
    return *static_cast<const T *>(view->data);
  }
  /// The model's answer, or `heuristic()` if there is none. The heuristic runs only then; status()
  /// says why.
  template <typename T, typename Heuristic> T evaluateOr(Heuristic &&heuristic) {
    Expected<T> answer = evaluate<T>();
    return answer ? std::move(*answer) : static_cast<T>(std::forward<Heuristic>(heuristic)());
  }

  /// An output of the last evaluation; valid until the next one. Empty, with status() set, if the
  /// name, index or type is wrong.
  template <typename T> Span<const T> output(TensorKey output) {
    const Span<T> s = typed<T>(outputView(output, ElementTypeOf<T>::value));
    return {s.data(), s.size()};
  }

  /// The same without types, for language bindings. An index out of range gives an empty view.
  TensorView inputAt(size_t index);
  Expected<TensorView> resizeAt(size_t index, Span<const int64_t> shape);
  TensorView outputAt(size_t index);
  /// The bound signature, as the caller stated it; null while none is bound.
  const Signature *signature() const;

  /// Forgets a wrong `set`, and makes status() Ok. The model's own failure stays.
  void clearStatus();

  /// Tells the model about episodes, out of process without waiting for an answer; an engine in
  /// process does nothing, and a function sees them in its FunctionCall::context().
  Status beginEpisode(std::string_view episode, std::string_view unit);
  Status reward(double value); ///< the reward of the last evaluation's action
  /// `truncated`: a limit ended it, not a terminal state.
  Status endEpisode(const Status &outcome, bool truncated = false);
  /// How many of these events were dropped: while the server does not read, only the newest 256 are
  /// kept; none once the connection has ended.
  uint64_t droppedEvents() const;

private:
  friend class Model;
  friend struct EpisodePlayer;
  friend Runner open(std::string_view, const struct OpenOptions &);
  struct State;
  explicit Runner(std::unique_ptr<State> state);
  static Runner inferring(const Model &model);

  template <typename T>
  static constexpr bool isScalar = std::is_arithmetic_v<T> || std::is_same_v<T, Half>;
  /// Also of `char`, `wchar_t` and others, which are no element types.
  template <typename T> static constexpr ElementType typeOf() {
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>)
      return ElementTypeOf<T>::value;
    else if constexpr (std::is_signed_v<T>)
      return ElementTypeOf<std::make_signed_t<T>>::value;
    else
      return ElementTypeOf<std::make_unsigned_t<T>>::value;
  }
  template <typename T> static Span<T> typed(const TensorView &view) {
    return {static_cast<T *>(view.data), view.count};
  }
  Status setElements(TensorKey input, ElementType type, const void *data, size_t count,
                     bool scalar);
  TensorView inputView(TensorKey input, ElementType type);
  Expected<TensorView> resizeInput(TensorKey input, ElementType type, Span<const int64_t> shape);
  Status bindInputTo(TensorKey input, ElementType type, void *data, size_t count);
  Status bindOutputTo(TensorKey output, ElementType type, void *data, size_t count);
  TensorView outputView(TensorKey output, ElementType type);
  Expected<TensorView> firstElement(ElementType type);
  void expectOutput(ElementType type);
  Status evaluateWithin(Duration left);

  std::unique_ptr<State> state_;
};

} // namespace mlbridge

#endif
