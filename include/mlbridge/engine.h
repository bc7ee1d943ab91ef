// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Engines, serdes and transports that are linked into the program instead of loaded from a shared
// object.
#ifndef MLBRIDGE_ENGINE_H
#define MLBRIDGE_ENGINE_H

#include <mlbridge/component.h>
#include <mlbridge/status.h>

#include <string>

namespace mlbridge {

/// Makes "SCHEME:NAME" open a model of this engine, whose `open` is given NAME as place.
/// Process-wide within this copy of the library, thread-safe; the table is used for as long as the
/// process lives. Errors: InvalidArgument (the name is taken, the scheme is reserved by the
/// library, the table is incomplete).
Status registerEngine(const std::string &scheme, std::string name, const mlb_engine &engine);

/// Uses a component that is linked in where libmlbridge-KIND-NAME.so would be opened otherwise: its
/// engine opens "NAME:…", its serdes is "?serdes=NAME", its transport the scheme NAME. If the
/// program has already loaded the file of this name, the file stays in use. Process-wide within
/// this copy of the library, thread-safe; the table is used for as long as the process lives.
/// Errors: InvalidArgument (a name that is the library's own or taken), Unsupported (another ABI, a
/// table that is not complete or holds nothing).
Status registerComponent(const mlb_component &component);

} // namespace mlbridge

#endif
