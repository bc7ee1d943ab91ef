#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# every-plugin.sh [--without-gcc] has stock compilers ask by every plugin what comes with it, in the present folder. It ends at
# what fails.
set -eux
cat >loops.c <<END
static int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i];
  return total;
}
int both(const int *a, const int *b, int count) { return sum(a, count) + sum(b, count); }
END
cat >product.mlir <<END
func.func @product(%a: memref<64x64xf32>, %b: memref<64x64xf32>, %c: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%c : memref<64x64xf32>)
  return
}
END
for name in phase-ordering inliner regalloc-eviction; do
  flags=$(mlbridge flags $name --llvm 19 --require)
  clang-19 $flags -Oz -c loops.c
done
for name in phase-ordering inliner regalloc-eviction register-allocation; do
  flags=$(mlbridge flags $name --require)
  clang-22 $flags -Oz -c loops.c
done
for name in loop-distribution polly-tiling; do
  flags=$(mlbridge flags $name --require)
  clang-22 $flags -O3 -c loops.c
done
clang-22 -Xclang -fpass-plugin="$(mlbridge path multiversioning)" -O3 -c loops.c
if [ "${1-}" != --without-gcc ]; then
  flags=$(mlbridge flags gcc-settings --require)
  gcc-12 $flags -O2 -c loops.c
fi
flags=$(mlbridge flags mlir-tiling --require)
eval mlir-opt-22 "$flags" product.mlir >tiled.mlir
grep scf.for tiled.mlir
# A plugin for another version of the compiler is refused, and nothing is compiled.
rm loops.o
if mlbridge flags phase-ordering --compiler clang-19 2>said; then exit 1; fi
grep -e '--llvm 19' said
flags=$(mlbridge flags phase-ordering)
if clang-19 $flags -Oz -c loops.c; then exit 1; fi
test ! -e loops.o
