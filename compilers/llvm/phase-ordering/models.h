// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_MODELS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_MODELS_H

namespace mlbridge::phase_ordering {

/// Registers, once for the process, the models that the plugin itself offers, for tests and
/// searches:
///   function:sequence?actions=I,J,…  these answers in order, then stop; with list=FILE, actions of
///                                    that list
///   function:stop                    stops at once
///   function:fail-at?step=K          the first allowed action that was taken least, and an error
///                                    at step K
///   candidates:FILE                  the candidates of a file, best first
/// Thread-safe.
void registerModels();

} // namespace mlbridge::phase_ordering

#endif
