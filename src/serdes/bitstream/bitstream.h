// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The built-in serdes: the elements themselves, little-endian, each tensor at a multiple of 8 bytes
// from the start of the message. docs/protocol.md fixes the bytes.
#ifndef MLBRIDGE_SERDES_BITSTREAM_BITSTREAM_H
#define MLBRIDGE_SERDES_BITSTREAM_BITSTREAM_H

#include "serdes/serdes.h"

namespace mlbridge {

const SerDes &bitstreamSerDes();

} // namespace mlbridge

#endif
