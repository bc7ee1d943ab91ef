// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_CORE_PROCESS_H
#define MLBRIDGE_CORE_PROCESS_H

#include <cstdint>

namespace mlbridge {

/// Another number in each process of a family: after fork the child has a new one. Costs no system
/// call.
uint64_t processNumber();

} // namespace mlbridge

#endif
