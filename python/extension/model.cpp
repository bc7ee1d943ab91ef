// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's side from Python: Model and Runner, for any URI; and a Python callable as a model
// in this process.
#include "policy.h"

#include <mlbridge/function.h>
#include <mlbridge/model.h>

#include <optional>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

namespace mlbridge::python {

namespace {

OpenOptions openOptions(const std::optional<Time> &deadline, std::string agent, std::string episode,
                        std::string unit) {
  OpenOptions options;
  if (deadline)
    options.deadline = durationOf(*deadline);
  options.context = {std::move(agent), std::move(episode), std::move(unit)};
  return options;
}

struct PyModel {
  ~PyModel() { close(); }

  /// Runners that were made keep what they need of it.
  void close() {
    if (isClosed)
      return;
    isClosed = true;
    uri = model.uri();
    end(std::exchange(model, Model()), fork);
  }
  /// Throws Closed after close().
  const Model &open() const {
    fork.check("the model");
    if (isClosed)
      raise({Code::Closed, "the model is closed"});
    return model;
  }

  Model model;
  std::string uri; ///< once closed
  bool isClosed = false;
  ForkGuard fork;
};

/// A Runner that is ended without the GIL, and in no child of fork().
struct HeldRunner {
  explicit HeldRunner(Runner held) : runner(std::move(held)) {}
  HeldRunner(const HeldRunner &) = delete;
  ~HeldRunner() { end(std::move(runner), fork); }
  Runner runner;
  ForkGuard fork;
};

struct PyRunner {
  PyRunner(Runner runner, std::shared_ptr<PyModel> owner) : model(std::move(owner)) {
    use(std::move(runner));
  }

  void close() {
    if (!held)
      return;
    const Exclusive exclusive(busy, "the runner");
    staged.clear();
    held.reset();
    model.reset();
  }
  void use(Runner runner) {
    const Signature *bound = runner.signature();
    staged.resize(bound ? bound->inputs.size() : 0);
    held = std::make_shared<HeldRunner>(std::move(runner));
  }

