// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What components there are, for `mlbridge doctor`.
#include "common.h"
#include "core/component.h"

namespace mlbridge::python {
namespace {

ComponentKind kindNamed(std::string_view wanted) {
  for (ComponentKind kind :
       {ComponentKind::Engine, ComponentKind::SerDes, ComponentKind::Transport})
    if (wanted == name(kind))
      return kind;
  throw nb::value_error("a component is an engine, a serdes or a transport");
}

} // namespace

void bindComponents(nb::module_ &m) {
  m.def("_component_names", [](std::string_view kind) { return componentNames(kindNamed(kind)); });
  m.def("_open_component", [](std::string_view kind, const std::string &name) {
    check(findComponent(kindNamed(kind), name).status());
  });
}

} // namespace mlbridge::python
