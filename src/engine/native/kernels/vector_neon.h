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

MLBRIDGE_INLINE double sumOf(float64x2_t a) { return vgetq_lane_f64(a, 0) + vgetq_lane_f64(a, 1); }
MLBRIDGE_INLINE float sumOf(float32x4_t a) {
  const float32x2_t two = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

// clang-format off
#define MLBRIDGE_NEON(Name, T, Vector, type)                                                       \
  struct Name {                                                                                    \
    using Element = T;                                                                             \
    using Native = Vector;                                                                         \
    static constexpr InstructionSet Set = InstructionSet::Neon;                                    \
    static MLBRIDGE_INLINE Vector loadPartial(const T *x, int n) { return loadLanes<Vector>(x, n); }\
    static MLBRIDGE_INLINE void storePartial(T *x, int n, Vector a) { storeLanes(x, n, a); }       \
    static MLBRIDGE_INLINE Vector broadcast(T x) { return vdupq_n_##type(x); }                     \
    static MLBRIDGE_INLINE Vector sqrt(Vector a) { return vsqrtq_##type(a); }                      \
    static MLBRIDGE_INLINE Vector floor(Vector a) { return vrndmq_##type(a); }                     \
    static MLBRIDGE_INLINE Vector ceil(Vector a) { return vrndpq_##type(a); }                      \
    static MLBRIDGE_INLINE Vector round(Vector a) { return vrndnq_##type(a); }                     \
    static MLBRIDGE_INLINE Vector greatest(Vector a, Vector b) { return a > b ? a : b; }           \
    static MLBRIDGE_INLINE Vector least(Vector a, Vector b) { return a < b ? a : b; }              \
    static MLBRIDGE_INLINE Vector fma(Vector a, Vector b, Vector c) { return vfmaq_##type(c, a, b); }\
    static MLBRIDGE_INLINE bool any(Vector mask) { return vmaxvq_u32(vreinterpretq_u32_##type(mask)) != 0; }\
    static MLBRIDGE_INLINE T sum(Vector a) { return sumOf(a); }                                    \
  };
MLBRIDGE_NEON(NeonDouble, double, float64x2_t, f64)
MLBRIDGE_NEON(NeonFloat, float, float32x4_t, f32)
#undef MLBRIDGE_NEON
// clang-format on
using NeonF64 = Register<NeonDouble>;
using NeonF32 = Register<NeonFloat>;

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
  using Sums = PortableSums;

  static MLBRIDGE_INLINE NeonF32 fromFour(const uint16_t *p) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))};
  }
  static MLBRIDGE_INLINE F32 fromHalf(const uint16_t *p) {
    return {{fromFour(p), fromFour(p + 4)}, {fromFour(p + 8), fromFour(p + 12)}};
  }
  static MLBRIDGE_INLINE void toFour(NeonF32 a, uint16_t *p) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a.r)));
  }
  static MLBRIDGE_INLINE void toHalf(F32 a, uint16_t *p) {
    toFour(a.lo.lo, p);
    toFour(a.lo.hi, p + 4);
    toFour(a.hi.lo, p + 8);
    toFour(a.hi.hi, p + 12);
  }
  static MLBRIDGE_INLINE void widen(int32_t *y, const uint8_t *p) {
    for (int i = 0; i < 16; ++i)
      y[i] = p[i];
  }
};

} // namespace mlbridge::native::kernels

#endif