  /// Arrays of its inputs are views of its memory, which they keep. Null after close().
  std::shared_ptr<HeldRunner> held;
  std::shared_ptr<PyModel> model;
  /// The array that the user writes for each input of dynamic shape or strings, once asked for: the
  /// buffer itself moves when it grows, and must not be seen by an array that is kept.
  std::vector<nb::object> staged;
  /// The type of the answer, where the signature is that of the first evaluation.
  std::optional<ElementType> inferred;
  std::atomic<bool> busy{false};
  ForkGuard fork;
};

/// Throws Closed after close().
Runner &runnerOf(PyRunner &self) {
  self.fork.check("the runner");
  if (!self.held)
    raise({Code::Closed, "the runner is closed"});
  return self.held->runner;
}

const Signature &signatureOf(PyRunner &self) {
  const Signature *signature = runnerOf(self).signature();
  if (!signature)
    raise({Code::InvalidArgument,
           "the runner has no signature yet: the inputs of the first evaluation define it"});
  return *signature;
}

/// A feature's name, in the str itself if it can be.
std::string_view nameOf(nb::handle key, std::string &storage) {
  Py_ssize_t size = 0;
  if (const char *utf8 = PyUnicode_AsUTF8AndSize(key.ptr(), &size))
    return {utf8, static_cast<size_t>(size)};
  PyErr_Clear();
  if (fromPython(key.ptr(), storage))
    return storage;
  PyErr_Clear();
  raise({Code::InvalidArgument,
         "no input can be called " + shown(nb::repr(key)) + ", which is not text in Unicode"});
}

size_t inputIndex(PyRunner &self, std::string_view name) {
  const Signature &signature = signatureOf(self);
  const int index = signature.findInput(name);
  if (index < 0)
    raise({Code::InvalidArgument,
           "no input '" + std::string(name) + "' in the signature " + signature.toString()});
  return static_cast<size_t>(index);
}

Status storeInput(PyRunner &self, size_t index, nb::handle value) {
  TensorsOf<Runner, &Runner::inputAt, &Runner::resizeAt> inputs(self.held->runner);
  return store(value.ptr(), self.held->runner.signature()->inputs[index], "input", inputs, index);
}

/// Requires that the runner is not evaluating.
void setInput(PyRunner &self, std::string_view name, nb::handle value) {
  const size_t index = inputIndex(self, name);
  check(storeInput(self, index, value));
  self.staged[index].reset();
}

nb::capsule keeping(const std::shared_ptr<HeldRunner> &held) {
  auto kept = std::make_unique<std::shared_ptr<HeldRunner>>(held);
  nb::capsule capsule(kept.get(), [](void *last) noexcept {
    delete static_cast<std::shared_ptr<HeldRunner> *>(last);
  });
  (void)kept.release();
  return capsule;
}

Array inputArray(PyRunner &self, std::string_view name) {
  Exclusive exclusive(self.busy, "the runner");
  const size_t index = inputIndex(self, name);
  const TensorSpec &spec = self.held->runner.signature()->inputs[index];
  const TensorView tensor = self.held->runner.inputAt(index);
  if (!spec.isDynamic() && spec.type != ElementType::String)
    return newView(tensor, keeping(self.held).ptr(), true);
  if (!self.staged[index]) {
    if (tensor.shape.size() != spec.shape.size())
      raise({Code::InvalidArgument, "input '" + spec.name + "' has no shape yet (" +
                                        spec.toString() + "): set it, or call resize first"});
    self.staged[index] = newCopy(tensor);
  }
  return nb::borrow<Array>(self.staged[index]);
}

Array resizeInput(PyRunner &self, std::string_view name, const Lengths &lengths) {
  Exclusive exclusive(self.busy, "the runner");
  const size_t index = inputIndex(self, name);
  const TensorSpec &spec = self.held->runner.signature()->inputs[index];
  const Shape shape = shapeOf(lengths, Dynamic, "input '" + spec.name + "': dimension");
  check(checkShape(spec, shape));
  Expected<TensorView> view = self.held->runner.resizeAt(index, shape);
  check(view.status());
  Array array = newCopy(*view);
  self.staged[index] = array;
  return array;
}

Runner newRunner(PyModel &model, const CallContext &context) {
  const Model from = model.open(); // another thread may close it
  Runner runner = withoutGil([&] { return from.newRunner(context); });
  check(runner.status());
  return runner;
}

/// Binds the model to the types and shapes of these features.
void infer(PyRunner &self, const nb::dict &features) {
  Signature signature;
  std::string storage;
  for (auto [key, value] : features)
    signature.inputs.push_back(specOf(std::string(nameOf(key, storage)), value));
  signature.outputs.push_back({"output", *self.inferred, {}, {}});
  check(signature.check());
  self.model->open();
  check(self.model->model.bind(signature));
  self.use(newRunner(*self.model, {}));
  self.inferred.reset();
}

/// Says something about an episode, which may have to wait for the server.
template <typename F> void tell(PyRunner &self, F &&f) {
  Exclusive exclusive(self.busy, "the runner");
  signatureOf(self);
  check(withoutGil([&] { return f(self.held->runner); }));
}

void ask(PyRunner &self, const nb::args &mapping, const nb::kwargs &named) {
  if (mapping.size() > 1)
    refuseType("evaluate", "one mapping of inputs by name, or keywords", mapping);
  nb::dict features = nb::borrow<nb::dict>(named);
  if (mapping.size() == 1 && !mapping[0].is_none()) {
    if (!nb::hasattr(mapping[0], "keys"))
      refuseType("evaluate", "a mapping of inputs by name, or keywords", mapping[0]);
    features = nb::dict();
    features.update(nb::handle(reinterpret_cast<PyObject *>(&PyDict_Type))(mapping[0]));
    features.update(named);
  }
  Exclusive exclusive(self.busy, "the runner");
  runnerOf(self);
  if (self.inferred)
    infer(self, features);
  signatureOf(self);
  std::string storage;
  for (auto [key, value] : features)
    setInput(self, nameOf(key, storage), value);
  for (size_t i = 0; i < self.staged.size(); ++i)
    if (self.staged[i])
      check(storeInput(self, i, self.staged[i]));
  const Status status = withoutGil([&] { return self.held->runner.evaluate(); });
  if (PyErr_CheckSignals() < 0)
    throw nb::python_error();
  check(status);
}

Arrays outputs(PyRunner &self) {
  return arraysOf(signatureOf(self).outputs,
                  [&](size_t i) { return newCopy(self.held->runner.outputAt(i)); });
}

nb::object onlyOutput(PyRunner &self) {
  const Signature &signature = signatureOf(self);
  if (signature.outputs.size() != 1)
    raise({Code::InvalidArgument, "the model has " + std::to_string(signature.outputs.size()) +
                                      " outputs; use evaluate: " + signature.toString()});
  const Array array = newCopy(self.held->runner.outputAt(0));
  return self.held->runner.outputAt(0).count == 1 ? array.attr("item")() : nb::object(array);
}

struct Inputs {
  nb::object runner;
  PyRunner &get() const { return nb::cast<PyRunner &>(runner); }
};

nb::typed<nb::list, nb::str> inputNames(const Inputs &self) {
  nb::typed<nb::list, nb::str> names;
  for (const TensorSpec &spec : signatureOf(self.get()).inputs)
    names.append(spec.name);
  return names;
}

/// The interpreter knows better than the engine where its packages are.
std::string withRuntime(const std::string &text) {
  Expected<Uri> uri = Uri::parse(text);
  if (!uri || uri->scheme != "onnx" || uri->options.count("runtime"))
    return text;
  nb::object folder = nb::module_::import_("mlbridge.files").attr("onnx_runtime")();
  if (folder.is_none())
    return text;
  uri->options["runtime"] = nb::cast<std::string>(folder);
  return uri->toString();
}

std::shared_ptr<PyModel> openModel(const nb::object &uri, const std::optional<Time> &deadline,
                                   std::string agent, std::string episode, std::string unit) {
  std::string text;
  if (!fromPython(uri.ptr(), text)) {
    PyErr_Clear();
    refuseType("the URI of a model", "text such as \"onnx:FILE\"", uri);
  }
  const OpenOptions options =
      openOptions(deadline, std::move(agent), std::move(episode), std::move(unit));
  auto self = std::make_shared<PyModel>();
  const std::string address = withRuntime(text);
  self->model = withoutGil([&] { return Model::open(address, options); });
  if (PyErr_CheckSignals() < 0)
    throw nb::python_error();
  check(self->model.status());
  return self;
}

std::shared_ptr<PyModel> modelFromBytes(const std::string &uri, const nb::bytes &data) {
  auto self = std::make_shared<PyModel>();
  const std::string address = withRuntime(uri);
  const std::string_view bytes(data.c_str(), data.size()); // the caller keeps them meanwhile
  self->model = withoutGil([&] { return Model::fromMemory(address, bytes.data(), bytes.size()); });
  check(self->model.status());
  return self;
}

std::optional<Signature> copyOf(const Signature *signature) {
  return signature ? std::optional<Signature>(*signature) : std::nullopt;
}

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
  nb::object context = newContext(functionCall.context(), 0, 0, step);
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

void bindModel(nb::module_ &m) {
  nb::class_<PyModel> model(
      m, "Model",
      "What a URI opens: a loaded network, a function, or a connection to a server. "
      "Shared by threads; each thread makes its own Runner.");
  model
      .def_static(
          "open", &openModel, nb::arg("uri"), nb::kw_only(),
          nb::arg("deadline").none() = nb::none(), nb::arg("agent") = "", nb::arg("episode") = "",
          nb::arg("unit") = "",
          nb::sig("def open(uri: str, *, deadline: float | str | datetime.timedelta | None = "
                  "None, agent: str = '', episode: str = '', unit: str = '') -> Model"),
          "Opens the model, or raises why it cannot be opened. `deadline` (seconds or text like "
          "\"250ms\") is the longest that opening and each evaluation may wait.")
      .def_static(
          "from_bytes", &modelFromBytes, nb::arg("uri"), nb::arg("data"),
          "A model whose file is in memory: an ONNX file for \"native:\" and \"onnx:\". The "
          "rest of the URI is a name for messages, and options.")
      .def_prop_ro(
          "uri", [](const PyModel &self) { return self.isClosed ? self.uri : self.model.uri(); },
          "What it was opened from.")
      .def_prop_ro(
          "metadata", [](const PyModel &self) { return self.open().metadata(); },
          "What the model says of itself: action names, versions.")
      .def(
          "statistics",
          [](const PyModel &self) {
            const Model model = self.open();
            Expected<Metadata> found = withoutGil([&] { return model.statistics(); });
            check(found.status());
            return *found;
          },
          "What its server has done so far, for all compilers: names and numbers as "
          "docs/protocol.md has them. Raises Unsupported for a model in this process.")
      .def_prop_ro(
          "model_signature",
          [](const PyModel &self) { return copyOf(self.open().modelSignature()); },
          "The model's own signature; None for a model that takes any.")
      .def_prop_ro(
          "signature", [](const PyModel &self) { return copyOf(self.open().signature()); },
          "The signature given to bind(); None before.")
      .def(
          "bind",
          [](PyModel &self, const nb::object &signature) {
            if (!nb::isinstance<Signature>(signature))
              refuseType("bind", "a Signature", signature);
            self.open();
            check(self.model.bind(nb::cast<const Signature &>(signature)));
          },
          nb::arg("signature").none(), nb::sig("def bind(self, signature: Signature) -> None"),
          "Binds the model to the caller's signature; raises Mismatch, which names both sides.")
      .def(
          "bound_to",
          [](const PyModel &self, const Signature &signature, const std::string &agent) {
            auto bound = std::make_shared<PyModel>();
            bound->model = self.open().boundTo(signature, agent);
            check(bound->model.status());
            return bound;
          },
          nb::arg("signature"), nb::arg("agent") = "",
          "The same model, opened once, bound to another signature; `agent` is which of a server's "
          "agents it is, unless it is empty.")
      .def(
          "new_runner",
          [](const std::shared_ptr<PyModel> &self, std::string agent, std::string episode,
             std::string unit) {
            return std::make_unique<PyRunner>(
                newRunner(*self, {std::move(agent), std::move(episode), std::move(unit)}), self);
          },
          nb::kw_only(), nb::arg("agent") = "", nb::arg("episode") = "", nb::arg("unit") = "",
          "One thread's way to evaluate the model, which must have been bound.")
      .def_prop_ro(
          "closed", [](const PyModel &self) { return self.isClosed; },
          "Whether close() was called.")
      .def("close", &PyModel::close,
           "Releases the model; its runners keep working until they are closed. May be called "
           "twice.")
      .def("__repr__", [](const PyModel &self) {
        return "<mlbridge.Model " + (self.isClosed ? self.uri + " (closed)" : self.model.uri()) +
               ">";
      });
  defineWith(model);

  nb::class_<Inputs>(
      m, "Inputs",
      "The inputs of a Runner by name. Reading gives a writable array, over the buffer "
      "itself if it has a fixed shape; assigning copies the value into it.")
      .def("__getitem__",
           [](const Inputs &self, std::string_view name) { return inputArray(self.get(), name); })
      .def("__setitem__",
           [](const Inputs &self, std::string_view name, const nb::object &value) {
             Exclusive exclusive(self.get().busy, "the runner");
             setInput(self.get(), name, value);
           })
      .def(
          "__contains__",
          [](const Inputs &self, nb::handle name) {
            std::string storage;
            return PyUnicode_Check(name.ptr()) &&
                   signatureOf(self.get()).findInput(nameOf(name, storage)) >= 0;
          },
          nb::sig("def __contains__(self, name: object, /) -> bool"))
      .def("__len__", [](const Inputs &self) { return signatureOf(self.get()).inputs.size(); })
      .def(
          "__iter__", [](const Inputs &self) { return nb::iter(inputNames(self)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("keys", &inputNames, "The names of the inputs.");

  nb::class_<PyRunner> runner(
      m, "Runner",
      "One thread's way to evaluate a Model: its buffers. Inputs keep their values between "
      "evaluations.");
  runner
      .def_prop_ro(
          "inputs", [](nb::handle_t<PyRunner> self) { return Inputs{nb::borrow(self)}; },
          "The inputs by name, to be written before an evaluation.")
      .def_prop_ro(
          "signature", [](PyRunner &self) { return signatureOf(self); },
          "What the model was bound to.")
      .def_prop_ro(
          "model",
          [](PyRunner &self) {
            if (!self.held)
              raise({Code::Closed, "the runner is closed"});
            return self.model;
          },
          "The model that it evaluates.")
      .def_prop_ro(
          "status", [](PyRunner &self) { return statusObject(runnerOf(self).status()); },
          "Ok, or why the last evaluation failed.")
      .def("resize", &resizeInput, nb::arg("name"), nb::arg("shape"),
           "Sets the lengths of an input's dynamic dimensions and gives an array to be written, "
           "whose contents are unspecified. Arrays of this input given before are no longer read.")
      .def(
          "evaluate",
          [](PyRunner &self, const nb::args &mapping, const nb::kwargs &features) {
            ask(self, mapping, features);
            return outputs(self);
          },
          nb::sig("def evaluate(self, mapping: collections.abc.Mapping[str, typing.Any] | None = "
                  "None, /, "
                  "**features: typing.Any) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
          "Sets the inputs given by name, in a mapping or as keywords, asks the model and gives "
          "all outputs as arrays.")
      .def(
          "evaluate_scalar",
          [](PyRunner &self, const nb::args &mapping, const nb::kwargs &features) {
            ask(self, mapping, features);
            return onlyOutput(self);
          },
          nb::sig("def evaluate_scalar(self, mapping: collections.abc.Mapping[str, typing.Any] | "
                  "None = None, /, **features: typing.Any) -> typing.Any"),
          "The same for a model with one output: a Python scalar if it has one element, otherwise "
          "an array.")
      .def(
          "begin_episode",
          [](PyRunner &self, const std::string &episode, const std::string &unit) {
            tell(self, [&](Runner &r) { return r.beginEpisode(episode, unit); });
          },
          nb::arg("episode"), nb::arg("unit") = "",
          "Tells the model that an episode begins: its id, and its unit (a module).")
      .def(
          "reward",
          [](PyRunner &self, double value) {
            tell(self, [&](Runner &r) { return r.reward(value); });
          },
          nb::arg("value"), "Tells the model the reward of the last evaluation's action.")
      .def(
          "end_episode",
          [](PyRunner &self, const std::string &failure) {
            const Status outcome = failure.empty() ? Status() : Status(Code::PolicyFailed, failure);
            tell(self, [&](Runner &r) { return r.endEpisode(outcome); });
          },
          nb::arg("failure") = "",
          "Tells the model that the episode has ended; `failure` says why if it failed.")
      .def_prop_ro(
          "dropped_events", [](PyRunner &self) { return runnerOf(self).droppedEvents(); },
          "How many of these events were dropped: while the server does not read, only the newest "
          "256 "
          "are kept, and none when the connection has ended.")
      .def_prop_ro(
          "closed", [](const PyRunner &self) { return !self.held; }, "Whether close() was called.")
      .def("close", &PyRunner::close,
           "Closes the runner, and its connection if nobody else uses it. Arrays of its inputs "
           "stay valid. May be called twice.")
      .def("__repr__", [](const PyRunner &self) {
        return self.held ? "<mlbridge.Runner of " + self.model->model.uri() + ">"
                         : std::string("<mlbridge.Runner (closed)>");
      });
  defineWith(runner);

  m.def("_inferring_runner", [](const std::shared_ptr<PyModel> &model, const DType &output) {
    auto runner = std::make_unique<PyRunner>(Runner(), model);
    runner->inferred = elementType(output);
    return runner;
  });
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
        check(registerFunction(std::move(name), [model](const Uri &uri) {
          const Status allowed = uri.allowOnly({});
          return allowed ? Expected<FunctionModel>(*model) : allowed;
        }));
      },
      nb::arg("name"), nb::arg("policy"), nb::arg("signature").none(), nb::arg("metadata"));
}

} // namespace mlbridge::python
