// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is behind the pointers of the C interface.
#ifndef MLBRIDGE_C_HANDLES_H
#define MLBRIDGE_C_HANDLES_H

#include "c/values.h"

#include <mlbridge/model.h>

#include <memory>
#include <optional>

struct mlbridge_model {
  mlbridge::Model model;
  mlbridge::Status wrong; ///< a bad call, before the library was asked
  std::unique_ptr<mlbridge::c::ShownSignature> shown;
};

struct mlbridge_runner {
  mlbridge::Runner runner;
  mlbridge::Status wrong; ///< the same
};

#endif
