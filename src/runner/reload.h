// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `?reload=INTERVAL`: a model whose file may be replaced while it is used.
#ifndef MLBRIDGE_RUNNER_RELOAD_H
#define MLBRIDGE_RUNNER_RELOAD_H

#include "core/backend.h"

namespace mlbridge {

using BackendOpener = std::function<Expected<std::shared_ptr<ModelBackend>>(const Uri &)>;

/// Takes `reload` out of the URI: the least time between two looks at the file; nothing if it is
/// not there. Errors: InvalidArgument.
Expected<std::optional<Duration>> takeReload(Uri &uri);

/// Opens the model with `opener`, and anew each time when its file, the place of the URI, or that
/// of its option `weights` has changed. Errors: those of the opener; InvalidArgument (the place is
/// no file); Unsupported (a model without a signature).
Expected<std::shared_ptr<ModelBackend>> openReloading(const Uri &uri, Duration interval,
                                                      BackendOpener opener);

} // namespace mlbridge

#endif
