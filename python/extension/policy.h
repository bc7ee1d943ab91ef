// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calling a policy: what it is given (observation, context) and what it answers, for servers and
// for functions in process. Everything here requires the GIL.
#ifndef MLBRIDGE_PYTHON_POLICY_H
#define MLBRIDGE_PYTHON_POLICY_H

#include "arrays.h"

#include <mlbridge/server.h>

namespace mlbridge::python {

/// mlbridge.Context: who asks.
struct Context {
  std::string episode, unit, agent;
  uint64_t connection = 0, step = 0;
  uint32_t stream = 0;
};
nb::object newContext(const CallContext &from, uint64_t connection, uint32_t stream, uint64_t step);
nb::object newContext(const Event &event);

/// The observation and the context of one stream, made once and used again for every request that
/// lies in the same memory. They are lent to the policy: if it keeps any part of them, the memory
/// is left to what it kept, and the stream gets another.
class StreamViews {
public:
  StreamViews(uint64_t connection, uint32_t stream) : connection_(connection), stream_(stream) {}

  bool isOf(const Event &event) const {
    return connection_ == event.connection() && stream_ == event.stream();
  }
  /// Makes both show this event. Throws.
  void show(const Event &event);
  /// Borrowed; valid until the next call of a member.
  PyObject *observation() const { return proxy_.ptr(); }
  PyObject *context() const { return context_.ptr(); }
  /// Must be called before the event is answered.
  void settle(const Event &event);

private:
  struct View {
    const void *data = nullptr;
    Shape shape;
    nb::object array;
  };
  struct Input {
    nb::object name, shown;
    const void *data = nullptr;
    /// The views of a dynamic input by a hash of its shape: shapes come again, and to make an array
    /// takes as long as a short message.
    std::vector<View> views;
  };
  /// log2 of the views kept of an input.
  static constexpr int ViewBits = 7;

  void forget();
  bool isKept() const;
  nb::object viewOf(Input &input, const TensorView &tensor) const;

  uint64_t connection_, storage_ = 0;
  uint32_t stream_;
  Signature signature_;
  bool fixed_ = false; ///< numbers of fixed shape only
  struct Holder {
    std::shared_ptr<void> storage;
  };
  Holder *holder_ = nullptr; ///< owned by base_
  nb::object base_, dict_, proxy_, context_;
  std::vector<Input> inputs_;
};

/// Calls policy(observation, context). Null with a Python error if it raised.
nb::object call(PyObject *policy, PyObject *observation, PyObject *context);

/// True if the pending Python exception ends the serving (KeyboardInterrupt, SystemExit) rather
/// than this one request, as errors and a generator's GeneratorExit do.
bool isInterrupt();

/// The outputs of an event.
using EventOutputs = TensorsOf<Event, &Event::output, &Event::resizeOutput>;

/// The values of all outputs, in their order, of what a policy returned: borrowed references, which
/// `owner` keeps. PolicyFailed if they are not those of the signature.
Expected<std::vector<PyObject *>> valuesOf(PyObject *answer, const Signature &signature,
                                           nb::object &owner);
/// Stores the value of one output. PolicyFailed if it does not fit.
Status storeOne(PyObject *value, const TensorSpec &spec, Target &outputs, size_t index);

/// Stores what a policy returned: a mapping of all outputs by name, or the value of the only one.
/// PolicyFailed if it does not fit the signature.
Status storeOutputs(PyObject *answer, const Signature &signature, Target &outputs);

} // namespace mlbridge::python

#endif
