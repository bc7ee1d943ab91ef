// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AVX2, FMA and F16C: a vector is two registers.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX2_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX2_H

#include "vector.h"

#include <immintrin.h>

namespace mlbridge::native::kernels {

// clang-format off
struct Avx2Double {
  using Element = double;
  using Native = __m256d;
  static constexpr InstructionSet Set = InstructionSet::Avx2;
  static MLBRIDGE_INLINE __m256i first(int n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
  static MLBRIDGE_INLINE Native loadPartial(const double *p, int n) { return _mm256_maskload_pd(p, first(n)); }
  static MLBRIDGE_INLINE void storePartial(double *p, int n, Native a) { _mm256_maskstore_pd(p, first(n), a); }
  static MLBRIDGE_INLINE Native broadcast(double x) { return _mm256_set1_pd(x); }
  static MLBRIDGE_INLINE Native sqrt(Native a) { return _mm256_sqrt_pd(a); }
  static MLBRIDGE_INLINE Native floor(Native a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native ceil(Native a) { return _mm256_round_pd(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native round(Native a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native greatest(Native a, Native b) { return _mm256_max_pd(a, b); }
  static MLBRIDGE_INLINE Native least(Native a, Native b) { return _mm256_min_pd(a, b); }
  static MLBRIDGE_INLINE Native fma(Native a, Native b, Native c) { return _mm256_fmadd_pd(a, b, c); }
  static MLBRIDGE_INLINE bool any(Native mask) { return _mm256_movemask_pd(mask) != 0; }
  static MLBRIDGE_INLINE double sum(Native a) {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};
using Avx2F64 = Register<Avx2Double>;

struct Avx2Float {
  using Element = float;
  using Native = __m256;
  static constexpr InstructionSet Set = InstructionSet::Avx2;
  static MLBRIDGE_INLINE __m256i first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
  static MLBRIDGE_INLINE Native loadPartial(const float *p, int n) { return _mm256_maskload_ps(p, first(n)); }
  static MLBRIDGE_INLINE void storePartial(float *p, int n, Native a) { _mm256_maskstore_ps(p, first(n), a); }
  static MLBRIDGE_INLINE Native broadcast(float x) { return _mm256_set1_ps(x); }
  static MLBRIDGE_INLINE Native sqrt(Native a) { return _mm256_sqrt_ps(a); }
  static MLBRIDGE_INLINE Native floor(Native a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native ceil(Native a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native round(Native a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native greatest(Native a, Native b) { return _mm256_max_ps(a, b); }
  static MLBRIDGE_INLINE Native least(Native a, Native b) { return _mm256_min_ps(a, b); }
  static MLBRIDGE_INLINE Native fma(Native a, Native b, Native c) { return _mm256_fmadd_ps(a, b, c); }
  static MLBRIDGE_INLINE bool any(Native mask) { return _mm256_movemask_ps(mask) != 0; }
  static MLBRIDGE_INLINE float sum(Native a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};
using Avx2F32 = Register<Avx2Float>;
// clang-format on

MLBRIDGE_INLINE void widen(Avx2F32 a, Avx2F64 &lo, Avx2F64 &hi) {
  lo.r = _mm256_cvtps_pd(_mm256_castps256_ps128(a.r));
  hi.r = _mm256_cvtps_pd(_mm256_extractf128_ps(a.r, 1));
}
MLBRIDGE_INLINE void narrow(Avx2F64 lo, Avx2F64 hi, Avx2F32 &a) {
  a.r =
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(lo.r)), _mm256_cvtpd_ps(hi.r), 1);
}

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
