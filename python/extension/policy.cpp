// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cache of views that a stream lends to the policy, and the way back of its answers.
#include "policy.h"

namespace mlbridge::python {

nb::object newContext(const CallContext &from, uint64_t connection, uint32_t stream,
                      uint64_t step) {
  return nb::cast(Context{from.episode, from.unit, from.agent, connection, step, stream});
}
nb::object newContext(const Event &event) {
  return newContext(event.context(), event.connection(), event.stream(), event.step());
}

void StreamViews::forget() {
  inputs_.clear();
  proxy_.reset();
  dict_.reset();
  base_.reset();
  holder_ = nullptr;
}

nb::object StreamViews::viewOf(Input &input, const TensorView &tensor) const {
  uint64_t hash = 0;
  for (const int64_t length : tensor.shape)
    hash = (hash + static_cast<uint64_t>(length)) * 0x9E3779B97F4A7C15;
  input.views.resize(size_t(1) << ViewBits);
  View &view = input.views[hash >> (64 - ViewBits)];
  const bool isSame = view.array.is_valid() && view.data == tensor.data &&
                      view.shape.size() == tensor.shape.size() &&
                      std::equal(view.shape.begin(), view.shape.end(), tensor.shape.begin());
  if (!isSame) {
    view.array = newView(tensor, base_.ptr(), false);
    view.data = tensor.data;
    view.shape.assign(tensor.shape.begin(), tensor.shape.end());
  }
  return view.array;
}

void StreamViews::show(const Event &event) {
  const Signature &signature = event.signature();
  const bool isSame = proxy_.is_valid() && event.storage() == storage_;
  if (!isSame && proxy_.is_valid() && signature != signature_)
    forget();
  if (!proxy_.is_valid()) {
    signature_ = signature;
    fixed_ = true;
    for (const TensorSpec &spec : signature.inputs)
      fixed_ = fixed_ && !spec.isDynamic() && spec.type != ElementType::String;
    holder_ = new Holder;
    base_ =
        nb::capsule(holder_, [](void *holder) noexcept { delete static_cast<Holder *>(holder); });
    dict_ = nb::steal<nb::object>(PyDict_New());
    proxy_ = nb::steal<nb::object>(PyDictProxy_New(dict_.ptr()));
    if (!proxy_.is_valid())
      throw nb::python_error();
    inputs_.resize(signature.inputs.size());
    for (size_t i = 0; i < inputs_.size(); ++i)
      inputs_[i].name = nb::cast(signature.inputs[i].name);
  }
  if (!isSame || !fixed_) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Input &input = inputs_[i];
      const TensorSpec &spec = signature_.inputs[i];
      const TensorView tensor = event.input(i);
      const bool isViewed = spec.type != ElementType::String;
      if (input.shown.is_valid() && tensor.data == input.data && !spec.isDynamic() && isViewed)
        continue;
      nb::object array = spec.isDynamic() && isViewed ? viewOf(input, tensor)
                                                      : newView(tensor, base_.ptr(), false);
      if (PyDict_SetItem(dict_.ptr(), input.name.ptr(), array.ptr()) < 0)
        throw nb::python_error();
      input.shown = std::move(array);
      input.data = tensor.data;
    }
    storage_ = event.storage();
  }

  if (!context_.is_valid()) {
    context_ = newContext(event);
    return;
  }
  const CallContext &who = event.context();
  Context &context = *nb::inst_ptr<Context>(context_);
  context.step = event.step();
  context.episode = who.episode;
  context.unit = who.unit;
  context.agent = who.agent;
}

bool StreamViews::isKept() const {
  if (Py_REFCNT(proxy_.ptr()) > 1 || Py_REFCNT(dict_.ptr()) > 2)
    return true;
  for (const Input &input : inputs_)
    if (Py_REFCNT(input.shown.ptr()) > (input.views.empty() ? 2 : 3))
      return true;
  return false;
}

void StreamViews::settle(const Event &event) {
  if (context_.is_valid() && Py_REFCNT(context_.ptr()) > 1)
    context_.reset();
  if (!proxy_.is_valid())
    return;
  if (isKept()) {
    holder_->storage = event.holdInputs();
    forget();
    return;
  }
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (!isViewOf(inputs_[i].shown.ptr(), event.input(i)))
      return forget();
}

