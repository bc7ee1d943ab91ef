// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a module can hold besides functions: aliases, ifuncs, thread-local and kept variables,
// computed gotos, assembly.
#include <stdio.h>

_Thread_local int calls = 3;
static int kept __attribute__((used)) = 7;
__asm__(".globl assembly_symbol\nassembly_symbol: .long 4");

int implementation(int x) { return x + 1; }
int aliased(int x) __attribute__((alias("implementation")));
static int (*resolve(void))(int) { return implementation; }
int dispatched(int x) __attribute__((ifunc("resolve")));

static inline __attribute__((always_inline)) int triple(int x) { return x * 3; }

int computed(int i) {
  static void *const labels[] = {&&first, &&second};
  goto *labels[i & 1];
first:
  return 1;
second:
  return 2;
}

int main(int argc, char **argv) {
  (void)argv;
  __asm__ volatile("nop");
  calls += argc;
  printf("%d %d %d %d %d\n", aliased(argc), dispatched(argc), computed(argc), triple(argc), calls);
  return 0;
}
