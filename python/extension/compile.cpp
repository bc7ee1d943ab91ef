// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The source that `mlbridge compile` has compiled.
#include "common.h"
#ifdef MLBRIDGE_HAS_NATIVE
#include "engine/native/compile/generate.h"
#endif

namespace mlbridge::python {

void bindCompile(nb::module_ &m) {
#ifdef MLBRIDGE_HAS_NATIVE
  m.def("_generate",
        [](const std::string &path, const std::string &name,
           const std::map<std::string, int64_t> &dimensions,
           const std::map<std::string, std::vector<int64_t>> &shapes, bool externalWeights) {
          Expected<aot::Generated> made = [&] {
            const nb::gil_scoped_release released;
            return aot::generate(path, {name, dimensions, shapes, externalWeights});
          }();
          check(made.status());
          return nb::make_tuple(nb::bytes(made->source.data(), made->source.size()),
                                nb::bytes(made->header.data(), made->header.size()),
                                nb::bytes(made->weights.data(), made->weights.size()), made->files);
        });
#else
  (void)m;
#endif
}

} // namespace mlbridge::python
