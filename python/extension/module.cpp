// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mlbridge._core: the C++ library for Python.
#include "arrays.h"

namespace mlbridge::python {

NB_MODULE(_core, m) {
  // A library never prints. What is alive at the end of the process may be a running server's.
  nb::set_leak_warnings(false);
  importNumpy();
  m.attr("version") = MLBRIDGE_VERSION;
  bindErrors(m);
  bindSignature(m);
  bindModel(m);
  bindServer(m);
  bindFunction(m);
  bindDriver(m);
  bindComponents(m);
  bindInspection(m);
  bindCompile(m);
}

} // namespace mlbridge::python
