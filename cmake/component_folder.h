// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Included by what pkg-config says; lies where this installation's components do, and tells the
// library so.
#ifdef __cplusplus
extern "C" __attribute__((weak, visibility("hidden"))) const char *mlbridge_component_folder();
extern "C" const char *mlbridge_component_folder() {
  static char folder[] = __FILE__;
  folder[sizeof __FILE__ - sizeof "/component_folder.h"] = 0;
  return folder;
}
#endif
