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

/// The part of a path up to its last slash; "./" if it has none.
std::string folderOf(const std::string &path);

/// A model's file, or a copy of what is in `memory`. Errors: those of readFile; InvalidModel if it
/// is empty or plainly no model.
Expected<Buffer> readModelFile(const std::string &path, const Span<const uint8_t> *memory,
                               uint64_t limit, const Deadline &deadline = {});

/// Names a file that is plainly no model, and what to do about it: "a Git LFS pointer and not the
/// file itself; 'git lfs pull' fetches it". Empty if it may be a model.
std::string whatInstead(Span<const uint8_t> bytes);

/// Copies a file into another one, which is empty. Errors: those of readFile; LimitExceeded if it
/// cannot be written.
Status copyFile(const std::string &path, uint64_t limit, int target);

} // namespace mlbridge::engine

#endif
