// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Advanced SIMD of AArch64: a vector is four registers.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_NEON_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_NEON_H

#include "vector.h"

#include <arm_neon.h>

namespace mlbridge::native::kernels {

// clang-format off
struct NeonF64 {
  using Element = double;
  using Bits = std::uint64_t;
  static constexpr int Lanes = 2;
  struct Mask {
    uint64x2_t m;
  };
  float64x2_t r;

  static MLBRIDGE_INLINE uint64x2_t bits(NeonF64 a) { return vreinterpretq_u64_f64(a.r); }
  static MLBRIDGE_INLINE NeonF64 of(uint64x2_t a) { return {vreinterpretq_f64_u64(a)}; }
  static MLBRIDGE_INLINE NeonF64 load(const double *p) { return {vld1q_f64(p)}; }
  static MLBRIDGE_INLINE NeonF64 loadPartial(const double *p, int n) {
    double lanes[Lanes] = {};
    for (int i = 0; i < n; ++i)
      lanes[i] = p[i];
    return load(lanes);
  }
  MLBRIDGE_INLINE void store(double *p) const { vst1q_f64(p, r); }
  MLBRIDGE_INLINE void storePartial(double *p, int n) const {
    double lanes[Lanes];
    store(lanes);
    for (int i = 0; i < n; ++i)
      p[i] = lanes[i];
  }
  static MLBRIDGE_INLINE NeonF64 broadcast(double x) { return {vdupq_n_f64(x)}; }
  static MLBRIDGE_INLINE NeonF64 broadcastBits(Bits x) { return of(vdupq_n_u64(x)); }
  static MLBRIDGE_INLINE NeonF64 sqrt(NeonF64 a) { return {vsqrtq_f64(a.r)}; }
  static MLBRIDGE_INLINE NeonF64 floor(NeonF64 a) { return {vrndmq_f64(a.r)}; }
  static MLBRIDGE_INLINE NeonF64 ceil(NeonF64 a) { return {vrndpq_f64(a.r)}; }
  static MLBRIDGE_INLINE NeonF64 round(NeonF64 a) { return {vrndnq_f64(a.r)}; }
  static MLBRIDGE_INLINE NeonF64 add(NeonF64 a, NeonF64 b) { return {vaddq_f64(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF64 sub(NeonF64 a, NeonF64 b) { return {vsubq_f64(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF64 mul(NeonF64 a, NeonF64 b) { return {vmulq_f64(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF64 div(NeonF64 a, NeonF64 b) { return {vdivq_f64(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF64 greatest(NeonF64 a, NeonF64 b) { return select(less(b, a), a, b); }
  static MLBRIDGE_INLINE NeonF64 least(NeonF64 a, NeonF64 b) { return select(less(a, b), a, b); }
  static MLBRIDGE_INLINE NeonF64 bitAnd(NeonF64 a, NeonF64 b) { return of(vandq_u64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE NeonF64 bitOr(NeonF64 a, NeonF64 b) { return of(vorrq_u64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE NeonF64 bitXor(NeonF64 a, NeonF64 b) { return of(veorq_u64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE NeonF64 addBits(NeonF64 a, NeonF64 b) { return of(vaddq_u64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE NeonF64 subBits(NeonF64 a, NeonF64 b) { return of(vsubq_u64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Mask less(NeonF64 a, NeonF64 b) { return {vcltq_f64(a.r, b.r)}; }
  static MLBRIDGE_INLINE Mask lessEqual(NeonF64 a, NeonF64 b) { return {vcleq_f64(a.r, b.r)}; }
  static MLBRIDGE_INLINE Mask equal(NeonF64 a, NeonF64 b) { return {vceqq_f64(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF64 fma(NeonF64 a, NeonF64 b, NeonF64 c) { return {vfmaq_f64(c.r, a.r, b.r)}; }
  template <int N> static MLBRIDGE_INLINE NeonF64 shiftLeft(NeonF64 a) { return of(vshlq_n_u64(bits(a), N)); }
  template <int N> static MLBRIDGE_INLINE NeonF64 shiftRight(NeonF64 a) { return of(vshrq_n_u64(bits(a), N)); }
  static MLBRIDGE_INLINE NeonF64 select(Mask m, NeonF64 a, NeonF64 b) { return {vbslq_f64(m.m, a.r, b.r)}; }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) { return {vandq_u64(a.m, b.m)}; }
  static MLBRIDGE_INLINE bool any(Mask m) { return (vgetq_lane_u64(m.m, 0) | vgetq_lane_u64(m.m, 1)) != 0; }
  static MLBRIDGE_INLINE double sum(NeonF64 a) { return vgetq_lane_f64(a.r, 0) + vgetq_lane_f64(a.r, 1); }
};

struct NeonF32 {
  using Element = float;
  using Bits = std::uint32_t;
  static constexpr int Lanes = 4;
  struct Mask {
    uint32x4_t m;
  };
  float32x4_t r;

  static MLBRIDGE_INLINE uint32x4_t bits(NeonF32 a) { return vreinterpretq_u32_f32(a.r); }
  static MLBRIDGE_INLINE NeonF32 of(uint32x4_t a) { return {vreinterpretq_f32_u32(a)}; }
  static MLBRIDGE_INLINE NeonF32 load(const float *p) { return {vld1q_f32(p)}; }
  static MLBRIDGE_INLINE NeonF32 loadPartial(const float *p, int n) {
    float lanes[Lanes] = {};
    for (int i = 0; i < n; ++i)
      lanes[i] = p[i];
    return load(lanes);
  }
  MLBRIDGE_INLINE void store(float *p) const { vst1q_f32(p, r); }
  MLBRIDGE_INLINE void storePartial(float *p, int n) const {
    float lanes[Lanes];
    store(lanes);
    for (int i = 0; i < n; ++i)
      p[i] = lanes[i];
  }
  static MLBRIDGE_INLINE NeonF32 broadcast(float x) { return {vdupq_n_f32(x)}; }
  static MLBRIDGE_INLINE NeonF32 broadcastBits(Bits x) { return of(vdupq_n_u32(x)); }
  static MLBRIDGE_INLINE NeonF32 sqrt(NeonF32 a) { return {vsqrtq_f32(a.r)}; }
  static MLBRIDGE_INLINE NeonF32 floor(NeonF32 a) { return {vrndmq_f32(a.r)}; }
  static MLBRIDGE_INLINE NeonF32 ceil(NeonF32 a) { return {vrndpq_f32(a.r)}; }
  static MLBRIDGE_INLINE NeonF32 round(NeonF32 a) { return {vrndnq_f32(a.r)}; }
  static MLBRIDGE_INLINE NeonF32 add(NeonF32 a, NeonF32 b) { return {vaddq_f32(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF32 sub(NeonF32 a, NeonF32 b) { return {vsubq_f32(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF32 mul(NeonF32 a, NeonF32 b) { return {vmulq_f32(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF32 div(NeonF32 a, NeonF32 b) { return {vdivq_f32(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF32 greatest(NeonF32 a, NeonF32 b) { return select(less(b, a), a, b); }
  static MLBRIDGE_INLINE NeonF32 least(NeonF32 a, NeonF32 b) { return select(less(a, b), a, b); }
  static MLBRIDGE_INLINE NeonF32 bitAnd(NeonF32 a, NeonF32 b) { return of(vandq_u32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE NeonF32 bitOr(NeonF32 a, NeonF32 b) { return of(vorrq_u32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE NeonF32 bitXor(NeonF32 a, NeonF32 b) { return of(veorq_u32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE NeonF32 addBits(NeonF32 a, NeonF32 b) { return of(vaddq_u32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE NeonF32 subBits(NeonF32 a, NeonF32 b) { return of(vsubq_u32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Mask less(NeonF32 a, NeonF32 b) { return {vcltq_f32(a.r, b.r)}; }
  static MLBRIDGE_INLINE Mask lessEqual(NeonF32 a, NeonF32 b) { return {vcleq_f32(a.r, b.r)}; }
  static MLBRIDGE_INLINE Mask equal(NeonF32 a, NeonF32 b) { return {vceqq_f32(a.r, b.r)}; }
  static MLBRIDGE_INLINE NeonF32 fma(NeonF32 a, NeonF32 b, NeonF32 c) { return {vfmaq_f32(c.r, a.r, b.r)}; }
  template <int N> static MLBRIDGE_INLINE NeonF32 shiftLeft(NeonF32 a) { return of(vshlq_n_u32(bits(a), N)); }
  template <int N> static MLBRIDGE_INLINE NeonF32 shiftRight(NeonF32 a) { return of(vshrq_n_u32(bits(a), N)); }
  static MLBRIDGE_INLINE NeonF32 select(Mask m, NeonF32 a, NeonF32 b) { return {vbslq_f32(m.m, a.r, b.r)}; }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) { return {vandq_u32(a.m, b.m)}; }
  static MLBRIDGE_INLINE bool any(Mask m) { return vmaxvq_u32(m.m) != 0; }
  static MLBRIDGE_INLINE float sum(NeonF32 a) {
    const float32x2_t two = vadd_f32(vget_low_f32(a.r), vget_high_f32(a.r));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
};
// clang-format on

MLBRIDGE_INLINE void widen(NeonF32 a, NeonF64 &lo, NeonF64 &hi) {
  lo.r = vcvt_f64_f32(vget_low_f32(a.r));
  hi.r = vcvt_high_f64_f32(a.r);
}
MLBRIDGE_INLINE void narrow(NeonF64 lo, NeonF64 hi, NeonF32 &a) {
  a.r = vcvt_high_f32_f64(vcvt_f32_f64(lo.r), hi.r);
}

template <> inline constexpr InstructionSet SetOf<NeonF32> = InstructionSet::Neon;
template <> inline constexpr InstructionSet SetOf<NeonF64> = InstructionSet::Neon;
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
