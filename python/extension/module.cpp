// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mlbridge._core: the C++ library for Python, and what the command line asks of it besides.
#include "arrays.h"
#include "core/component.h"
#include "engine/file.h"
#include "engine/native/network.h"
#include "engine/onnx_format.h"
#ifdef MLBRIDGE_HAS_NATIVE
#include "engine/native/compile/generate.h"
#endif

namespace mlbridge::python {
namespace {

ComponentKind kindNamed(std::string_view wanted) {
  for (ComponentKind kind :
       {ComponentKind::Engine, ComponentKind::SerDes, ComponentKind::Transport})
    if (wanted == name(kind))
      return kind;
  throw nb::value_error("a component is an engine, a serdes or a transport");
}

/// What the native engine makes of a model: fields of mlbridge.inspection.Report and Support.
nb::typed<nb::dict, nb::str, nb::any> inspectNative(const std::string &path) {
  Expected<native::Inspection> found = native::inspect(path);
  check(found.status());
  nb::typed<nb::dict, nb::str, nb::any> all;
  std::map<std::string, uint64_t> operators;
  std::vector<std::string> missing;
  for (const native::Inspection::Use &use : found->operators) {
    operators[use.op] = use.nodes;
    if (!use.isSupported)
      missing.push_back(use.op);
  }
  all["signature"] = found->signature;
  all["metadata"] = found->metadata;
  all["opsets"] = found->opsets;
  all["operators"] = operators;
  all["parameters"] = found->parameters;
  all["parameter_bytes"] = found->parameterBytes;
  all["external_files"] = found->externalFiles;
  all["runs"] = found->native.ok();
  all["why"] = found->native.message();
  all["missing"] = missing;
  all["multiply_adds"] = found->multiplyAdds;
  all["workspace_bytes"] = found->workspace;
  return all;
}

#ifdef MLBRIDGE_HAS_NATIVE
using Files = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes, nb::typed<nb::list, nb::str>>;

/// The source that `mlbridge compile` has compiled.
Files generate(const std::string &path, const std::string &name,
               const std::map<std::string, int64_t> &dimensions,
               const std::map<std::string, std::vector<int64_t>> &shapes, bool externalWeights,
               uint64_t memory) {
  aot::GenerateOptions options = {name, dimensions, shapes, externalWeights};
  if (memory)
    options.memory = memory;
  Expected<aot::Generated> made = withoutGil([&] { return aot::generate(path, options); });
  check(made.status());
  const auto bytes = [](const auto &text) { return nb::bytes(text.data(), text.size()); };
  return Files(
      nb::make_tuple(bytes(made->source), bytes(made->header), bytes(made->weights), made->files));
}
#endif

} // namespace

NB_MODULE(_core, m) {
  // A library never prints. What is alive at the end of the process may be a running server's.
  nb::set_leak_warnings(false);
  importNumpy();
  m.attr("version") = MLBRIDGE_VERSION;
  bindErrors(m);
  bindSignature(m);
  bindModel(m);
  bindServer(m);
  bindDriver(m);
  m.def("_component_names", [](std::string_view kind) { return componentNames(kindNamed(kind)); });
  m.def("_open_component", [](std::string_view kind, const std::string &name) {
    check(findComponent(kindNamed(kind), name).status());
  });
  m.def("_inspect_native", &inspectNative);
  m.def("_pays_to_prepack", [](const std::string &path) {
    constexpr uint64_t Limit = uint64_t(1) << 31;
    const Expected<Buffer> bytes = engine::readFile(path, Limit);
    return bytes && engine::paysToPrepack(bytes->span());
  });
#ifdef MLBRIDGE_HAS_NATIVE
  m.def("_generate", &generate);
#endif
}

} // namespace mlbridge::python
