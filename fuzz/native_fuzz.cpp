// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hostile ONNX files for the native engine: each is refused with a code and a message, or opens and
// is evaluated.
//   native_fuzz -max_total_time=60 -max_len=8192 CORPUS tests/golden/hostile
#include "hostile-models/hostile_model.h"

#include <cstdio>
#include <cstdlib>

using namespace mlbridge;
using namespace mlbridge::testing;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const MemoryFile file;
  if (!file.write(reinterpret_cast<const char *>(data), size))
    return 0;
  const Outcome outcome = tryModel(file.path(), std::chrono::milliseconds(20));
  if (outcome.status)
    return 0;
  // NotFound is a file of external data that isn't there; InvalidArgument one that isn't a file.
  // The weights of a Constant are opened when the model is bound.
  const Code code = outcome.status.code();
  const bool isRight = isRefusal(code) || code == Code::NotFound ||
                       (!outcome.isOpen && code == Code::InvalidArgument);
  if (isRight && !outcome.status.message().empty())
    return 0;
  std::fprintf(stderr, "refused with the wrong code or no message: %s\n",
               outcome.status.toString().c_str());
  std::abort();
}
