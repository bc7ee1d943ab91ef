/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   The public header where the installed one lies. */
#include <yajl_tree.h>
