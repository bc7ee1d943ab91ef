// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands behind mlbridge.Model and mlbridge.Runner.
#ifndef MLBRIDGE_PYTHON_MODEL_H
#define MLBRIDGE_PYTHON_MODEL_H

#include "common.h"

#include <mlbridge/model.h>

#include <optional>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

namespace mlbridge::python {

struct PyModel {
  ~PyModel();
  /// Lets go of it; runners that were made keep what they need of it.
  void close();
  /// Throws Closed after close().
  const Model &open() const;
  Model model;
  std::string uri; ///< once closed
  bool isClosed = false;
  ForkGuard fork;
};

/// A Runner that is ended without the GIL, and in no child of fork().
struct HeldRunner {
  explicit HeldRunner(Runner made) : runner(std::move(made)) {}
  HeldRunner(const HeldRunner &) = delete;
  ~HeldRunner() { end(std::move(runner), fork); }
  Runner runner;
  ForkGuard fork;
};

struct PyRunner {
  PyRunner(Runner made, std::shared_ptr<PyModel> owner);
  void close();
  void use(Runner made);
  /// Arrays of its inputs are views of its memory, which they keep. Null after close().
  std::shared_ptr<HeldRunner> held;
  std::shared_ptr<PyModel> model;
  /// For each input of dynamic shape or strings, the array that the user writes, once asked for:
  /// the buffer itself moves when it grows, and must not be seen by an array that is kept.
  std::vector<nb::object> staged;
  /// The type of the answer, where the signature is that of the first evaluation.
  std::optional<ElementType> inferred;
  std::atomic<bool> busy{false};
  ForkGuard fork;
};

} // namespace mlbridge::python

#endif
