// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's side from Python: Model and Runner, for any URI.
#include "model.h"

#include "arrays.h"

namespace mlbridge::python {

OpenOptions openOptions(nb::handle deadline, std::string agent, std::string episode,
                        std::string context) {
  OpenOptions options;
  if (!deadline.is_none())
    options.deadline = Duration(nanoseconds(deadline));
  options.agent = std::move(agent);
  options.episode = std::move(episode);
  options.context = std::move(context);
  return options;
}

PyModel::~PyModel() {
  if (fork.isForeign())
    abandon(std::move(model)); // the connection is the parent's: neither speak on it nor end it
}

PyRunner::PyRunner(Runner made, std::shared_ptr<PyModel> owner)
    : runner(std::move(made)), model(std::move(owner)) {
  prepare();
}

void PyRunner::prepare() {
  const Signature *bound = runner.signature();
  staged.resize(bound ? bound->inputs.size() : 0);
}

PyRunner::~PyRunner() {
  if (fork.isForeign()) {
    abandon(std::move(runner));
    return;
  }
  nb::gil_scoped_release release; // destroying a remote runner may write
  Runner gone = std::move(runner);
}

namespace {

nb::object statusObject(const Status &status) {
  return nb::module_::import_("mlbridge.errors")
      .attr("_status")(static_cast<int>(status.code()),
                       nb::steal<nb::object>(toPython(status.message())));
}

const Signature &signatureOf(PyRunner &self) {
  self.fork.check("the runner");
  const Signature *signature = self.runner.signature();
  if (!signature)
    raise({Code::InvalidArgument,
           "the runner has no signature yet: it takes that of the first evaluation"});
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

class RunnerTarget final : public Target {
public:
  RunnerTarget(Runner &runner, size_t index) : runner_(runner), index_(index) {}
  TensorView view() override { return runner_.inputAt(index_); }
  Expected<TensorView> resize(Span<const int64_t> shape) override {
    return runner_.resizeAt(index_, shape);
  }

private:
  Runner &runner_;
  size_t index_;
};

Status storeInput(PyRunner &self, size_t index, nb::handle value) {
  RunnerTarget target(self.runner, index);
  return store(value.ptr(), self.runner.signature()->inputs[index], "input", target);
}

/// Requires that the runner is not evaluating.
void setInput(PyRunner &self, std::string_view name, nb::handle value) {
  const size_t index = inputIndex(self, name);
  check(storeInput(self, index, value));
  self.staged[index].reset();
}

nb::object inputArray(nb::handle_t<PyRunner> handle, std::string_view name) {
  PyRunner &self = nb::cast<PyRunner &>(handle);
  Exclusive exclusive(self.busy, "the runner");
  const size_t index = inputIndex(self, name);
  const TensorSpec &spec = self.runner.signature()->inputs[index];
  const TensorView tensor = self.runner.inputAt(index);
  if (!spec.isDynamic() && spec.type != ElementType::String)
    return nb::steal<nb::object>(newView(tensor, handle.ptr(), true));
  if (!self.staged[index]) {
    if (tensor.shape.size() != spec.shape.size())
      raise({Code::InvalidArgument, "input '" + spec.name + "' has no shape yet (" +
                                        spec.toString() + "): set it, or call resize first"});
    self.staged[index] = nb::steal<nb::object>(newCopy(tensor));
  }
  return self.staged[index];
}

nb::object resizeInput(PyRunner &self, std::string_view name, std::vector<int64_t> shape) {
  Exclusive exclusive(self.busy, "the runner");
  const size_t index = inputIndex(self, name);
  const TensorSpec &spec = self.runner.signature()->inputs[index];
  check(checkShape(spec, shape));
  Expected<TensorView> view = self.runner.resizeAt(index, shape);
  check(view.status());
  return self.staged[index] = nb::steal<nb::object>(newCopy(*view));
}

Runner newRunner(PyModel &model, const OpenOptions &options) {
  model.fork.check("the model");
  Runner runner;
  {
    nb::gil_scoped_release release;
    runner = model.model.newRunner(options);
  }
  check(runner.status());
  return runner;
}

/// Binds the model to the types and shapes of these features.
void infer(PyRunner &self, nb::handle features) {
  Signature signature;
  std::string storage;
  for (auto [key, value] : nb::cast<nb::dict>(features))
    signature.inputs.push_back(specOf(std::string(nameOf(key, storage)), value));
  signature.outputs.push_back({"output", *self.inferred, {}, {}});
  check(signature.check());
  check(self.model->model.bind(signature));
  self.runner = newRunner(*self.model, {});
  self.inferred.reset();
  self.prepare();
}

/// Says something about an episode, which may have to wait for the server.
template <typename F> void tell(PyRunner &self, F &&f) {
  Exclusive exclusive(self.busy, "the runner");
  signatureOf(self);
  Status status;
  {
    nb::gil_scoped_release release;
    status = f(self.runner);
  }
  check(status);
}

void ask(PyRunner &self, nb::handle features) {
  Exclusive exclusive(self.busy, "the runner");
  self.fork.check("the runner");
  if (self.inferred)
    infer(self, features);
  signatureOf(self);
  std::string storage;
  for (auto [key, value] : nb::cast<nb::dict>(features))
    setInput(self, nameOf(key, storage), value);
  for (size_t i = 0; i < self.staged.size(); ++i)
    if (self.staged[i])
      check(storeInput(self, i, self.staged[i]));
  Status status;
  {
    nb::gil_scoped_release release;
    status = self.runner.evaluate();
  }
  if (PyErr_CheckSignals() < 0)
    throw nb::python_error();
  check(status);
}

nb::dict outputs(PyRunner &self) {
  nb::dict result;
  const Signature &signature = signatureOf(self);
  for (size_t i = 0; i < signature.outputs.size(); ++i)
    result[signature.outputs[i].name.c_str()] =
        nb::steal<nb::object>(newCopy(self.runner.outputAt(i)));
  return result;
}

nb::object onlyOutput(PyRunner &self) {
  const Signature &signature = signatureOf(self);
  if (signature.outputs.size() != 1)
    raise({Code::InvalidArgument, "the model has " + std::to_string(signature.outputs.size()) +
                                      " outputs; use evaluate: " + signature.toString()});
  nb::object array = nb::steal<nb::object>(newCopy(self.runner.outputAt(0)));
  return self.runner.outputAt(0).count == 1 ? array.attr("item")() : array;
}

struct Inputs {
  nb::object runner;
  PyRunner &get() const { return nb::cast<PyRunner &>(runner); }
};

nb::list inputNames(const Inputs &self) {
  nb::list names;
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
  if (!fromPython(folder.ptr(), uri->options["runtime"]))
    throw nb::python_error();
  return uri->toString();
}

std::shared_ptr<PyModel> openModel(const std::string &uri, nb::handle deadline, std::string agent,
                                   std::string episode, std::string context) {
  OpenOptions options =
      openOptions(deadline, std::move(agent), std::move(episode), std::move(context));
  auto self = std::make_shared<PyModel>();
  const std::string address = withRuntime(uri);
  {
    nb::gil_scoped_release release;
    self->model = Model::open(address, options);
  }
  if (PyErr_CheckSignals() < 0)
    throw nb::python_error();
  check(self->model.status());
  return self;
}

nb::object optionalSignature(const Signature *signature) {
  return signature ? nb::cast(*signature) : nb::none();
}

} // namespace

void bindModel(nb::module_ &m) {
  nb::class_<PyModel>(
      m, "Model",
      "What a URI opens: a loaded network, a function, or a connection to a server. "
      "Shared by threads; each thread makes its own Runner.")
      .def_static("open", &openModel, nb::arg("uri"), nb::kw_only(),
                  nb::arg("deadline").none() = nb::none(), nb::arg("agent") = "",
                  nb::arg("episode") = "", nb::arg("context") = "",
                  "Opens the model or raises the reason why not. `deadline` (seconds or text like "
                  "\"250ms\") is the longest that opening and each evaluation may wait.")
      .def_prop_ro(
          "uri", [](const PyModel &self) { return self.model.uri(); }, "What it was opened from.")
      .def_prop_ro(
          "metadata", [](const PyModel &self) { return self.model.metadata(); },
          "What the model says of itself: action names, versions.")
      .def(
          "statistics",
          [](const PyModel &self) {
            self.fork.check("the model");
            std::optional<Expected<Metadata>> found;
            {
              nb::gil_scoped_release release;
              found.emplace(self.model.statistics());
            }
            check(found->status());
            return **found;
          },
          "What its server has done so far, for all compilers: names and numbers as "
          "docs/protocol.md has them. Raises Unsupported for a model in this process.")
      .def_prop_ro(
          "model_signature",
          [](const PyModel &self) { return optionalSignature(self.model.modelSignature()); },
          "The model's own signature; None for a model that takes any.")
      .def_prop_ro(
          "signature",
          [](const PyModel &self) { return optionalSignature(self.model.signature()); },
          "The signature of bind(); None before it.")
      .def(
          "bind",
          [](PyModel &self, const Signature &signature) {
            self.fork.check("the model");
            check(self.model.bind(signature));
          },
          nb::arg("signature"),
          "Holds the model to the caller's signature; raises Mismatch, which names both sides.")
      .def(
          "new_runner",
          [](const std::shared_ptr<PyModel> &self, std::string agent, std::string episode,
             std::string context) {
            const OpenOptions overrides =
                openOptions(nb::none(), std::move(agent), std::move(episode), std::move(context));
            return std::make_unique<PyRunner>(newRunner(*self, overrides), self);
          },
          nb::kw_only(), nb::arg("agent") = "", nb::arg("episode") = "", nb::arg("context") = "",
          "One thread's way to evaluate the model, which must have been bound.")
      .def("__repr__",
           [](const PyModel &self) { return "<mlbridge.Model " + self.model.uri() + ">"; });

  nb::class_<Inputs>(
      m, "Inputs",
      "The inputs of a Runner by name. Reading gives a writable array, over the buffer "
      "itself if it has a fixed shape; assigning copies the value into it.")
      .def("__getitem__",
           [](const Inputs &self, std::string_view name) {
             return inputArray(nb::handle_t<PyRunner>(self.runner), name);
           })
      .def("__setitem__",
           [](const Inputs &self, std::string_view name, const nb::object &value) {
             Exclusive exclusive(self.get().busy, "the runner");
             setInput(self.get(), name, value);
           })
      .def("__contains__",
           [](const Inputs &self, std::string_view name) {
             return signatureOf(self.get()).findInput(name) >= 0;
           })
      .def("__len__", [](const Inputs &self) { return signatureOf(self.get()).inputs.size(); })
      .def("__iter__", [](const Inputs &self) { return nb::iter(inputNames(self)); })
      .def("keys", &inputNames, "The names of the inputs.");

  nb::class_<PyRunner>(m, "Runner",
                       "One thread's way to evaluate a Model: its buffers. Inputs keep their "
                       "values between evaluations.")
      .def_prop_ro(
          "inputs", [](nb::handle_t<PyRunner> self) { return Inputs{nb::borrow(self)}; },
          "The inputs by name, to be written before an evaluation.")
      .def_prop_ro(
          "signature", [](PyRunner &self) { return signatureOf(self); },
          "What the model was bound to.")
      .def_prop_ro(
          "model", [](PyRunner &self) { return self.model; }, "The model that it evaluates.")
      .def_prop_ro(
          "status", [](PyRunner &self) { return statusObject(self.runner.status()); },
          "Ok, or why the last evaluation failed.")
      .def("resize", &resizeInput, nb::arg("name"), nb::arg("shape"),
           "Sets the lengths of an input's dynamic dimensions and gives an array to be written, "
           "whose "
           "contents are unspecified. Arrays of this input given before are no longer read.")
      .def(
          "evaluate",
          [](PyRunner &self, const nb::kwargs &features) {
            ask(self, features);
            return outputs(self);
          },
          "Sets the inputs given by name, asks the model and gives all outputs as arrays.")
      .def(
          "evaluate_scalar",
          [](PyRunner &self, const nb::kwargs &features) {
            ask(self, features);
            return onlyOutput(self);
          },
          "The same for a model with one output: a Python scalar if it has one element, otherwise "
          "an array.")
      .def(
          "begin_episode",
          [](PyRunner &self, const std::string &episode, const std::string &context) {
            tell(self, [&](Runner &r) { return r.beginEpisode(episode, context); });
          },
          nb::arg("episode"), nb::arg("context") = "",
          "Tells the model that an episode begins: an id, and of what (a module).")
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
          nb::arg("failure") = "", "Without a text the episode ended well.")
      .def_prop_ro(
          "dropped_events", [](PyRunner &self) { return self.runner.droppedEvents(); },
          "How many of these the server will never hear of: while it reads nothing the newest 256 "
          "are kept, and none when the connection has ended.")
      .def("__repr__",
           [](PyRunner &self) { return "<mlbridge.Runner of " + self.model->model.uri() + ">"; });

  m.def("_inferring_runner", [](const std::shared_ptr<PyModel> &model, const nb::object &output) {
    auto runner = std::make_unique<PyRunner>(Runner(), model);
    runner->inferred = elementType(output);
    return runner;
  });
}

} // namespace mlbridge::python
