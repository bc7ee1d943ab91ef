// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Python callable as a model in this process.
#include "model.h"
#include "policy.h"

#include <mlbridge/function.h>

namespace mlbridge::python {
namespace {

/// A callable that any thread may drop.
class Callable {
public:
  explicit Callable(nb::object callable) : callable_(callable.release().ptr()) {}
  ~Callable() {
    if (!Py_IsInitialized())
      return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(callable_);
    PyGILState_Release(state);
  }
  Callable(const Callable &) = delete;
  PyObject *get() const { return callable_; }

private:
  PyObject *callable_;
};

using CallOutputs = TensorsOf<FunctionCall, &FunctionCall::output, &FunctionCall::resizeOutput>;

Status evaluate(const Callable &callable, FunctionCall &functionCall, uint64_t step) {
  const Signature &signature = functionCall.signature();
  const Arrays observation =
      arraysOf(signature.inputs, [&](size_t i) { return newCopy(functionCall.input(i)); });
  RequestContext who;
  who.episode = functionCall.context().episode;
  who.context = functionCall.context().context;
  who.agent = functionCall.context().agent;
  who.step = step;
  nb::object context = newContext(who);
  nb::object result = call(callable.get(), observation.ptr(), context.ptr());
  if (!result.is_valid())
    return takePythonError("the policy");
  CallOutputs outputs(functionCall);
  return storeOutputs(result.ptr(), signature, outputs);
}

FunctionModel functionModel(nb::object policy, std::optional<Signature> signature,
                            Metadata metadata) {
  if (!PyCallable_Check(policy.ptr()))
    throw nb::type_error("a policy is called with (observation, context); this is not callable");
  FunctionModel model;
  model.signature = std::move(signature);
  model.metadata = std::move(metadata);
  model.newFunction = [callable = std::make_shared<Callable>(std::move(policy))] {
    return [callable, step = uint64_t(0)](FunctionCall &functionCall) mutable -> Status {
      if (!Py_IsInitialized())
        return {Code::Cancelled, "the Python interpreter has ended"};
      nb::gil_scoped_acquire acquire;
      try {
        return evaluate(*callable, functionCall, step++);
      } catch (nb::python_error &error) {
        error.restore();
        return takePythonError("the policy");
      }
    };
  };
  return model;
}

} // namespace

void bindFunction(nb::module_ &m) {
  m.def(
      "_from_function",
      [](nb::object policy, std::optional<Signature> signature, Metadata metadata) {
        auto self = std::make_shared<PyModel>();
        self->model = fromFunction(
            functionModel(std::move(policy), std::move(signature), std::move(metadata)));
        check(self->model.status());
        return self;
      },
      nb::arg("policy"), nb::arg("signature").none(), nb::arg("metadata"));
  m.def(
      "_register_function",
      [](std::string name, nb::object policy, std::optional<Signature> signature,
         Metadata metadata) {
        // Never freed: the registry lives for as long as the process.
        auto *model = new FunctionModel(
            functionModel(std::move(policy), std::move(signature), std::move(metadata)));
        check(registerFunction(std::move(name), [model](const Uri &) { return *model; }));
      },
      nb::arg("name"), nb::arg("policy"), nb::arg("signature").none(), nb::arg("metadata"));
}

} // namespace mlbridge::python
