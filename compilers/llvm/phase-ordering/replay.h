// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A log of decisions as a model.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_REPLAY_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_REPLAY_H

#include <mlbridge/function.h>

namespace mlbridge::phase_ordering {

/// The model of "replay:FILE" or "replay:FOLDER". Errors: NotFound, InvalidModel (damaged log).
/// Evaluating gives Mismatch if what the module looks like is not what the log says.
Expected<FunctionModel> replay(const Uri &From);

} // namespace mlbridge::phase_ordering

#endif
