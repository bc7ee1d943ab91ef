// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AVX2, FMA and F16C: a vector is two registers.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX2_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_AVX2_H

#include "vector.h"

#include <immintrin.h>

namespace mlbridge::native::kernels {

MLBRIDGE_INLINE __m256i firstOf(int n, __m256d) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
MLBRIDGE_INLINE __m256i firstOf(int n, __m256) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
MLBRIDGE_INLINE double sumOf(__m256d a) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
MLBRIDGE_INLINE float sumOf(__m256 a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// clang-format off
#define MLBRIDGE_AVX2(Name, T, M256, p)                                                            \
  struct Name {                                                                                    \
    using Element = T;                                                                             \
    using Native = M256;                                                                           \
    static constexpr InstructionSet Set = InstructionSet::Avx2;                                    \
    static constexpr int NoException = _MM_FROUND_NO_EXC;                                          \
    static MLBRIDGE_INLINE M256 loadPartial(const T *x, int n) { return _mm256_maskload_##p(x, firstOf(n, M256())); }\
    static MLBRIDGE_INLINE void storePartial(T *x, int n, M256 a) { _mm256_maskstore_##p(x, firstOf(n, M256()), a); }\
    static MLBRIDGE_INLINE M256 broadcast(T x) { return _mm256_set1_##p(x); }                      \
    static MLBRIDGE_INLINE M256 sqrt(M256 a) { return _mm256_sqrt_##p(a); }                        \
    static MLBRIDGE_INLINE M256 floor(M256 a) { return _mm256_round_##p(a, _MM_FROUND_TO_NEG_INF | NoException); }\
    static MLBRIDGE_INLINE M256 ceil(M256 a) { return _mm256_round_##p(a, _MM_FROUND_TO_POS_INF | NoException); }\
    static MLBRIDGE_INLINE M256 round(M256 a) { return _mm256_round_##p(a, _MM_FROUND_TO_NEAREST_INT | NoException); }\
    static MLBRIDGE_INLINE M256 greatest(M256 a, M256 b) { return _mm256_max_##p(a, b); }          \
    static MLBRIDGE_INLINE M256 least(M256 a, M256 b) { return _mm256_min_##p(a, b); }             \
    static MLBRIDGE_INLINE M256 fma(M256 a, M256 b, M256 c) { return _mm256_fmadd_##p(a, b, c); }  \
    static MLBRIDGE_INLINE bool any(M256 mask) { return _mm256_movemask_##p(mask) != 0; }          \
    static MLBRIDGE_INLINE T sum(M256 a) { return sumOf(a); }                                      \
  };
MLBRIDGE_AVX2(Avx2Double, double, __m256d, pd)
MLBRIDGE_AVX2(Avx2Float, float, __m256, ps)
#undef MLBRIDGE_AVX2
// clang-format on
using Avx2F64 = Register<Avx2Double>;
using Avx2F32 = Register<Avx2Float>;

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

/// As PortableSums, two sums for each column.
struct Avx2Sums {
  static constexpr int Rows = 3, Panels = 1;
  __m256i r[4];
  MLBRIDGE_INLINE void clear() {
    for (__m256i &sum : r)
      sum = _mm256_setzero_si256();
  }
  MLBRIDGE_INLINE void add(uint32_t four, const int8_t *b) {
    const __m256i a = _mm256_cvtepu8_epi16(_mm_set1_epi32(static_cast<int32_t>(four)));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m128i *bytes = reinterpret_cast<const __m128i *>(b) + i;
      const __m256i products = _mm256_madd_epi16(a, _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes)));
      r[i] = _mm256_add_epi32(r[i], products);
    }
  }
  MLBRIDGE_INLINE void store(int32_t *y) const {
    for (int i = 0; i < 2; ++i)
      _mm256_storeu_si256(
          reinterpret_cast<__m256i *>(y) + i,
          _mm256_permute4x64_epi64(_mm256_hadd_epi32(r[2 * i], r[2 * i + 1]), 0xd8));
  }
};

struct Avx2 {
  using F32 = Pair<Avx2F32>;
  using F64 = Pair<Avx2F64>;
  using Sums = Avx2Sums;

  static MLBRIDGE_INLINE F32 fromHalf(const uint16_t *p) {
    const __m128i *halves = reinterpret_cast<const __m128i *>(p);
    return {{_mm256_cvtph_ps(_mm_loadu_si128(halves))},
            {_mm256_cvtph_ps(_mm_loadu_si128(halves + 1))}};
  }
  static MLBRIDGE_INLINE void toHalf(F32 a, uint16_t *p) {
    __m128i *halves = reinterpret_cast<__m128i *>(p);
    constexpr int Nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm_storeu_si128(halves, _mm256_cvtps_ph(a.lo.r, Nearest));
    _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(a.hi.r, Nearest));
  }
  /// 16 bytes. (Compilers do it by four, which is slow to read again by eight.)
  static MLBRIDGE_INLINE void widen(int32_t *y, const uint8_t *p) {
    for (int i = 0; i < 2; ++i) {
      const __m128i *eight = reinterpret_cast<const __m128i *>(p + 8 * i);
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(y) + i,
                          _mm256_cvtepu8_epi32(_mm_loadl_epi64(eight)));
    }
  }
};

} // namespace mlbridge::native::kernels

#endif
