// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds and opens components: shared objects that hold an engine, a serdes or a transport.
#ifndef MLBRIDGE_CORE_COMPONENT_H
#define MLBRIDGE_CORE_COMPONENT_H

#include <mlbridge/component.h>
#include <mlbridge/status.h>

#include <string>
#include <string_view>
#include <vector>

namespace mlbridge {

enum class ComponentKind : uint8_t { Engine, SerDes, Transport };

/// "engine", "serdes" or "transport", as in the file name.
const char *name(ComponentKind kind);

/// The table of the component, of this library's ABI, which has a complete table of the kind asked
/// for. Opened on first use, never closed; thread-safe. Errors: InvalidArgument (a name that cannot
/// be part of a file name), NotFound (no such file; the message lists where it was looked for and
/// what gives it), Unsupported (a file that is no component, or one of another version). Null
/// unless the program links it in, as in engine/backends.h; whoever calls what else is here has it.
[[gnu::weak, gnu::visibility("hidden")]] Expected<const mlb_component *>
findComponent(ComponentKind kind, std::string_view name) __asm__("mlbridge_link_components");

/// registerComponent of <mlbridge/engine.h>.
Status addComponent(const mlb_component &component);

/// "its function 'open' is null": what keeps the table from being used; empty if nothing does.
std::string missingInTable(const mlb_engine &table);

/// The folders that are searched for components, in this order; each once.
std::vector<std::string> componentFolders();
/// The names of the components of a kind in these folders, sorted. Null where findComponent is.
[[gnu::weak, gnu::visibility("hidden")]] std::vector<std::string>
componentNames(ComponentKind kind);

} // namespace mlbridge

#endif
