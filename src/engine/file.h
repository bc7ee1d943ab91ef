// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A whole file in memory: read and not mapped, so that nothing changes under a running compiler.
#ifndef MLBRIDGE_ENGINE_FILE_H
#define MLBRIDGE_ENGINE_FILE_H

#include "core/buffer.h"

#include <mlbridge/deadline.h>

#include <string>

namespace mlbridge::engine {

/// Never waits (for the other end of a FIFO, say). Errors: NotFound, InvalidArgument (not a regular
/// file, unreadable), LimitExceeded (more than `limit` bytes), DeadlineExceeded.
Expected<Buffer> readFile(const std::string &path, uint64_t limit, const Deadline &deadline = {});

/// The same of bytes in memory. Errors: LimitExceeded.
Expected<Buffer> copyBytes(Span<const uint8_t> bytes, uint64_t limit);

/// The same into another file, which is empty. Errors: those of readFile; LimitExceeded if it
/// cannot be written.
Status copyFile(const std::string &path, uint64_t limit, int target);

} // namespace mlbridge::engine

#endif
