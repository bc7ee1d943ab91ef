// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Runner is one thread's way to evaluate a Model: its typed buffers and its last status.
#ifndef MLBRIDGE_RUNNER_H
#define MLBRIDGE_RUNNER_H

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlbridge {

class Model;

/// Never null: a Runner whose model could not be opened carries the failure, and every evaluation
/// returns it at once. Movable; used by one thread at a time. Keeps its Model alive.
///
/// Inputs keep their values between evaluations. An evaluation of fixed-shape numbers allocates
/// nothing in process.
class Runner {
public:
  /// Carries Unavailable.
  Runner();
  /// Carries the given failure.
  explicit Runner(Status failure);
  ~Runner();
  Runner(Runner &&) noexcept;
  Runner &operator=(Runner &&) noexcept;

  /// Why the last call failed; Ok after one that did not. A wrong `set` stays, and evaluations fail
  /// with it, until that input is set properly (a name that does not exist: for one evaluation) or
  /// clearStatus().
  const Status &status() const;
  explicit operator bool() const { return status().ok(); }

  /// Copies a value into an input: a scalar, a string, or anything contiguous of the element type.
  /// For an input with one Dynamic dimension the length follows from the count; with several, call
  /// resize first. Errors (InvalidArgument): unknown name, other element type, other count.
  template <typename T> Status set(std::string_view name, const T &value) {
    if constexpr (std::is_convertible_v<const T &, std::string_view>) {
      const std::string text{std::string_view(value)};
      return setElements(name, ElementType::String, &text, 1, true);
    } else if constexpr (isScalar<T>) {
      return setElements(name, ElementTypeOf<T>::value, &value, 1, true);
    } else {
      const auto *data = value.data();
      using E = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
      return setElements(name, ElementTypeOf<E>::value, data, value.size(), false);
    }
  }
  template <typename T> Status set(std::string_view name, std::initializer_list<T> values) {
    return setElements(name, ElementTypeOf<T>::value, values.begin(), values.size(), false);
  }
  /// std::vector<bool> has no elements in memory.
  Status set(std::string_view name, const std::vector<bool> &values);

  /// The input's buffer, to be written in place; valid until the Runner is destroyed or that input
  /// resized. Empty, with status() set, if the name or type is wrong. If the model could not be
  /// opened or bound, but a signature was stated, this is a buffer that nobody reads.
  template <typename T> Span<T> input(std::string_view name) {
    return typed<T>(inputView(name, ElementTypeOf<T>::value));
  }
  /// Sets the lengths of an input's Dynamic dimensions and gives its buffer, whose contents are
  /// unspecified. Earlier spans of this input are invalid afterwards.
  template <typename T> Expected<Span<T>> resize(std::string_view name, Span<const int64_t> shape) {
    Expected<TensorView> view = resizeInput(name, ElementTypeOf<T>::value, shape);
    if (!view)
      return view.status();
    return typed<T>(*view);
  }
  template <typename T>
  Expected<Span<T>> resize(std::string_view name, std::initializer_list<int64_t> shape) {
    return resize<T>(name, Span<const int64_t>(shape.begin(), shape.size()));
  }

  /// Asks the model. Returns by the deadline of the Model (or the one given) if it is out of
  /// process. Errors: those of the bad `set` before it; DeadlineExceeded, Unavailable, Busy,
  /// Closed, PolicyFailed, Protocol, LimitExceeded, Cancelled; outputs are then unspecified.
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
  /// name or type is wrong.
  template <typename T> Span<const T> output(std::string_view name) {
    const Span<T> s = typed<T>(outputView(name, ElementTypeOf<T>::value));
    return {s.data(), s.size()};
  }

  /// Untyped access by index into signature(); for language bindings. An index out of range gives
  /// an empty view.
  TensorView inputAt(size_t index);
  Expected<TensorView> resizeAt(size_t index, Span<const int64_t> shape);
  TensorView outputAt(size_t index);
  /// The bound signature, as the caller stated it; null while none is bound.
  const Signature *signature() const;

  /// Forgets a wrong `set`, and makes status() Ok. What the model's failure is stays.
  void clearStatus();

  /// Tells the model about episodes, out of process without waiting for an answer; an engine in
  /// process does nothing, and a function sees episode and context in its FunctionCall::context().
  Status beginEpisode(std::string_view episode, std::string_view context);
  /// The reward of the last evaluation's action.
  Status reward(double value);
  /// `truncated`: a limit ended it, and not its last state.
  Status endEpisode(const Status &outcome, bool truncated = false);
  /// How many of these the server will never hear of: while it reads nothing the newest 256 are
  /// kept, and none when the connection has ended.
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
  template <typename T> static Span<T> typed(const TensorView &view) {
    return {static_cast<T *>(view.data), view.count};
  }
  Status setElements(std::string_view name, ElementType type, const void *data, size_t count,
                     bool scalar);
  TensorView inputView(std::string_view name, ElementType type);
  Expected<TensorView> resizeInput(std::string_view name, ElementType type,
                                   Span<const int64_t> shape);
  TensorView outputView(std::string_view name, ElementType type);
  Expected<TensorView> firstElement(ElementType type);
  void expectOutput(ElementType type);
  Status evaluateWithin(Duration left);

  std::unique_ptr<State> state_;
};

} // namespace mlbridge

#endif
