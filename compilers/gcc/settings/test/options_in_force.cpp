// SPDX-License-Identifier: GPL-3.0-or-later
// A plugin for GCC 12 that the tests build: writes, for each function as it is compiled to machine
// code, the value of every option of GCC that is in force then.
//
// As it is compiled with GCC's headers, it is under the GNU General Public License, version 3 or
// later.
#include <cstdio>

#include <gcc-plugin.h>

// Each of these headers needs those before it.
#include <tree.h>

#include <function.h>
#include <opts.h>

int plugin_is_GPL_compatible;

namespace {

FILE *out;

void writeOption(unsigned number) {
  const cl_option &option = cl_options[number];
  const void *variable = option_flag_var(number, &global_options);
  if (!variable || option.var_type == CLVC_DEFER)
    return;
  if (option.var_type == CLVC_STRING) {
    const char *text = *static_cast<const char *const *>(variable);
    fprintf(out, "\t%s\t%s\n", option.opt_text, text ? text : "");
  } else if (option.var_type == CLVC_BIT_SET || option.var_type == CLVC_BIT_CLEAR) {
    fprintf(out, "\t%s\t%d\n", option.opt_text, option_enabled(number, -1, &global_options));
  } else if (option.cl_host_wide_int && option.var_type != CLVC_ENUM) {
    const HOST_WIDE_INT value = *static_cast<const HOST_WIDE_INT *>(variable);
    fprintf(out, "\t%s\t%lld\n", option.opt_text, static_cast<long long>(value));
  } else {
    fprintf(out, "\t%s\t%d\n", option.opt_text, *static_cast<const int *>(variable));
  }
}

void write(void *, void *) {
  fprintf(out, "%s\n", IDENTIFIER_POINTER(DECL_NAME(cfun->decl)));
  for (unsigned i = 0; i < cl_options_count; ++i)
    writeOption(i);
  fprintf(out, "\tlevel\t%d,%d,%d,%d\n", optimize, optimize_size, optimize_debug, optimize_fast);
  fflush(out);
}

} // namespace

int plugin_init(plugin_name_args *told, plugin_gcc_version *) {
  if (told->argc != 1 || !(out = fopen(told->argv[0].value, "w")))
    return 1;
  register_callback(told->base_name, PLUGIN_ALL_PASSES_START, write, nullptr);
  return 0;
}
