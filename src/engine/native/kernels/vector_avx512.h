// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AVX-512 F, DQ, BW, VL: a vector is a register.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX512_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX512_H

#include "vector.h"

#include <immintrin.h>

namespace mlbridge::native::kernels {

// clang-format off
struct Avx512Double {
  using Element = double;
  using Native = __m512d;
  static constexpr InstructionSet Set = InstructionSet::Avx512;
  static MLBRIDGE_INLINE __mmask8 first(int n) { return static_cast<__mmask8>((1u << n) - 1); }
  static MLBRIDGE_INLINE Native loadPartial(const double *p, int n) { return _mm512_maskz_loadu_pd(first(n), p); }
  static MLBRIDGE_INLINE void storePartial(double *p, int n, Native a) { _mm512_mask_storeu_pd(p, first(n), a); }
  static MLBRIDGE_INLINE Native broadcast(double x) { return _mm512_set1_pd(x); }
  static MLBRIDGE_INLINE Native sqrt(Native a) { return _mm512_sqrt_pd(a); }
  static MLBRIDGE_INLINE Native floor(Native a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native ceil(Native a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native round(Native a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native greatest(Native a, Native b) { return _mm512_max_pd(a, b); }
  static MLBRIDGE_INLINE Native least(Native a, Native b) { return _mm512_min_pd(a, b); }
  static MLBRIDGE_INLINE Native fma(Native a, Native b, Native c) { return _mm512_fmadd_pd(a, b, c); }
  static MLBRIDGE_INLINE bool any(Native mask) { return _mm512_movepi64_mask(_mm512_castpd_si512(mask)) != 0; }
  static MLBRIDGE_INLINE double sum(Native a) {
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};
using Avx512F64 = Register<Avx512Double>;

struct Avx512Float {
  using Element = float;
  using Native = __m512;
  static constexpr InstructionSet Set = InstructionSet::Avx512;
  static MLBRIDGE_INLINE __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1); }
  static MLBRIDGE_INLINE Native loadPartial(const float *p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static MLBRIDGE_INLINE void storePartial(float *p, int n, Native a) { _mm512_mask_storeu_ps(p, first(n), a); }
  static MLBRIDGE_INLINE Native broadcast(float x) { return _mm512_set1_ps(x); }
  static MLBRIDGE_INLINE Native sqrt(Native a) { return _mm512_sqrt_ps(a); }
  static MLBRIDGE_INLINE Native floor(Native a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native ceil(Native a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native round(Native a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static MLBRIDGE_INLINE Native greatest(Native a, Native b) { return _mm512_max_ps(a, b); }
  static MLBRIDGE_INLINE Native least(Native a, Native b) { return _mm512_min_ps(a, b); }
  static MLBRIDGE_INLINE Native fma(Native a, Native b, Native c) { return _mm512_fmadd_ps(a, b, c); }
  static MLBRIDGE_INLINE bool any(Native mask) { return _mm512_movepi32_mask(_mm512_castps_si512(mask)) != 0; }
  static MLBRIDGE_INLINE float sum(Native a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};
using Avx512F32 = Register<Avx512Float>;
// clang-format on
template <> inline constexpr int AccumulatorsOf<Avx512F32> = 24;

MLBRIDGE_INLINE void widen(Avx512F32 a, Avx512F64 &lo, Avx512F64 &hi) {
  lo.r = _mm512_cvtps_pd(_mm512_castps512_ps256(a.r));
  hi.r = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.r, 1));
}
MLBRIDGE_INLINE void narrow(Avx512F64 lo, Avx512F64 hi, Avx512F32 &a) {
  a.r = _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(lo.r)), _mm512_cvtpd_ps(hi.r), 1);
}

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
