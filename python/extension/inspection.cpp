// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the native engine makes of a model, for `mlbridge inspect`; and how the onnx engine loads
// it.
#include "common.h"
#include "engine/file.h"
#include "engine/native/network.h"
#include "engine/prepack.h"

namespace mlbridge::python {

void bindInspection(nb::module_ &m) {
  m.def("_inspect_native", [](const std::string &path) {
    Expected<native::Inspection> found = native::inspect(path);
    check(found.status());
    nb::typed<nb::dict, nb::str, nb::any> all;
    nb::dict operators;
    nb::list missing;
    for (const native::Inspection::Use &use : found->operators) {
      operators[toPython(use.op)] = use.nodes;
      if (!use.isSupported)
        missing.append(toPython(use.op));
    }
    nb::dict metadata;
    for (const auto &[key, value] : found->metadata)
      metadata[toPython(key)] = toPython(value);
    all["signature"] = toPython(found->signature);
    all["metadata"] = metadata;
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
  });
  m.def("_pays_to_prepack", [](const std::string &path) {
    constexpr uint64_t Limit = uint64_t(1) << 31;
    const Expected<Buffer> bytes = engine::readFile(path, Limit);
    return bytes && engine::paysToPrepack(bytes->span());
  });
}

} // namespace mlbridge::python
