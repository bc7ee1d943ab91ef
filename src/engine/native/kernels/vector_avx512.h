// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AVX-512 F, DQ, BW, VL: a vector is a register.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX512_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX512_H

#include "vector.h"

#include <immintrin.h>

namespace mlbridge::native::kernels {

// clang-format off
struct Avx512F64 {
  using Element = double;
  using Bits = std::uint64_t;
  using Mask = __mmask8;
  static constexpr int Lanes = 8;
  __m512d r;

  static MLBRIDGE_INLINE Mask first(int n) { return static_cast<Mask>((1u << n) - 1); }
  static MLBRIDGE_INLINE __m512i bits(Avx512F64 a) { return _mm512_castpd_si512(a.r); }
  static MLBRIDGE_INLINE Avx512F64 of(__m512i a) { return {_mm512_castsi512_pd(a)}; }
  static MLBRIDGE_INLINE Avx512F64 load(const double *p) { return {_mm512_loadu_pd(p)}; }
  static MLBRIDGE_INLINE Avx512F64 loadPartial(const double *p, int n) { return {_mm512_maskz_loadu_pd(first(n), p)}; }
  MLBRIDGE_INLINE void store(double *p) const { _mm512_storeu_pd(p, r); }
  MLBRIDGE_INLINE void storePartial(double *p, int n) const { _mm512_mask_storeu_pd(p, first(n), r); }
  static MLBRIDGE_INLINE Avx512F64 broadcast(double x) { return {_mm512_set1_pd(x)}; }
  static MLBRIDGE_INLINE Avx512F64 broadcastBits(Bits x) { return of(_mm512_set1_epi64(static_cast<long long>(x))); }
  static MLBRIDGE_INLINE Avx512F64 sqrt(Avx512F64 a) { return {_mm512_sqrt_pd(a.r)}; }
  static MLBRIDGE_INLINE Avx512F64 floor(Avx512F64 a) { return {_mm512_roundscale_pd(a.r, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx512F64 ceil(Avx512F64 a) { return {_mm512_roundscale_pd(a.r, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx512F64 round(Avx512F64 a) { return {_mm512_roundscale_pd(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx512F64 add(Avx512F64 a, Avx512F64 b) { return {_mm512_add_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F64 sub(Avx512F64 a, Avx512F64 b) { return {_mm512_sub_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F64 mul(Avx512F64 a, Avx512F64 b) { return {_mm512_mul_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F64 div(Avx512F64 a, Avx512F64 b) { return {_mm512_div_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F64 greatest(Avx512F64 a, Avx512F64 b) { return {_mm512_max_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F64 least(Avx512F64 a, Avx512F64 b) { return {_mm512_min_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F64 bitAnd(Avx512F64 a, Avx512F64 b) { return of(_mm512_and_si512(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx512F64 bitOr(Avx512F64 a, Avx512F64 b) { return of(_mm512_or_si512(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx512F64 bitXor(Avx512F64 a, Avx512F64 b) { return of(_mm512_xor_si512(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx512F64 addBits(Avx512F64 a, Avx512F64 b) { return of(_mm512_add_epi64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx512F64 subBits(Avx512F64 a, Avx512F64 b) { return of(_mm512_sub_epi64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Mask less(Avx512F64 a, Avx512F64 b) { return _mm512_cmp_pd_mask(a.r, b.r, _CMP_LT_OQ); }
  static MLBRIDGE_INLINE Mask lessEqual(Avx512F64 a, Avx512F64 b) { return _mm512_cmp_pd_mask(a.r, b.r, _CMP_LE_OQ); }
  static MLBRIDGE_INLINE Mask equal(Avx512F64 a, Avx512F64 b) { return _mm512_cmp_pd_mask(a.r, b.r, _CMP_EQ_OQ); }
  static MLBRIDGE_INLINE Avx512F64 fma(Avx512F64 a, Avx512F64 b, Avx512F64 c) { return {_mm512_fmadd_pd(a.r, b.r, c.r)}; }
  template <int N> static MLBRIDGE_INLINE Avx512F64 shiftLeft(Avx512F64 a) { return of(_mm512_slli_epi64(bits(a), N)); }
  template <int N> static MLBRIDGE_INLINE Avx512F64 shiftRight(Avx512F64 a) { return of(_mm512_srli_epi64(bits(a), N)); }
  static MLBRIDGE_INLINE Avx512F64 select(Mask m, Avx512F64 a, Avx512F64 b) { return {_mm512_mask_blend_pd(m, b.r, a.r)}; }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  static MLBRIDGE_INLINE bool any(Mask m) { return m != 0; }
  static MLBRIDGE_INLINE double sum(Avx512F64 a) {
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(a.r), _mm512_extractf64x4_pd(a.r, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};

struct Avx512F32 {
  using Element = float;
  using Bits = std::uint32_t;
  using Mask = __mmask16;
  static constexpr int Lanes = 16;
  __m512 r;

  static MLBRIDGE_INLINE Mask first(int n) { return static_cast<Mask>((1u << n) - 1); }
  static MLBRIDGE_INLINE __m512i bits(Avx512F32 a) { return _mm512_castps_si512(a.r); }
  static MLBRIDGE_INLINE Avx512F32 of(__m512i a) { return {_mm512_castsi512_ps(a)}; }
  static MLBRIDGE_INLINE Avx512F32 load(const float *p) { return {_mm512_loadu_ps(p)}; }
  static MLBRIDGE_INLINE Avx512F32 loadPartial(const float *p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
  MLBRIDGE_INLINE void store(float *p) const { _mm512_storeu_ps(p, r); }
  MLBRIDGE_INLINE void storePartial(float *p, int n) const { _mm512_mask_storeu_ps(p, first(n), r); }
  static MLBRIDGE_INLINE Avx512F32 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static MLBRIDGE_INLINE Avx512F32 broadcastBits(Bits x) { return of(_mm512_set1_epi32(static_cast<int>(x))); }
  static MLBRIDGE_INLINE Avx512F32 sqrt(Avx512F32 a) { return {_mm512_sqrt_ps(a.r)}; }
  static MLBRIDGE_INLINE Avx512F32 floor(Avx512F32 a) { return {_mm512_roundscale_ps(a.r, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx512F32 ceil(Avx512F32 a) { return {_mm512_roundscale_ps(a.r, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx512F32 round(Avx512F32 a) { return {_mm512_roundscale_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx512F32 add(Avx512F32 a, Avx512F32 b) { return {_mm512_add_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F32 sub(Avx512F32 a, Avx512F32 b) { return {_mm512_sub_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F32 mul(Avx512F32 a, Avx512F32 b) { return {_mm512_mul_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F32 div(Avx512F32 a, Avx512F32 b) { return {_mm512_div_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F32 greatest(Avx512F32 a, Avx512F32 b) { return {_mm512_max_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F32 least(Avx512F32 a, Avx512F32 b) { return {_mm512_min_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx512F32 bitAnd(Avx512F32 a, Avx512F32 b) { return of(_mm512_and_si512(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx512F32 bitOr(Avx512F32 a, Avx512F32 b) { return of(_mm512_or_si512(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx512F32 bitXor(Avx512F32 a, Avx512F32 b) { return of(_mm512_xor_si512(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx512F32 addBits(Avx512F32 a, Avx512F32 b) { return of(_mm512_add_epi32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx512F32 subBits(Avx512F32 a, Avx512F32 b) { return of(_mm512_sub_epi32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Mask less(Avx512F32 a, Avx512F32 b) { return _mm512_cmp_ps_mask(a.r, b.r, _CMP_LT_OQ); }
  static MLBRIDGE_INLINE Mask lessEqual(Avx512F32 a, Avx512F32 b) { return _mm512_cmp_ps_mask(a.r, b.r, _CMP_LE_OQ); }
  static MLBRIDGE_INLINE Mask equal(Avx512F32 a, Avx512F32 b) { return _mm512_cmp_ps_mask(a.r, b.r, _CMP_EQ_OQ); }
  static MLBRIDGE_INLINE Avx512F32 fma(Avx512F32 a, Avx512F32 b, Avx512F32 c) { return {_mm512_fmadd_ps(a.r, b.r, c.r)}; }
  template <int N> static MLBRIDGE_INLINE Avx512F32 shiftLeft(Avx512F32 a) { return of(_mm512_slli_epi32(bits(a), N)); }
  template <int N> static MLBRIDGE_INLINE Avx512F32 shiftRight(Avx512F32 a) { return of(_mm512_srli_epi32(bits(a), N)); }
  static MLBRIDGE_INLINE Avx512F32 select(Mask m, Avx512F32 a, Avx512F32 b) { return {_mm512_mask_blend_ps(m, b.r, a.r)}; }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  static MLBRIDGE_INLINE bool any(Mask m) { return m != 0; }
  static MLBRIDGE_INLINE float sum(Avx512F32 a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.r), _mm512_extractf32x8_ps(a.r, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};
// clang-format on
template <> inline constexpr int AccumulatorsOf<Avx512F32> = 24;

MLBRIDGE_INLINE void widen(Avx512F32 a, Avx512F64 &lo, Avx512F64 &hi) {
  lo.r = _mm512_cvtps_pd(_mm512_castps512_ps256(a.r));
  hi.r = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.r, 1));
}
MLBRIDGE_INLINE void narrow(Avx512F64 lo, Avx512F64 hi, Avx512F32 &a) {
  a.r = _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(lo.r)), _mm512_cvtpd_ps(hi.r), 1);
}

template <> inline constexpr InstructionSet SetOf<Avx512F32> = InstructionSet::Avx512;
template <> inline constexpr InstructionSet SetOf<Avx512F64> = InstructionSet::Avx512;
template <> struct WideOf<Avx512F32> {
  using Type = Avx512F64;
};

struct Avx512 {
  using F32 = Avx512F32;
  using F64 = Avx512F64;

  static MLBRIDGE_INLINE F32 fromHalf(const std::uint16_t *p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)))};
  }
  static MLBRIDGE_INLINE void toHalf(F32 a, std::uint16_t *p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p),
                        _mm512_cvtps_ph(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

} // namespace mlbridge::native::kernels

#endif
