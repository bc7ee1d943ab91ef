// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_LINK_COMMAND_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_LINK_COMMAND_H

#include "middle_end.h"

#include <string>

namespace mlbridge::phase_ordering {

/// The reason, an option of lld's, for which the process that runs the passes of this link
/// generates no code for the module; empty if there is none. No plugin is told, so this reads the
/// command line of the process, with the response files that it names.
std::string whyNoCode(const Pipeline &Begins);

} // namespace mlbridge::phase_ordering

#endif
