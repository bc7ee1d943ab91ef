/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * For the tests: a library that has ONNX Runtime's entry point and none of its APIs. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct api_base {
  const void *(*get_api)(uint32_t version);
  const char *(*get_version)(void);
};

/* The real one complains on standard error too. */
static const void *get_api(uint32_t version) {
  if (STUB_COMPLAINS)
    fprintf(stderr, "The requested API version [%u] is not available\n", (unsigned)version);
  return NULL;
}
static const char *get_version(void) { return STUB_VERSION; }

const struct api_base *OrtGetApiBase(void) {
  static const struct api_base base = {get_api, get_version};
  return &base;
}
