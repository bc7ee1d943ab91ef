// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `?rename=NEW:OLD,...`: a model whose inputs and outputs have other names.
#ifndef MLBRIDGE_RUNNER_RENAME_H
#define MLBRIDGE_RUNNER_RENAME_H

#include "core/backend.h"

#include <utility>
#include <vector>

namespace mlbridge {

/// New names, and those that the model has.
using Renames = std::vector<std::pair<std::string, std::string>>;

/// Takes the option out of the URI; empty without one. Errors: InvalidArgument.
Expected<Renames> takeRenames(Uri &uri);

/// The same model with the new names. Errors: InvalidArgument (the signature that `agent` has lacks
/// an old name, or has a new one already).
Expected<std::shared_ptr<ModelBackend>> rename(std::shared_ptr<ModelBackend> model, Renames names,
                                               const std::string &agent);

} // namespace mlbridge

#endif
