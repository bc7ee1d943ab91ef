// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models that the plugin itself offers: fixed answers for tests and searches, and replayed logs.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_MODELS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_MODELS_H

namespace mlbridge::phase_ordering {

/// Registers, once for the process:
///   function:sequence?actions=I,J,…  these answers in order, then stop; with list=FILE, actions of
///                                    that list
///   function:stop                    stops at once
///   function:fail-at?step=K          the first allowed action that was taken least, and an error
///                                    at step K
///   replay:FILE, replay:FOLDER       the answers of a log; of the folder's logs, the one of the
///                                    module that asks
/// Thread-safe.
void registerModels();

} // namespace mlbridge::phase_ordering

#endif
