// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AVX-512 F, DQ, BW, VL: a vector is a register.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX512_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX512_H

#include "vector.h"

#include <immintrin.h>

namespace mlbridge::native::kernels {

MLBRIDGE_INLINE bool anyOf(__m512d mask) {
  return _mm512_movepi64_mask(_mm512_castpd_si512(mask)) != 0;
}
MLBRIDGE_INLINE bool anyOf(__m512 mask) {
  return _mm512_movepi32_mask(_mm512_castps_si512(mask)) != 0;
}
MLBRIDGE_INLINE double sumOf(__m512d a) {
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
MLBRIDGE_INLINE float sumOf(__m512 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// clang-format off
#define MLBRIDGE_AVX512(Name, T, M512, p, Mask)                                                    \
  struct Name {                                                                                    \
    using Element = T;                                                                             \
    using Native = M512;                                                                           \
    static constexpr InstructionSet Set = InstructionSet::Avx512;                                  \
    static constexpr int NoException = _MM_FROUND_NO_EXC;                                          \
    static MLBRIDGE_INLINE Mask first(int n) { return static_cast<Mask>((1u << n) - 1); }          \
    static MLBRIDGE_INLINE M512 loadPartial(const T *x, int n) { return _mm512_maskz_loadu_##p(first(n), x); }\
    static MLBRIDGE_INLINE void storePartial(T *x, int n, M512 a) { _mm512_mask_storeu_##p(x, first(n), a); }\
    static MLBRIDGE_INLINE M512 broadcast(T x) { return _mm512_set1_##p(x); }                      \
    static MLBRIDGE_INLINE M512 sqrt(M512 a) { return _mm512_sqrt_##p(a); }                        \
    static MLBRIDGE_INLINE M512 floor(M512 a) { return _mm512_roundscale_##p(a, _MM_FROUND_TO_NEG_INF | NoException); }\
    static MLBRIDGE_INLINE M512 ceil(M512 a) { return _mm512_roundscale_##p(a, _MM_FROUND_TO_POS_INF | NoException); }\
    static MLBRIDGE_INLINE M512 round(M512 a) { return _mm512_roundscale_##p(a, _MM_FROUND_TO_NEAREST_INT | NoException); }\
    static MLBRIDGE_INLINE M512 greatest(M512 a, M512 b) { return _mm512_max_##p(a, b); }          \
    static MLBRIDGE_INLINE M512 least(M512 a, M512 b) { return _mm512_min_##p(a, b); }             \
    static MLBRIDGE_INLINE M512 fma(M512 a, M512 b, M512 c) { return _mm512_fmadd_##p(a, b, c); }  \
    static MLBRIDGE_INLINE M512 scale(M512 a, M512 n) { return _mm512_scalef_##p(a, n); }          \
    static MLBRIDGE_INLINE bool any(M512 mask) { return anyOf(mask); }                             \
    static MLBRIDGE_INLINE T sum(M512 a) { return sumOf(a); }                                      \
  };
MLBRIDGE_AVX512(Avx512Double, double, __m512d, pd, __mmask8)
MLBRIDGE_AVX512(Avx512Float, float, __m512, ps, __mmask16)
#undef MLBRIDGE_AVX512
// clang-format on
using Avx512F64 = Register<Avx512Double>;
using Avx512F32 = Register<Avx512Float>;
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

/// As PortableSums, two sums for each column.
struct Avx512Sums {
  static constexpr int Rows = 4, Panels = 2;
  __m512i r[2];
  MLBRIDGE_INLINE void clear() { r[0] = r[1] = _mm512_setzero_si512(); }
  MLBRIDGE_INLINE void add(uint32_t four, const int8_t *b) {
    const __m512i a = _mm512_cvtepu8_epi16(_mm256_set1_epi32(static_cast<int32_t>(four)));
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const __m256i *bytes = reinterpret_cast<const __m256i *>(b) + i;
      const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(bytes));
      r[i] = _mm512_add_epi32(r[i], _mm512_madd_epi16(a, wide));
    }
  }
  MLBRIDGE_INLINE void store(int32_t *y) const {
    for (int i = 0; i < 2; ++i) {
      const __m512i both = _mm512_add_epi32(r[i], _mm512_srli_epi64(r[i], 32));
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(y) + i, _mm512_cvtepi64_epi32(both));
    }
  }
};

struct Avx512 {
  using F32 = Avx512F32;
  using F64 = Avx512F64;
  using Sums = Avx512Sums;

  static MLBRIDGE_INLINE F32 fromHalf(const uint16_t *p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)))};
  }
  static MLBRIDGE_INLINE void toHalf(F32 a, uint16_t *p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p),
                        _mm512_cvtps_ph(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static MLBRIDGE_INLINE void widen(int32_t *y, const uint8_t *p) {
    _mm512_storeu_si512(
        y, _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
  }
};

} // namespace mlbridge::native::kernels

#endif
