// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/message.h"
#include "engine/backends.h"

#include <cstdlib>

namespace mlbridge {

Expected<std::string_view> wantedInstructionSet() {
  const char *const text = ::secure_getenv("MLBRIDGE_NATIVE_ISA");
  const std::string_view wanted = text ? text : "";
  for (const std::string_view known : {"", "portable", "avx2", "avx512", "neon"})
    if (wanted == known)
      return wanted;
  return makeError(Code::InvalidArgument, "MLBRIDGE_NATIVE_ISA is '", wanted,
                   "'; expected portable, avx2, avx512 or neon");
}

} // namespace mlbridge
