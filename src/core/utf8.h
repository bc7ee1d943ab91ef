// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text from outside must be UTF-8.
#ifndef MLBRIDGE_CORE_UTF8_H
#define MLBRIDGE_CORE_UTF8_H

#include <string_view>

namespace mlbridge {

bool isUtf8(std::string_view text);

} // namespace mlbridge

#endif
