// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AVX2, FMA and F16C: a vector is two registers.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX2_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX2_H

#include "vector.h"

#include <immintrin.h>

namespace mlbridge::native::kernels {

// clang-format off
struct Avx2F64 {
  using Element = double;
  using Bits = std::uint64_t;
  static constexpr int Lanes = 4;
  struct Mask {
    __m256d m;
  };
  __m256d r;

  static MLBRIDGE_INLINE __m256i bits(Avx2F64 a) { return _mm256_castpd_si256(a.r); }
  static MLBRIDGE_INLINE Avx2F64 of(__m256i a) { return {_mm256_castsi256_pd(a)}; }
  static MLBRIDGE_INLINE __m256i first(int n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
  static MLBRIDGE_INLINE Avx2F64 load(const double *p) { return {_mm256_loadu_pd(p)}; }
  static MLBRIDGE_INLINE Avx2F64 loadPartial(const double *p, int n) { return {_mm256_maskload_pd(p, first(n))}; }
  MLBRIDGE_INLINE void store(double *p) const { _mm256_storeu_pd(p, r); }
  MLBRIDGE_INLINE void storePartial(double *p, int n) const { _mm256_maskstore_pd(p, first(n), r); }
  static MLBRIDGE_INLINE Avx2F64 broadcast(double x) { return {_mm256_set1_pd(x)}; }
  static MLBRIDGE_INLINE Avx2F64 broadcastBits(Bits x) { return of(_mm256_set1_epi64x(static_cast<long long>(x))); }
  static MLBRIDGE_INLINE Avx2F64 sqrt(Avx2F64 a) { return {_mm256_sqrt_pd(a.r)}; }
  static MLBRIDGE_INLINE Avx2F64 floor(Avx2F64 a) { return {_mm256_round_pd(a.r, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx2F64 ceil(Avx2F64 a) { return {_mm256_round_pd(a.r, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx2F64 round(Avx2F64 a) { return {_mm256_round_pd(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx2F64 add(Avx2F64 a, Avx2F64 b) { return {_mm256_add_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 sub(Avx2F64 a, Avx2F64 b) { return {_mm256_sub_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 mul(Avx2F64 a, Avx2F64 b) { return {_mm256_mul_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 div(Avx2F64 a, Avx2F64 b) { return {_mm256_div_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 greatest(Avx2F64 a, Avx2F64 b) { return {_mm256_max_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 least(Avx2F64 a, Avx2F64 b) { return {_mm256_min_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 bitAnd(Avx2F64 a, Avx2F64 b) { return {_mm256_and_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 bitOr(Avx2F64 a, Avx2F64 b) { return {_mm256_or_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 bitXor(Avx2F64 a, Avx2F64 b) { return {_mm256_xor_pd(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F64 addBits(Avx2F64 a, Avx2F64 b) { return of(_mm256_add_epi64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx2F64 subBits(Avx2F64 a, Avx2F64 b) { return of(_mm256_sub_epi64(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Mask less(Avx2F64 a, Avx2F64 b) { return {_mm256_cmp_pd(a.r, b.r, _CMP_LT_OQ)}; }
  static MLBRIDGE_INLINE Mask lessEqual(Avx2F64 a, Avx2F64 b) { return {_mm256_cmp_pd(a.r, b.r, _CMP_LE_OQ)}; }
  static MLBRIDGE_INLINE Mask equal(Avx2F64 a, Avx2F64 b) { return {_mm256_cmp_pd(a.r, b.r, _CMP_EQ_OQ)}; }
  static MLBRIDGE_INLINE Avx2F64 fma(Avx2F64 a, Avx2F64 b, Avx2F64 c) { return {_mm256_fmadd_pd(a.r, b.r, c.r)}; }
  template <int N> static MLBRIDGE_INLINE Avx2F64 shiftLeft(Avx2F64 a) { return of(_mm256_slli_epi64(bits(a), N)); }
  template <int N> static MLBRIDGE_INLINE Avx2F64 shiftRight(Avx2F64 a) { return of(_mm256_srli_epi64(bits(a), N)); }
  static MLBRIDGE_INLINE Avx2F64 select(Mask m, Avx2F64 a, Avx2F64 b) { return {_mm256_blendv_pd(b.r, a.r, m.m)}; }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) { return {_mm256_and_pd(a.m, b.m)}; }
  static MLBRIDGE_INLINE bool any(Mask m) { return _mm256_movemask_pd(m.m) != 0; }
  static MLBRIDGE_INLINE double sum(Avx2F64 a) {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a.r), _mm256_extractf128_pd(a.r, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};

struct Avx2F32 {
  using Element = float;
  using Bits = std::uint32_t;
  static constexpr int Lanes = 8;
  struct Mask {
    __m256 m;
  };
  __m256 r;

  static MLBRIDGE_INLINE __m256i bits(Avx2F32 a) { return _mm256_castps_si256(a.r); }
  static MLBRIDGE_INLINE Avx2F32 of(__m256i a) { return {_mm256_castsi256_ps(a)}; }
  static MLBRIDGE_INLINE __m256i first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
  static MLBRIDGE_INLINE Avx2F32 load(const float *p) { return {_mm256_loadu_ps(p)}; }
  static MLBRIDGE_INLINE Avx2F32 loadPartial(const float *p, int n) { return {_mm256_maskload_ps(p, first(n))}; }
  MLBRIDGE_INLINE void store(float *p) const { _mm256_storeu_ps(p, r); }
  MLBRIDGE_INLINE void storePartial(float *p, int n) const { _mm256_maskstore_ps(p, first(n), r); }
  static MLBRIDGE_INLINE Avx2F32 broadcast(float x) { return {_mm256_set1_ps(x)}; }
  static MLBRIDGE_INLINE Avx2F32 broadcastBits(Bits x) { return of(_mm256_set1_epi32(static_cast<int>(x))); }
  static MLBRIDGE_INLINE Avx2F32 sqrt(Avx2F32 a) { return {_mm256_sqrt_ps(a.r)}; }
  static MLBRIDGE_INLINE Avx2F32 floor(Avx2F32 a) { return {_mm256_round_ps(a.r, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx2F32 ceil(Avx2F32 a) { return {_mm256_round_ps(a.r, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx2F32 round(Avx2F32 a) { return {_mm256_round_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static MLBRIDGE_INLINE Avx2F32 add(Avx2F32 a, Avx2F32 b) { return {_mm256_add_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 sub(Avx2F32 a, Avx2F32 b) { return {_mm256_sub_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 mul(Avx2F32 a, Avx2F32 b) { return {_mm256_mul_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 div(Avx2F32 a, Avx2F32 b) { return {_mm256_div_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 greatest(Avx2F32 a, Avx2F32 b) { return {_mm256_max_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 least(Avx2F32 a, Avx2F32 b) { return {_mm256_min_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 bitAnd(Avx2F32 a, Avx2F32 b) { return {_mm256_and_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 bitOr(Avx2F32 a, Avx2F32 b) { return {_mm256_or_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 bitXor(Avx2F32 a, Avx2F32 b) { return {_mm256_xor_ps(a.r, b.r)}; }
  static MLBRIDGE_INLINE Avx2F32 addBits(Avx2F32 a, Avx2F32 b) { return of(_mm256_add_epi32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Avx2F32 subBits(Avx2F32 a, Avx2F32 b) { return of(_mm256_sub_epi32(bits(a), bits(b))); }
  static MLBRIDGE_INLINE Mask less(Avx2F32 a, Avx2F32 b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_LT_OQ)}; }
  static MLBRIDGE_INLINE Mask lessEqual(Avx2F32 a, Avx2F32 b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_LE_OQ)}; }
  static MLBRIDGE_INLINE Mask equal(Avx2F32 a, Avx2F32 b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_EQ_OQ)}; }
  static MLBRIDGE_INLINE Avx2F32 fma(Avx2F32 a, Avx2F32 b, Avx2F32 c) { return {_mm256_fmadd_ps(a.r, b.r, c.r)}; }
  template <int N> static MLBRIDGE_INLINE Avx2F32 shiftLeft(Avx2F32 a) { return of(_mm256_slli_epi32(bits(a), N)); }
  template <int N> static MLBRIDGE_INLINE Avx2F32 shiftRight(Avx2F32 a) { return of(_mm256_srli_epi32(bits(a), N)); }
  static MLBRIDGE_INLINE Avx2F32 select(Mask m, Avx2F32 a, Avx2F32 b) { return {_mm256_blendv_ps(b.r, a.r, m.m)}; }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) { return {_mm256_and_ps(a.m, b.m)}; }
  static MLBRIDGE_INLINE bool any(Mask m) { return _mm256_movemask_ps(m.m) != 0; }
  static MLBRIDGE_INLINE float sum(Avx2F32 a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.r), _mm256_extractf128_ps(a.r, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};
// clang-format on

MLBRIDGE_INLINE void widen(Avx2F32 a, Avx2F64 &lo, Avx2F64 &hi) {
  lo.r = _mm256_cvtps_pd(_mm256_castps256_ps128(a.r));
  hi.r = _mm256_cvtps_pd(_mm256_extractf128_ps(a.r, 1));
}
MLBRIDGE_INLINE void narrow(Avx2F64 lo, Avx2F64 hi, Avx2F32 &a) {
  a.r =
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(lo.r)), _mm256_cvtpd_ps(hi.r), 1);
}

template <> inline constexpr InstructionSet SetOf<Avx2F32> = InstructionSet::Avx2;
template <> inline constexpr InstructionSet SetOf<Avx2F64> = InstructionSet::Avx2;
template <> struct WideOf<Avx2F32> {
  using Type = Avx2F64;
};

struct Avx2 {
  using F32 = Pair<Avx2F32>;
  using F64 = Pair<Avx2F64>;

  static MLBRIDGE_INLINE F32 fromHalf(const std::uint16_t *p) {
    const __m128i *halves = reinterpret_cast<const __m128i *>(p);
    return {{_mm256_cvtph_ps(_mm_loadu_si128(halves))},
            {_mm256_cvtph_ps(_mm_loadu_si128(halves + 1))}};
  }
  static MLBRIDGE_INLINE void toHalf(F32 a, std::uint16_t *p) {
    __m128i *halves = reinterpret_cast<__m128i *>(p);
    constexpr int Nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm_storeu_si128(halves, _mm256_cvtps_ph(a.lo.r, Nearest));
    _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(a.hi.r, Nearest));
  }
};

} // namespace mlbridge::native::kernels

#endif
