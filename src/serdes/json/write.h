// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors to JSON text.
#ifndef MLBRIDGE_SERDES_JSON_WRITE_H
#define MLBRIDGE_SERDES_JSON_WRITE_H

#include "serdes/json/codec.h"

namespace mlbridge::json {

/// Appends `text` as a JSON string with its quotes. False if it is not UTF-8.
bool appendQuoted(std::string &to, std::string_view text);

/// Appends the whole message to `out`.
mlb_code write(Span<const Slot> slots, const mlb_tensor *tensors, mlb_buffer *out,
               mlb_error *error);

} // namespace mlbridge::json

#endif
