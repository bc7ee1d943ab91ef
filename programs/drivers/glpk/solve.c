// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solves models: solve simplex|dual|interior|integer|satisfy FILE TIMES; .mps, .lp, .cnf, or else
// MathProg.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glpk.h"

static int ends(const char *text, const char *end) {
  size_t length = strlen(text), size = strlen(end);
  return length >= size && strcmp(text + length - size, end) == 0;
}

static glp_prob *read_model(const char *path) {
  glp_prob *model = glp_create_prob();
  int failed;
  if (ends(path, ".mps")) {
    failed = glp_read_mps(model, GLP_MPS_FILE, NULL, path);
  } else if (ends(path, ".lp")) {
    failed = glp_read_lp(model, NULL, path);
  } else if (ends(path, ".cnf")) {
    failed = glp_read_cnfsat(model, path);
  } else {
    glp_tran *translator = glp_mpl_alloc_wksp();
    failed = glp_mpl_read_model(translator, path, 0) || glp_mpl_generate(translator, NULL);
    if (!failed)
      glp_mpl_build_prob(translator, model);
    glp_mpl_free_wksp(translator);
  }
  if (failed)
    exit(1);
  return model;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  glp_term_out(GLP_OFF);
  const char *how = argv[1];
  for (int n = atoi(argv[3]); n > 0; --n) {
    glp_prob *model = read_model(argv[2]);
    double value = 0;
    int code = 0;
    if (strcmp(how, "interior") == 0) {
      glp_iptcp options;
      glp_init_iptcp(&options);
      code = glp_interior(model, &options);
      value = glp_ipt_obj_val(model);
    } else if (strcmp(how, "integer") == 0) {
      glp_iocp options;
      glp_init_iocp(&options);
      options.presolve = options.gmi_cuts = options.mir_cuts = options.cov_cuts = GLP_ON;
      code = glp_intopt(model, &options);
      value = glp_mip_obj_val(model);
    } else if (strcmp(how, "satisfy") == 0) {
      code = glp_minisat1(model);
      value = glp_mip_status(model);
    } else {
      glp_smcp options;
      glp_init_smcp(&options);
      options.meth = strcmp(how, "dual") == 0 ? GLP_DUALP : GLP_PRIMAL;
      glp_scale_prob(model, GLP_SF_AUTO);
      glp_adv_basis(model, 0);
      code = glp_simplex(model, &options);
      value = glp_get_obj_val(model);
    }
    if (n == 1)
      printf("%d rows, %d columns, %d: %.6g\n", glp_get_num_rows(model), glp_get_num_cols(model),
             code, value);
    glp_delete_prob(model);
  }
  return 0;
}
