// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/operators/common.h"

namespace mlbridge::native {

const Span<const Operator> ControlOperators;

} // namespace mlbridge::native
