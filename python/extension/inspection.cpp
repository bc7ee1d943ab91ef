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
    if (!found)
      check(found.status());
    nb::list missing;
    for (const native::Inspection::Use &use : found->operators)
      if (!use.isSupported)
        missing.append(use.op);
    nb::dict all;
    all["runs"] = found->native.ok();
    all["why"] = found->native.message();
    all["missing"] = missing;
    all["multiply_adds"] = found->multiplyAdds;
    all["steps"] = found->steps;
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
