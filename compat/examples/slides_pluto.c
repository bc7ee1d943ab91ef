/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Pluto's way to a model, as on the slides of 2024: slides_pluto BASENAME SERDES */
#include "MLModelRunner/C/ONNXModelRunner.h"
#include "MLModelRunner/C/PipeModelRunner.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  char out[512], in[512];
  snprintf(out, sizeof out, "%s.out", argv[1]);
  snprintf(in, sizeof in, "%s.in", argv[1]);
  int config = atoi(argv[2]);
  PipeModelRunnerWrapper *pmr = createPipeModelRunner(out, in, config);
  int n = 5;
  float *features = malloc(n * sizeof(float));
  for (int i = 0; i < n; ++i)
    features[i] = (float)i / 2;
  populateFloatFeatures(pmr, "tensor", features, n);
  int advice = evaluateIntFeatures(pmr);
  int depths[] = {1, 2, 3};
  populateIntFeatures(pmr, "depths", depths, 3);
  float cost = evaluateFloatFeatures(pmr);
  printf("%d %.2f %s\n", advice, cost, pipeModelRunnerError(pmr));
  destroyPipeModelRunner(pmr);
  free(features);
  return 0;
}