nb::object call(PyObject *policy, PyObject *observation, PyObject *context) {
  PyObject *arguments[] = {nullptr, observation, context};
  return nb::steal<nb::object>(
      PyObject_Vectorcall(policy, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

bool isInterrupt() {
  return !PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_GeneratorExit);
}

namespace {

Status failed(const Status &status) {
  return status ? status : Status(Code::PolicyFailed, "the policy's answer: " + status.message());
}

/// The first keys of what a policy answered.
std::string keys(nb::handle answer) {
  constexpr size_t most = 8;
  std::string text;
  size_t count = 0;
  for (const auto &[key, value] : nb::borrow<nb::dict>(answer)) {
    if (++count > most)
      return text + ", …";
    text += (count == 1 ? "" : ", ") + shown(nb::repr(key));
  }
  return count ? "a mapping of " + text : "an empty mapping";
}

std::string names(const Signature &signature) {
  std::string text;
  for (const TensorSpec &spec : signature.outputs)
    text += (text.empty() ? "'" : ", '") + spec.name + "'";
  return text.empty() ? "none" : text;
}

bool isMapping(PyObject *answer) {
  return PyDict_Check(answer) ||
         (!isTensorLike(answer) && PyObject_HasAttrString(answer, "keys") == 1);
}

Expected<std::vector<PyObject *>> inMapping(PyObject *answer, const Signature &signature,
                                            nb::object &plain) {
  plain = nb::borrow<nb::object>(answer);
  if (!PyDict_Check(answer))
    plain = nb::handle(reinterpret_cast<PyObject *>(&PyDict_Type))(plain);
  std::vector<PyObject *> values;
  for (const TensorSpec &spec : signature.outputs) {
    const nb::object key = nb::cast(spec.name);
    values.push_back(PyDict_GetItemWithError(plain.ptr(), key.ptr()));
    if (!values.back())
      return failed({Code::PolicyFailed, "output '" + spec.name + "' missing: got " + keys(plain) +
                                             "; the outputs are " + names(signature)});
  }
  if (static_cast<size_t>(PyDict_Size(plain.ptr())) == values.size())
    return values;
  for (auto [key, value] : nb::borrow<nb::dict>(plain)) {
    std::string name;
    const bool isText = fromPython(key.ptr(), name);
    if (!isText)
      PyErr_Clear();
    if (!isText || signature.findOutput(name) < 0)
      return failed({Code::PolicyFailed, "unknown output " + shown(nb::repr(key)) +
                                             "; the outputs are " + names(signature)});
  }
  return values;
}

} // namespace

Status storeOne(PyObject *value, const TensorSpec &spec, Target &outputs, size_t index) {
  return failed(store(value, spec, "output", outputs, index));
}

Expected<std::vector<PyObject *>> valuesOf(PyObject *answer, const Signature &signature,
                                           nb::object &owner) {
  try {
    if (isMapping(answer))
      return inMapping(answer, signature, owner);
  } catch (nb::python_error &error) {
    error.restore();
    return takePythonError("converting the policy's answer");
  }
  if (signature.outputs.size() == 1)
    return std::vector<PyObject *>{answer};
  if (signature.outputs.empty() && answer == Py_None)
    return std::vector<PyObject *>();
  return failed({Code::PolicyFailed, "expected a mapping with the outputs " + names(signature) +
                                         ", got " + typeName(answer)});
}

Status storeOutputs(PyObject *answer, const Signature &signature, Target &outputs) {
  if (signature.outputs.size() == 1 && storeOneNumber(answer, signature.outputs[0], outputs))
    return Status(); // as most policies answer
  nb::object owner;
  Expected<std::vector<PyObject *>> values = valuesOf(answer, signature, owner);
  if (!values)
    return values.status();
  for (size_t i = 0; i < values->size(); ++i)
    if (Status stored = storeOne((*values)[i], signature.outputs[i], outputs, i); !stored)
      return stored;
  return Status();
}

} // namespace mlbridge::python
