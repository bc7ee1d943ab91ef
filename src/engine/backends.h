// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The engines that are always built in.
#ifndef MLBRIDGE_ENGINE_BACKENDS_H
#define MLBRIDGE_ENGINE_BACKENDS_H

#include "core/backend.h"
#include <mlbridge/function.h>

namespace mlbridge {

/// What the program's own code returns; PolicyFailed if it throws.
template <typename F> auto caught(const char *what, const F &body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception &e) {
    return Status(Code::PolicyFailed, std::string(what) + " threw an exception: " + e.what());
  } catch (...) {
    return Status(Code::PolicyFailed, std::string(what) + " threw an exception");
  }
}

/// A function of the program's own. Errors: InvalidArgument (no function).
Expected<std::shared_ptr<ModelBackend>> functionBackend(FunctionModel model);

/// Opens aot:NAME, a model that is linked in, or aot:FILE.so. Option: weights=FILE. Errors:
/// NotFound, InvalidModel (not what mlbridge compile makes, another version, weights of another
/// network), InvalidArgument (an option, weights missing or not wanted).
Expected<std::shared_ptr<ModelBackend>> openCompiled(const Uri &uri);

} // namespace mlbridge

#endif
