// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vectors as arrays, for CPUs without fused multiply-add (of which every result is still that of
// one): correct rather than fast.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_PORTABLE_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_PORTABLE_H

#include "movement.h"
#include "vector.h"

namespace mlbridge::native::kernels {

#ifdef __FMA__ // then the compiler knows an instruction
static MLBRIDGE_INLINE float fusedMultiplyAdd(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
#else
/// The product is exact in double. The sum is made odd where it isn't exact, after which rounding
/// it to float is as if rounded once.
static MLBRIDGE_SHARED float fusedMultiplyAdd(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = c;
  const double sum = product + addend;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  uint64_t bits;
  __builtin_memcpy(&bits, &sum, sizeof bits);
  const bool finite = (bits & 0x7ff0000000000000u) != 0x7ff0000000000000u;
  if (finite && error != 0 && (bits & 1) == 0)
    bits += (error > 0) == (sum > 0) ? 1 : ~uint64_t(0);
  double odd;
  __builtin_memcpy(&odd, &bits, sizeof odd);
  return static_cast<float>(odd);
}
#endif
static MLBRIDGE_INLINE double fusedMultiplyAdd(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

template <class T, int N = 64 / sizeof(T)> struct PortableVector {
  using Element = T;
  using Bits = typename BitsOf<T>::Type;
  static constexpr int Lanes = N;
  struct Mask {
    bool m[Lanes];
  };
  T r[Lanes];

  static MLBRIDGE_INLINE Bits bits(T x) {
    Bits b;
    __builtin_memcpy(&b, &x, sizeof b);
    return b;
  }
  static MLBRIDGE_INLINE T fromBits(Bits b) {
    T x;
    __builtin_memcpy(&x, &b, sizeof x);
    return x;
  }

#define MLBRIDGE_LANES(expression)                                                                 \
  PortableVector result;                                                                           \
  for (int i = 0; i < Lanes; ++i)                                                                  \
    result.r[i] = (expression);                                                                    \
  return result;
#define MLBRIDGE_LANES_MASK(expression)                                                            \
  Mask result;                                                                                     \
  for (int i = 0; i < Lanes; ++i)                                                                  \
    result.m[i] = (expression);                                                                    \
  return result;
  // clang-format off
  static MLBRIDGE_INLINE PortableVector load(const T *p) { MLBRIDGE_LANES(p[i]) }
  static MLBRIDGE_INLINE PortableVector loadPartial(const T *p, int n) { MLBRIDGE_LANES(i < n ? p[i] : T(0)) }
  MLBRIDGE_INLINE void store(T *p) const { storePartial(p, Lanes); }
  // clang-format on
  MLBRIDGE_INLINE void storePartial(T *p, int n) const {
    for (int i = 0; i < n; ++i)
      p[i] = r[i];
  }
  static MLBRIDGE_INLINE PortableVector broadcast(T x) { MLBRIDGE_LANES(x) }
  static MLBRIDGE_INLINE PortableVector broadcastBits(Bits x) { MLBRIDGE_LANES(fromBits(x)) }

  static MLBRIDGE_INLINE float rootOf(float x) { return __builtin_sqrtf(x); }
  static MLBRIDGE_INLINE double rootOf(double x) { return __builtin_sqrt(x); }
  /// Rounds to even. Numbers of more than Mantissa bits are whole.
  static MLBRIDGE_INLINE T roundOf(T x) {
    constexpr T Whole = T(Bits(1) << BitsOf<T>::Mantissa);
    const T magnitude = fromBits(bits(x) & ~BitsOf<T>::Sign);
    if (!(magnitude < Whole))
      return x;
    return fromBits(bits(magnitude + Whole - Whole) | (bits(x) & BitsOf<T>::Sign));
  }
  static MLBRIDGE_INLINE T floorOf(T x) {
    const T near = roundOf(x);
    return near > x ? near - 1 : near;
  }
  static MLBRIDGE_INLINE T ceilOf(T x) {
    const T near = roundOf(x);
    // -0.5 goes to -0.
    return near < x ? fromBits(bits(near + 1) | (bits(x) & BitsOf<T>::Sign)) : near;
  }

  // clang-format off
  static MLBRIDGE_INLINE PortableVector sqrt(PortableVector a) { MLBRIDGE_LANES(rootOf(a.r[i])) }
  static MLBRIDGE_INLINE PortableVector floor(PortableVector a) { MLBRIDGE_LANES(floorOf(a.r[i])) }
  static MLBRIDGE_INLINE PortableVector ceil(PortableVector a) { MLBRIDGE_LANES(ceilOf(a.r[i])) }
  static MLBRIDGE_INLINE PortableVector round(PortableVector a) { MLBRIDGE_LANES(roundOf(a.r[i])) }
  static MLBRIDGE_INLINE PortableVector add(PortableVector a, PortableVector b) { MLBRIDGE_LANES(a.r[i] + b.r[i]) }
  static MLBRIDGE_INLINE PortableVector sub(PortableVector a, PortableVector b) { MLBRIDGE_LANES(a.r[i] - b.r[i]) }
  static MLBRIDGE_INLINE PortableVector mul(PortableVector a, PortableVector b) { MLBRIDGE_LANES(a.r[i] * b.r[i]) }
  static MLBRIDGE_INLINE PortableVector div(PortableVector a, PortableVector b) { MLBRIDGE_LANES(a.r[i] / b.r[i]) }
  static MLBRIDGE_INLINE PortableVector greatest(PortableVector a, PortableVector b) { MLBRIDGE_LANES(a.r[i] > b.r[i] ? a.r[i] : b.r[i]) }
  static MLBRIDGE_INLINE PortableVector least(PortableVector a, PortableVector b) { MLBRIDGE_LANES(a.r[i] < b.r[i] ? a.r[i] : b.r[i]) }
  static MLBRIDGE_INLINE PortableVector bitAnd(PortableVector a, PortableVector b) { MLBRIDGE_LANES(fromBits(bits(a.r[i]) & bits(b.r[i]))) }
  static MLBRIDGE_INLINE PortableVector bitOr(PortableVector a, PortableVector b) { MLBRIDGE_LANES(fromBits(bits(a.r[i]) | bits(b.r[i]))) }
  static MLBRIDGE_INLINE PortableVector bitXor(PortableVector a, PortableVector b) { MLBRIDGE_LANES(fromBits(bits(a.r[i]) ^ bits(b.r[i]))) }
  static MLBRIDGE_INLINE PortableVector addBits(PortableVector a, PortableVector b) { MLBRIDGE_LANES(fromBits(bits(a.r[i]) + bits(b.r[i]))) }
  static MLBRIDGE_INLINE PortableVector subBits(PortableVector a, PortableVector b) { MLBRIDGE_LANES(fromBits(bits(a.r[i]) - bits(b.r[i]))) }
  static MLBRIDGE_INLINE Mask less(PortableVector a, PortableVector b) { MLBRIDGE_LANES_MASK(a.r[i] < b.r[i]) }
  static MLBRIDGE_INLINE Mask lessEqual(PortableVector a, PortableVector b) { MLBRIDGE_LANES_MASK(a.r[i] <= b.r[i]) }
  static MLBRIDGE_INLINE Mask equal(PortableVector a, PortableVector b) { MLBRIDGE_LANES_MASK(a.r[i] == b.r[i]) }
  static MLBRIDGE_INLINE PortableVector fma(PortableVector a, PortableVector b, PortableVector c) { MLBRIDGE_LANES(fusedMultiplyAdd(a.r[i], b.r[i], c.r[i])) }
  template <int By> static MLBRIDGE_INLINE PortableVector shiftLeft(PortableVector a) { MLBRIDGE_LANES(fromBits(bits(a.r[i]) << By)) }
  template <int By> static MLBRIDGE_INLINE PortableVector shiftRight(PortableVector a) { MLBRIDGE_LANES(fromBits(bits(a.r[i]) >> By)) }
  static MLBRIDGE_INLINE PortableVector select(Mask m, PortableVector a, PortableVector b) { MLBRIDGE_LANES(m.m[i] ? a.r[i] : b.r[i]) }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) { MLBRIDGE_LANES_MASK(a.m[i] & b.m[i]) }
  // clang-format on
#undef MLBRIDGE_LANES
#undef MLBRIDGE_LANES_MASK
  static MLBRIDGE_INLINE bool any(Mask m) {
    bool result = false;
    for (int i = 0; i < Lanes; ++i)
      result |= m.m[i];
    return result;
  }
  static MLBRIDGE_INLINE T sum(PortableVector a) {
    for (int half = Lanes / 2; half; half /= 2)
      for (int i = 0; i < half; ++i)
        a.r[i] += a.r[i + half];
    return a.r[0];
  }
};

template <int N>
MLBRIDGE_INLINE void widen(PortableVector<float, N> a, PortableVector<double, N> &lo,
                           PortableVector<double, N> &hi) {
  static_assert(N == 1);
  lo.r[0] = a.r[0];
  hi.r[0] = 0;
}
template <int N>
MLBRIDGE_INLINE void narrow(PortableVector<double, N> lo, PortableVector<double, N>,
                            PortableVector<float, N> &a) {
  a.r[0] = static_cast<float>(lo.r[0]);
}
template <> struct WideOf<PortableVector<float, 1>> {
  using Type = PortableVector<double, 1>;
};
template <class T, int N> inline constexpr bool IsArray<PortableVector<T, N>> = true;
/// Lanes of an array are computed one after the other.
template <class T, int N> struct LanesOf<PortableVector<T, N>> {
  using Type = PortableVector<T, 1>;
};

struct Portable {
  using F32 = PortableVector<float>;
  using F64 = PortableVector<double>;
  using Sums = PortableSums;

  static MLBRIDGE_INLINE F32 fromHalf(const uint16_t *p) {
    F32 result;
    for (int i = 0; i < 16; ++i)
      result.r[i] = kernels::widen(Half16{p[i]});
    return result;
  }
  static MLBRIDGE_INLINE void toHalf(F32 a, uint16_t *p) {
    for (int i = 0; i < 16; ++i)
      p[i] = kernels::narrow(static_cast<double>(a.r[i])).bits;
  }
  static MLBRIDGE_INLINE void widen(int32_t *y, const uint8_t *p) {
    for (int i = 0; i < 16; ++i)
      y[i] = p[i];
  }
};

} // namespace mlbridge::native::kernels

#endif
