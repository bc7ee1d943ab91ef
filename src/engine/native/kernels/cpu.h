// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The features of the CPU and the system, asked for when they are needed. (The compiler's own
// __builtin_cpu_supports brings a static initialiser that every process pays, and in a virtual
// machine each of its questions is a trap.)
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_CPU_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_CPU_H

#if defined(__x86_64__)
#include <cpuid.h>

namespace mlbridge::native {

struct CpuFeatures {
  bool avx2 = false;   ///< with fused multiply-add and float16 conversion
  bool avx512 = false; ///< F, DQ, BW, VL; and all of avx2
  bool vnni = false;   ///< products of bytes in AVX-512
};

inline CpuFeatures cpuFeatures() {
  CpuFeatures features;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_max(0, nullptr) < 7)
    return features;
  __cpuid(1, a, b, c, d);
  constexpr unsigned Fma = 1U << 12, SavesState = 1U << 27, F16c = 1U << 29;
  if ((c & (Fma | SavesState | F16c)) != (Fma | SavesState | F16c))
    return features;
  // Which registers the system saves: 6 are those of AVX, e0 what AVX-512 adds.
  unsigned saved = 0, high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  __cpuid_count(7, 0, a, b, c, d);
  constexpr unsigned Avx2 = 1U << 5, F = 1U << 16, Dq = 1U << 17, Bw = 1U << 30, Vl = 1U << 31;
  features.avx2 = (b & Avx2) != 0 && (saved & 0x06U) == 0x06U;
  features.avx512 =
      features.avx2 && (b & (F | Dq | Bw | Vl)) == (F | Dq | Bw | Vl) && (saved & 0xe6U) == 0xe6U;
  features.vnni = features.avx512 && (c & 1U << 11) != 0;
  return features;
}

} // namespace mlbridge::native

#endif

#endif
