// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A callable as a model: tests, heuristics, defaults. Opened as "function:NAME", or used directly.
//
//     (void)mlbridge::registerFunction("heuristic", signature, [](mlbridge::FunctionCall &call) {
//       call.out<int64_t>("action")[0] = call.in<float>("embedding")[0] > 0;
//       return mlbridge::Status();
//     });
//     mlbridge::Model model = mlbridge::Model::open("function:heuristic");
#ifndef MLBRIDGE_FUNCTION_H
#define MLBRIDGE_FUNCTION_H

#include <mlbridge/model.h>

#include <functional>

namespace mlbridge {

/// One evaluation as a function sees it: the tensors in the order of its signature. Outputs of
/// fixed shape are allocated and zero; others are given their shape by resizeOutput. Valid during
/// the call.
class FunctionCall {
public:
  virtual ~FunctionCall();
  /// The signature that the model was bound to, Dynamic dimensions as declared.
  virtual const Signature &signature() const = 0;
  /// Input `index` of the signature, readable during the call.
  virtual TensorView input(size_t index) const = 0;
  /// Output `index`, to be written; zero at first. One with Dynamic lengths has none until
  /// resizeOutput.
  virtual TensorView output(size_t index) = 0;
  /// Sets the lengths of an output. Errors: PolicyFailed (they do not fit), InvalidArgument (there
  /// is no such output).
  virtual Expected<TensorView> resizeOutput(size_t index, Span<const int64_t> shape) = 0;
  /// The caller, and what it works on.
  virtual const CallContext &context() const = 0;

  /// By name; empty if there is no such tensor or its type is another.
  template <typename T> Span<const T> in(std::string_view name) const {
    const int i = signature().findInput(name);
    if (i < 0)
      return {};
    const Span<T> s = input(static_cast<size_t>(i)).as<T>();
    return {s.data(), s.size()};
  }
  template <typename T> Span<T> out(std::string_view name) {
    const int i = signature().findOutput(name);
    return i < 0 ? Span<T>() : output(static_cast<size_t>(i)).as<T>();
  }
};

/// Called on the evaluating thread, from several threads at once if the Model has Runners in
/// several. It cannot be interrupted: deadlines do not apply while it runs. An exception that
/// escapes it becomes PolicyFailed.
using Function = std::function<Status(FunctionCall &)>;

/// A function and its description.
struct FunctionModel {
  /// Null: takes whatever signature the caller states.
  std::optional<Signature> signature;
  Metadata metadata; ///< what the model says of itself
  /// Makes the function of one Runner, so that it may keep state of its own (a step counter).
  std::function<Function()> newFunction;
};

/// A Model that calls the function. Never blocks.
Model fromFunction(FunctionModel model);
/// The usual stateless case.
Model fromFunction(Signature signature, Function function, Metadata metadata = {});

/// Makes "function:<name>" open this function, which takes no options. Process-wide within this
/// copy of the library, thread-safe. Errors: InvalidArgument (the name is taken, the function is
/// empty).
Status registerFunction(std::string name, Signature signature, Function function,
                        Metadata metadata = {});
/// The same for a function that depends on the URI: opens the model that the factory returns for
/// it. The factory interprets the options.
Status registerFunction(std::string name,
                        std::function<Expected<FunctionModel>(const Uri &)> factory);
/// The same for a whole scheme of one's own ("candidates:FILE"). A scheme of the library cannot be
/// replaced.
Status registerScheme(std::string scheme,
                      std::function<Expected<FunctionModel>(const Uri &)> factory);

} // namespace mlbridge

#endif
