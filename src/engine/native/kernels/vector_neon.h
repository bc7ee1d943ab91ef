// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Advanced SIMD of AArch64: a vector is four registers.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_NEON_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_NEON_H

#include "vector.h"

#include <arm_neon.h>

namespace mlbridge::native::kernels {

template <class Native, class E> MLBRIDGE_INLINE Native loadLanes(const E *p, int n) {
  Native a = {};
  for (int i = 0; i < n; ++i)
    a[i] = p[i];
  return a;
}
template <class Native, class E> MLBRIDGE_INLINE void storeLanes(E *p, int n, Native a) {
  for (int i = 0; i < n; ++i)
    p[i] = a[i];
}

// clang-format off
struct NeonDouble {
  using Element = double;
  using Native = float64x2_t;
  static constexpr InstructionSet Set = InstructionSet::Neon;
  static MLBRIDGE_INLINE Native loadPartial(const double *p, int n) { return loadLanes<Native>(p, n); }
  static MLBRIDGE_INLINE void storePartial(double *p, int n, Native a) { storeLanes(p, n, a); }
  static MLBRIDGE_INLINE Native broadcast(double x) { return vdupq_n_f64(x); }
  static MLBRIDGE_INLINE Native sqrt(Native a) { return vsqrtq_f64(a); }
  static MLBRIDGE_INLINE Native floor(Native a) { return vrndmq_f64(a); }
  static MLBRIDGE_INLINE Native ceil(Native a) { return vrndpq_f64(a); }
  static MLBRIDGE_INLINE Native round(Native a) { return vrndnq_f64(a); }
  static MLBRIDGE_INLINE Native greatest(Native a, Native b) { return a > b ? a : b; }
  static MLBRIDGE_INLINE Native least(Native a, Native b) { return a < b ? a : b; }
  static MLBRIDGE_INLINE Native fma(Native a, Native b, Native c) { return vfmaq_f64(c, a, b); }
  static MLBRIDGE_INLINE bool any(Native mask) { return vmaxvq_u32(vreinterpretq_u32_f64(mask)) != 0; }
  static MLBRIDGE_INLINE double sum(Native a) { return vgetq_lane_f64(a, 0) + vgetq_lane_f64(a, 1); }
};
using NeonF64 = Register<NeonDouble>;

struct NeonFloat {
  using Element = float;
  using Native = float32x4_t;
  static constexpr InstructionSet Set = InstructionSet::Neon;
  static MLBRIDGE_INLINE Native loadPartial(const float *p, int n) { return loadLanes<Native>(p, n); }
  static MLBRIDGE_INLINE void storePartial(float *p, int n, Native a) { storeLanes(p, n, a); }
  static MLBRIDGE_INLINE Native broadcast(float x) { return vdupq_n_f32(x); }
  static MLBRIDGE_INLINE Native sqrt(Native a) { return vsqrtq_f32(a); }
  static MLBRIDGE_INLINE Native floor(Native a) { return vrndmq_f32(a); }
  static MLBRIDGE_INLINE Native ceil(Native a) { return vrndpq_f32(a); }
  static MLBRIDGE_INLINE Native round(Native a) { return vrndnq_f32(a); }
  static MLBRIDGE_INLINE Native greatest(Native a, Native b) { return a > b ? a : b; }
  static MLBRIDGE_INLINE Native least(Native a, Native b) { return a < b ? a : b; }
  static MLBRIDGE_INLINE Native fma(Native a, Native b, Native c) { return vfmaq_f32(c, a, b); }
  static MLBRIDGE_INLINE bool any(Native mask) { return vmaxvq_u32(vreinterpretq_u32_f32(mask)) != 0; }
  static MLBRIDGE_INLINE float sum(Native a) {
    const float32x2_t two = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
};
using NeonF32 = Register<NeonFloat>;
// clang-format on

MLBRIDGE_INLINE void widen(NeonF32 a, NeonF64 &lo, NeonF64 &hi) {
  lo.r = vcvt_f64_f32(vget_low_f32(a.r));
  hi.r = vcvt_high_f64_f32(a.r);
}
MLBRIDGE_INLINE void narrow(NeonF64 lo, NeonF64 hi, NeonF32 &a) {
  a.r = vcvt_high_f32_f64(vcvt_f32_f64(lo.r), hi.r);
}

template <> struct WideOf<NeonF32> {
  using Type = NeonF64;
};

struct Neon {
  using F32 = Pair<Pair<NeonF32>>;
  using F64 = Pair<Pair<NeonF64>>;

  static MLBRIDGE_INLINE NeonF32 fromFour(const std::uint16_t *p) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))};
  }
  static MLBRIDGE_INLINE F32 fromHalf(const std::uint16_t *p) {
    return {{fromFour(p), fromFour(p + 4)}, {fromFour(p + 8), fromFour(p + 12)}};
  }
  static MLBRIDGE_INLINE void toFour(NeonF32 a, std::uint16_t *p) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a.r)));
  }
  static MLBRIDGE_INLINE void toHalf(F32 a, std::uint16_t *p) {
    toFour(a.lo.lo, p);
    toFour(a.lo.hi, p + 4);
    toFour(a.hi.lo, p + 8);
    toFour(a.hi.hi, p + 12);
  }
};

} // namespace mlbridge::native::kernels

#endif
