#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The tests of the kernels for AArch64, cross-compiled and run by qemu-user:
#   neon_test.sh SOURCE_TREE FOLDER
# Needs (Debian) g++-aarch64-linux-gnu, qemu-user and libgtest-dev.
set -eu
kernels=$1/src/engine/native/kernels
googletest=/usr/src/googletest/googletest
mkdir -p "$2"
cd "$2"
compile() {
  aarch64-linux-gnu-g++ -std=c++17 -Wno-psabi -DMLBRIDGE_NATIVE_NEON -I"$1/src" -I"$googletest" \
    -I"$googletest/include" -c "$2" -o "$3" $4
}
flags="-O2 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-exceptions"
for file in neon portable busy rare instruction_set names; do
  compile "$1" "$kernels/$file.cpp" "$file.o" "$flags"
done
for file in kernels_test accuracy_test; do
  compile "$1" "$kernels/$file.cpp" "$file.o" -O1
done
for file in gtest-all gtest_main; do
  compile "$1" "$googletest/src/$file.cc" "$file.o" -O1
done
aarch64-linux-gnu-g++ -static ./*.o -o neon_test
# libm's long double, which is the truth of the accuracy tests, is slow there.
exec qemu-aarch64 ./neon_test --gtest_filter='-Accuracy*.Functions:Accuracy*.Pow'
