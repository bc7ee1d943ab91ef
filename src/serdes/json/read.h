// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// JSON text to tensors.
#ifndef MLBRIDGE_SERDES_JSON_READ_H
#define MLBRIDGE_SERDES_JSON_READ_H

#include "serdes/json/codec.h"

namespace mlbridge::json {

/// Null if there is no memory.
Reader *newReader();

/// Reads a whole message; 64 bytes after its end are readable.
mlb_code read(Reader &reader, const Codec &codec, const uint8_t *data, size_t size,
              const mlb_tensor_sink &sink, mlb_error *error);

} // namespace mlbridge::json

#endif
