// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The common part of the extension: owned references, errors as Python exceptions, and the
// guard that refuses the use of a connection after fork().
#ifndef MLBRIDGE_PYTHON_COMMON_H
#define MLBRIDGE_PYTHON_COMMON_H

#include <mlbridge/agent.h>
#include <mlbridge/deadline.h>
#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <new>
#include <string>
#include <utility>

namespace mlbridge::python {

namespace nb = nanobind;

inline bool isAny(PyObject *) { return true; }

/// Throws the mlbridge.Error subclass of the code. Requires the GIL.
[[noreturn]] void raise(const Status &status);
inline void check(const Status &status) {
  if (!status)
    raise(status);
}

/// Takes the pending Python exception. Logs its traceback to the logger "mlbridge" and gives
/// PolicyFailed with "<what> raised ValueError: text". Requires the GIL.
Status takePythonError(const char *what);

/// UTF-8, with surrogates standing for bytes that are none, so that every string survives. False
/// with a Python error if `object` is not a str.
bool fromPython(PyObject *object, std::string &text);
/// str(object) for a message; surrogates that stand for nothing become \ud800. Never fails.
std::string shown(nb::handle object);

/// The name of an object's type. Of the stable interface, which knows no tp_name.
std::string typeName(nb::handle object);

/// mlbridge.Status.
class PyStatus : public nb::object {
  NB_OBJECT_DEFAULT(PyStatus, nb::object, "mlbridge.errors.Status", isAny)
};
PyStatus statusObject(const Status &status);

/// An argument that is read when it is used: an error of reading it says what was expected.
class Time : public nb::object {
  NB_OBJECT_DEFAULT(Time, nb::object, "float | str | datetime.timedelta", isAny)
};
class Index : public nb::object {
  NB_OBJECT_DEFAULT(Index, nb::object, "typing.SupportsIndex", isAny)
};
class Lengths : public nb::object {
  NB_OBJECT_DEFAULT(Lengths, nb::object,
                    "typing.SupportsIndex | collections.abc.Sequence[typing.SupportsIndex | None]",
                    isAny)
};
/// Seconds, a datetime.timedelta, or text as in a URI ("250ms"). Throws InvalidArgument.
Duration durationOf(nb::handle duration);
/// An int, or anything that is one (NumPy's), from `least` to `most`. Throws TypeError, or
/// InvalidArgument for a number that is out of range; `what` begins the message.
int64_t integerOf(nb::handle value, const std::string &what, int64_t least, int64_t most);
/// An integer is the only length; None and -1 stand for one that changes from call to call, and
/// `none` is put there. `what` begins messages: "tensor 'x': dimension".
Shape shapeOf(nb::handle lengths, int64_t none, const std::string &what);
/// Throws the TypeError "WHAT: expected EXPECTED, got TYPE".
[[noreturn]] void refuseType(const std::string &what, const char *expected, nb::handle value);

/// A counter that every fork() raises in the child.
unsigned forkGeneration();

/// Held by objects with threads or connections: a child process has neither, and must not speak on
/// its parent's sockets.
class ForkGuard {
public:
  bool isForeign() const { return generation_ != forkGeneration(); }
  void check(const char *what) const;

private:
  unsigned generation_ = forkGeneration();
};

/// Lets other threads of Python run. When the interpreter has ended meanwhile, a thread other than
/// the main one stays here for good, as it does from Python 3.14 on: older ones would unwind
/// through functions that must not throw, and abort.
class WithoutGil {
public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil &) = delete;

private:
  PyThreadState *state_;
};
/// Calls `body` while other threads of Python run.
template <typename F> auto withoutGil(F &&body) {
  const WithoutGil released;
  return body();
}

/// Ends it: without the GIL, since that may write to a peer. What belongs to the parent
/// of this process is neither ended nor freed.
template <typename T> void end(T gone, const ForkGuard &fork) {
  if (fork.isForeign()) {
    (void)new (std::nothrow) T(std::move(gone));
    return;
  }
  const WithoutGil released;
  const T ended = std::move(gone);
}

/// Marks an object as used by one thread for the time of a call that releases the GIL.
class Exclusive {
public:
  Exclusive(std::atomic<bool> &busy, const char *what);
  ~Exclusive() { end(); }
  void end() { busy_.store(false, std::memory_order_release); }
  Exclusive(const Exclusive &) = delete;

private:
  std::atomic<bool> &busy_;
};

/// `with` closes it at the end.
template <typename... Extra> void defineWith(nb::class_<Extra...> &type) {
  type.def(
          "__enter__", [](const nb::object &self) { return self; },
          nb::sig("def __enter__(self) -> typing_extensions.Self"))
      .def(
          "__exit__", [](const nb::object &self, const nb::args &) { self.attr("close")(); },
          nb::sig("def __exit__(self, *error: object) -> None"));
}

/// The signatures of several agents by name.
nb::typed<nb::dict, nb::str, Signature> signaturesOf(Span<const AgentSpec> agents);

void bindErrors(nb::module_ &m);
void bindModel(nb::module_ &m);
void bindServer(nb::module_ &m);
void bindDriver(nb::module_ &m);

} // namespace mlbridge::python

/// Instead of nanobind's own, which refuses bytes that are not UTF-8.
template <> struct nanobind::detail::type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, uint32_t, cleanup_list *) noexcept {
    if (mlbridge::python::fromPython(source.ptr(), value))
      return true;
    PyErr_Clear();
    return false;
  }
  static handle from_cpp(const std::string &text, rv_policy, cleanup_list *) noexcept {
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()),
                                "surrogateescape");
  }
};

#endif
