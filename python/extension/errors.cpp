// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statuses as Python exceptions and the other way round; text; durations; fork.
#include "common.h"

#include <mlbridge/uri.h>

#include <cmath>
#include <limits>
#include <pthread.h>
#include <thread>
#include <unistd.h>

namespace mlbridge::python {

void raise(const Status &status) {
  nb::object error = nb::module_::import_("mlbridge.errors")
                         .attr("_error")(static_cast<int>(status.code()), status.message());
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

Status takePythonError(const char *what) {
  const nb::python_error raised;
  const nb::handle error = raised.value();
  std::string message = std::string(what) + " raised ";
  try {
    nb::object text = nb::module_::import_("mlbridge.errors").attr("_describe")(what, error);
    message += shown(text);
  } catch (nb::python_error &broken) { // a broken __str__ or logging handler
    message += typeName(error);
    broken.discard_as_unraisable("mlbridge: describing an exception");
  }
  return {Code::PolicyFailed, message};
}

PyStatus statusObject(const Status &status) {
  return nb::borrow<PyStatus>(
      nb::module_::import_("mlbridge.errors")
          .attr("_status")(static_cast<int>(status.code()), status.message()));
}

bool fromPython(PyObject *object, std::string &text) {
  if (!PyUnicode_Check(object)) {
    PyErr_Format(PyExc_TypeError, "expected str, got %.100s", typeName(object).c_str());
    return false;
  }
  Py_ssize_t size = 0;
  if (const char *utf8 = PyUnicode_AsUTF8AndSize(object, &size)) {
    text.assign(utf8, static_cast<size_t>(size));
    return true;
  }
  PyErr_Clear();
  PyObject *bytes = PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape");
  if (!bytes)
    return false;
  text.assign(PyBytes_AsString(bytes), static_cast<size_t>(PyBytes_Size(bytes)));
  Py_DECREF(bytes);
  return true;
}

std::string typeName(nb::handle object) {
  return nb::cast<std::string>(nb::handle(Py_TYPE(object.ptr())).attr("__name__"));
}

std::string shown(nb::handle object) {
  std::string text;
  const nb::object str = nb::steal<nb::object>(PyObject_Str(object.ptr()));
  if (str && fromPython(str.ptr(), text))
    return text;
  PyErr_Clear();
  const nb::object bytes = nb::steal<nb::object>(
      str ? PyUnicode_AsEncodedString(str.ptr(), "utf-8", "backslashreplace") : nullptr);
  if (bytes)
    return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
  PyErr_Clear();
  return typeName(object);
}

void refuseType(const std::string &what, const char *expected, nb::handle value) {
  throw nb::type_error((what + ": expected " + expected + ", got " + typeName(value)).c_str());
}

Duration durationOf(nb::handle duration) {
  if (PyUnicode_Check(duration.ptr())) {
    Expected<Duration> parsed = parseDuration(shown(duration));
    check(parsed.status());
    return *parsed;
  }
  double seconds = 0;
  if (nb::hasattr(duration, "total_seconds"))
    seconds = nb::cast<double>(duration.attr("total_seconds")());
  else if (!nb::try_cast(duration, seconds))
    refuseType("a duration", "a number of seconds, a datetime.timedelta or text like \"250ms\"",
               duration);
  if (std::isnan(seconds) || seconds < 0)
    raise({Code::InvalidArgument, "a duration must not be negative"});
  return seconds >= 9e9 ? Duration::max() : Duration(static_cast<int64_t>(seconds * 1e9));
}

int64_t integerOf(nb::handle value, const std::string &what, int64_t least, int64_t most) {
  if (!PyIndex_Check(value.ptr()))
    throw nb::type_error(
        (what + " is " + shown(nb::repr(value)) + ", expected an integer").c_str());
  const nb::object number = nb::steal<nb::object>(PyNumber_Index(value.ptr()));
  if (!number)
    throw nb::python_error();
  int overflow = 0;
  const long long read = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow || read < least || read > most)
    raise({Code::InvalidArgument, what + " is " + shown(number) + ", expected " +
                                      std::to_string(least) + " to " + std::to_string(most)});
  return read;
}

Shape shapeOf(nb::handle lengths, int64_t none, const std::string &what) {
  if (lengths.is_none())
    return {};
  const auto lengthOf = [&](nb::handle length, size_t index) {
    return length.is_none() ? none
                            : integerOf(length, what + " " + std::to_string(index), Dynamic,
                                        std::numeric_limits<int64_t>::max());
  };
  if (PyIndex_Check(lengths.ptr())) { // as arrays of NumPy are, whatever is in them
    if (const nb::object one = nb::steal(PyNumber_Index(lengths.ptr())))
      return {lengthOf(one, 0)};
    PyErr_Clear();
  }
  if (!nb::hasattr(lengths, "__iter__") || PyUnicode_Check(lengths.ptr()))
    refuseType(what + "s", "a length, or a sequence of lengths", lengths);
  Shape shape;
  for (nb::handle length : lengths)
    shape.push_back(lengthOf(length, shape.size()));
  return shape;
}

namespace {
std::atomic<unsigned> forks{0};
std::atomic<std::thread::id> ending; ///< the thread that ends the interpreter
} // namespace

WithoutGil::~WithoutGil() {
  const std::thread::id ender = ending.load(std::memory_order_acquire);
  while (ender != std::thread::id() && ender != std::this_thread::get_id())
    pause();
  PyEval_RestoreThread(state_);
}

unsigned forkGeneration() { return forks.load(std::memory_order_relaxed); }

void ForkGuard::check(const char *what) const {
  if (isForeign())
    raise({Code::InvalidArgument,
           std::string(what) +
               " was opened before fork() and cannot be used in the child process; open another"});
}

Exclusive::Exclusive(std::atomic<bool> &busy, const char *what) : busy_(busy) {
  if (busy.exchange(true, std::memory_order_acquire))
    raise({Code::InvalidArgument,
           std::string(what) + " is in use by another thread or by a running call"});
}

void bindErrors(nb::module_ &m) {
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  // It runs last, as what was registered first. Whoever was about to go on may do so still.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    ending.store(std::this_thread::get_id(), std::memory_order_release);
    const nb::gil_scoped_release released;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }));

  m.def("_codes", [] {
    nb::typed<nb::list, nb::typed<nb::tuple, int, nb::str, nb::str>> codes;
    for (int i = 0; i <= static_cast<int>(Code::Internal); ++i) {
      const Code code = static_cast<Code>(i);
      codes.append(nb::make_tuple(i, name(code), name(nextStep(code))));
    }
    return codes;
  });
}

} // namespace mlbridge::python
