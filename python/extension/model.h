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
  Model model;
  ForkGuard fork;
};

struct PyRunner {
  PyRunner(Runner made, std::shared_ptr<PyModel> owner);
  ~PyRunner();
  void prepare();
  Runner runner;
  std::shared_ptr<PyModel> model;
  /// For each input of dynamic shape or strings, the array that the user writes, once asked for:
  /// the buffer itself moves when it grows, and must not be seen by an array that is kept.
  std::vector<nb::object> staged;
  /// The type of the answer, where the signature is that of the first evaluation.
  std::optional<ElementType> inferred;
  std::atomic<bool> busy{false};
  ForkGuard fork;
};

OpenOptions openOptions(nb::handle deadline, std::string agent, std::string episode,
                        std::string context);

} // namespace mlbridge::python

#endif
