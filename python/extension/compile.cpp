// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The source that `mlbridge compile` has compiled.
#include "common.h"
#ifdef MLBRIDGE_HAS_NATIVE
#include "engine/native/compile/generate.h"
#endif

namespace mlbridge::python {

void bindCompile(nb::module_ &m) {
#ifdef MLBRIDGE_HAS_NATIVE
  using Files = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes, nb::typed<nb::list, nb::str>>;
  m.def("_generate", [](const std::string &path, const std::string &name,
                        const std::map<std::string, int64_t> &dimensions,
                        const std::map<std::string, std::vector<int64_t>> &shapes,
                        bool externalWeights, uint64_t memory) {
    aot::GenerateOptions options = {name, dimensions, shapes, externalWeights};
    if (memory)
      options.memory = memory;
    Expected<aot::Generated> made = withoutGil([&] { return aot::generate(path, options); });
    check(made.status());
    return Files(nb::make_tuple(nb::bytes(made->source.data(), made->source.size()),
                                nb::bytes(made->header.data(), made->header.size()),
                                nb::bytes(made->weights.data(), made->weights.size()),
                                made->files));
  });
#else
  (void)m;
#endif
}

} // namespace mlbridge::python
