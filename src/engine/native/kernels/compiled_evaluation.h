// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The head of a compiled network's evaluation, once for each instruction set.
// NAME_ISA.cpp defines MLBRIDGE_AOT_ISA, MLBRIDGE_AOT_VECTOR and, for fast code,
// MLBRIDGE_NATIVE_SPECIALIZE.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_COMPILED_EVALUATION_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_COMPILED_EVALUATION_H

#include "compiled_name.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// The kernels are this object's own, whatever else the program is linked with.
#define MLBRIDGE_NATIVE_WITHOUT_TABLES
#define MLBRIDGE_NATIVE_BUSY
#define MLBRIDGE_NATIVE_RARE
namespace {
// clang-format off: the vectors come first
#include MLBRIDGE_AOT_VECTOR
#include "along_axis.h"
#include "attention.h"
#include "classical.h"
#include "convolution.h"
#include "gemm.h"
#include "indexed.h"
#include "quantized.h"
#include "recurrent.h"
#include "spatial.h"
// clang-format on
using namespace mlbridge::native::kernels;
using Isa = mlbridge::native::kernels::MLBRIDGE_AOT_ISA;
using F32 [[maybe_unused]] = Isa::F32;
using F64 [[maybe_unused]] = Isa::F64;

int64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
}
} // namespace

#define MLBRIDGE_AOT_EVALUATE                                                                      \
  MLBRIDGE_AOT_HIDDEN mlbridge_aot_evaluate MLBRIDGE_AOT_SYMBOL(_evaluate, MLBRIDGE_AOT_ISA);      \
  int32_t MLBRIDGE_AOT_SYMBOL(_evaluate, MLBRIDGE_AOT_ISA)(const void *constants, void *workspace, \
                                                           void *const *inputs,                    \
                                                           void *const *outputs, uint64_t left)
#define MLBRIDGE_AOT_OPERANDS                                                                      \
  [[maybe_unused]] unsigned char *const weights =                                                  \
      static_cast<unsigned char *>(const_cast<void *>(constants));                                 \
  [[maybe_unused]] unsigned char *const space = static_cast<unsigned char *>(workspace);           \
  [[maybe_unused]] const auto in = [=](int i) { return static_cast<unsigned char *>(inputs[i]); }; \
  [[maybe_unused]] const auto out = [=](int i) { return static_cast<unsigned char *>(outputs[i]); };
// These stand before and in each loop of the network.
#define MLBRIDGE_AOT_BEGIN_LOOPS const int64_t start = left == UINT64_MAX ? 0 : nanoseconds();
#define MLBRIDGE_AOT_LOOK_AT_CLOCK                                                                 \
  if (left != UINT64_MAX && static_cast<uint64_t>(nanoseconds() - start) >= left)                  \
    return -1; /* MLB_AOT_TIMED_OUT */

#endif
