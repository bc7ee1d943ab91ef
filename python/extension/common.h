// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the parts of the extension share: owned references, errors as Python exceptions, and the
// guard that refuses the use of a connection after fork().
#ifndef MLBRIDGE_PYTHON_COMMON_H
#define MLBRIDGE_PYTHON_COMMON_H

#include <mlbridge/status.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <new>
#include <utility>

namespace mlbridge::python {

namespace nb = nanobind;

/// Throws the mlbridge.Error subclass of the code. Requires the GIL.
[[noreturn]] void raise(const Status &status);
inline void check(const Status &status) {
  if (!status)
    raise(status);
}

/// Takes the pending Python exception. Logs its traceback to the logger "mlbridge" and gives
/// PolicyFailed with "<what> raised ValueError: text". Requires the GIL.
Status takePythonError(const char *what);

/// UTF-8 with surrogates standing for bytes that are none, so that every string survives. New
/// reference.
PyObject *toPython(std::string_view text);
/// The inverse. False with a Python error if `object` is not a str.
bool fromPython(PyObject *object, std::string &text);
/// str(object) for a message; surrogates that stand for nothing become \ud800. Never fails.
std::string shown(nb::handle object);

/// Seconds, a datetime.timedelta, or text as in a URI ("250ms"). Throws InvalidArgument.
int64_t nanoseconds(nb::handle duration);

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

/// For an object that belongs to the parent of this process: it is neither ended nor freed.
template <typename T> void abandon(T object) { (void)new (std::nothrow) T(std::move(object)); }

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

void bindErrors(nb::module_ &m);
void bindSignature(nb::module_ &m);
void bindModel(nb::module_ &m);
void bindServer(nb::module_ &m);
void bindFunction(nb::module_ &m);
void bindDriver(nb::module_ &m);
void bindComponents(nb::module_ &m);
void bindInspection(nb::module_ &m);
void bindCompile(nb::module_ &m);

} // namespace mlbridge::python

#endif
