/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   The list of built-in extensions that Jim Tcl's configure step writes. */
#include <stdlib.h>

#include "jim.h"

int Jim_aioInit(Jim_Interp *interp);
int Jim_arrayInit(Jim_Interp *interp);
int Jim_fileInit(Jim_Interp *interp);
int Jim_interpInit(Jim_Interp *interp);
int Jim_packInit(Jim_Interp *interp);
int Jim_regexpInit(Jim_Interp *interp);
int Jim_tclprefixInit(Jim_Interp *interp);

int Jim_InitStaticExtensions(Jim_Interp *interp) {
  int (*const init[])(Jim_Interp *) = {
      Jim_aioInit,  Jim_arrayInit,  Jim_fileInit,      Jim_interpInit,
      Jim_packInit, Jim_regexpInit, Jim_tclprefixInit,
  };
  for (size_t i = 0; i < sizeof init / sizeof *init; i++) {
    int result = init[i](interp);
    if (result != JIM_OK)
      return result;
  }
  return JIM_OK;
}

int Jim_initjimshInit(Jim_Interp *interp) {
  (void)interp;
  return JIM_OK;
}

int Jim_MakeTempFile(Jim_Interp *interp, const char *filename_template, int unlink_file) {
  (void)filename_template;
  (void)unlink_file;
  Jim_SetResultString(interp, "temporary files are not supported", -1);
  return -1;
}

int Jim_EvalNamespace(Jim_Interp *interp, Jim_Obj *script, Jim_Obj *name) {
  (void)script;
  (void)name;
  Jim_SetResultString(interp, "namespaces are not supported", -1);
  return JIM_ERR;
}
