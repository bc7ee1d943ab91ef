// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementary functions over vectors: the same bits on every CPU. exp, tanh, sigmoid, erf, Gelu,
// asin and acos of float are made for speed; the rest of float is computed in double and rounded
// once. The polynomials are interpolations at Chebyshev nodes; accuracy_test.cpp states and checks
// the bounds of the errors.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_MATH_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_MATH_H

#include "vector.h"

namespace mlbridge::native::kernels {

template <class V> MLBRIDGE_INLINE V constant(double x) {
  return V::broadcast(static_cast<ElementOf<V>>(x));
}
template <class V> MLBRIDGE_INLINE V bitsOf(typename V::Bits x) { return V::broadcastBits(x); }
template <class V> MLBRIDGE_INLINE V infinity() { return constant<V>(__builtin_inf()); }
template <class V> MLBRIDGE_INLINE V notANumber() { return constant<V>(__builtin_nan("")); }

/// c[0] + c[1] x + ...
template <class V, int N> MLBRIDGE_INLINE V polynomial(V x, const double (&c)[N]) {
  V sum = constant<V>(c[N - 1]);
  if constexpr (IsArray<V>) {
    for (int i = N - 2; i >= 0; --i)
      sum = V::fma(sum, x, constant<V>(c[i]));
  } else {
#pragma GCC unroll 32 // in cold code as well, which would convert each coefficient
    for (int i = N - 2; i >= 0; --i)
      sum = V::fma(sum, x, constant<V>(c[i]));
  }
  return sum;
}

/// 2 to the whole number n, which is within the exponents of normal numbers.
template <class V> MLBRIDGE_INLINE V powerOfTwo(V n) {
  using B = BitsOf<ElementOf<V>>;
  return V::template shiftLeft<B::Mantissa>(n + constant<V>(double(B::Rounder) + B::Bias));
}

/// p times 2 to the whole number n, rounded once: in two factors, since the result may be
/// subnormal, or n one more than the greatest exponent; unless it is normal or infinite.
template <bool IsNormal = false, class V> MLBRIDGE_INLINE V scaled(V p, V n) {
  if constexpr (SetOf<V> == InstructionSet::Avx512) {
    return V::scale(p, n);
  } else if constexpr (IsNormal) {
    return p * powerOfTwo(n);
  } else {
    const V rounder = constant<V>(BitsOf<ElementOf<V>>::Rounder);
    const V half = V::fma(n, constant<V>(0.5), rounder) - rounder;
    return p * powerOfTwo(half) * powerOfTwo(n - half);
  }
}

// ---- exp ----------------------------------------------------------------------------------------

template <class Element> struct ExpConstants;
template <> struct ExpConstants<float> {
  static constexpr double Least = -105, Greatest = 89;
  static constexpr double Ln2Hi = 0x1.62e4p-1, Ln2Lo = 0x1.7f7d1cp-20;
  static constexpr double P[] = {
      0x1.000p-1,           0x1.5555560000000p-3,  0x1.5554ea0000000p-5,
      0x1.1110e00000000p-7, 0x1.6d43240000000p-10, 0x1.a124f20000000p-13};
};
template <> struct ExpConstants<double> {
  static constexpr double Least = -746, Greatest = 710;
  static constexpr double Ln2Hi = 0x1.62e42fefa3p-1, Ln2Lo = 0x1.3de6af278ece6p-42;
  static constexpr double P[] = {0.5,
                                 0x1.5555555555556p-3,
                                 0x1.5555555553d63p-5,
                                 0x1.11111111109b3p-7,
                                 0x1.6c16c1788bd90p-10,
                                 0x1.a01a01a7c41d5p-13,
                                 0x1.a019b90d2ae7ap-16,
                                 0x1.71de0dae63bb3p-19,
                                 0x1.289185613a3d6p-22,
                                 0x1.af38a9b0ec855p-26};
};

/// exp(x) - 1 = 2^n (1 + q) - 1 with |q| < 0.42. x is within Least and Greatest, or NaN.
template <class V> MLBRIDGE_INLINE V reduceExp(V x, V &n) {
  using C = ExpConstants<ElementOf<V>>;
  const V rounder = constant<V>(BitsOf<ElementOf<V>>::Rounder);
  n = V::fma(x, constant<V>(0x1.71547652b82fep+0), rounder) - rounder;
  V r = V::fma(n, constant<V>(-C::Ln2Hi), x);
  r = V::fma(n, constant<V>(-C::Ln2Lo), r);
  return V::fma(r * r, polynomial(r, C::P), r);
}

/// exp(x + rest), where rest is far smaller than x.
template <class V> MLBRIDGE_INLINE V exp(V x, V rest) {
  using C = ExpConstants<ElementOf<V>>;
  // The bound comes first, so that NaN passes.
  const V bounded = V::least(constant<V>(C::Greatest), V::greatest(constant<V>(C::Least), x));
  V n;
  const V q = reduceExp(bounded, n);
  return scaled(V::fma(q, rest, q + rest) + constant<V>(1), n);
}
template <class V> MLBRIDGE_INLINE V expInline(V x) {
  using C = ExpConstants<ElementOf<V>>;
  const V bounded = V::least(constant<V>(C::Greatest), V::greatest(constant<V>(C::Least), x));
  V n;
  const V p = reduceExp(bounded, n) + constant<V>(1);
  return scaled(p, n);
}

template <class V> MLBRIDGE_RARE V expShared(V x) { return expInline(x); }
template <class V> MLBRIDGE_INLINE V exp(V x) {
  if constexpr (sizeof(ElementOf<V>) == 4 && !IsArray<V>)
    return expInline(x);
  else
    return expShared(x);
}

/// exp(x) of x that is not positive, or infinite: 0 where it would not be a normal number, since
/// processors are slow with those.
template <class V> MLBRIDGE_INLINE V expOfNegative(V x) {
  constexpr bool IsFloat = sizeof(ElementOf<V>) == 4;
  const V least = constant<V>(IsFloat ? -87 : -708);
  // The power of the upper bound is infinity. The bounds come first, so that NaN passes.
  const V bounded = V::least(constant<V>(IsFloat ? 89 : 710), V::greatest(least, x));
  V n;
  const V p = reduceExp(bounded, n) + constant<V>(1);
  return V::select(V::less(x, least), V::broadcast(0), scaled<true>(p, n));
}

/// exp(x) - 1, accurate near 0.
template <class V> MLBRIDGE_SHARED V expm1(V x) {
  using E = ElementOf<V>;
  // Beyond these bounds the result is -1, or exp.
  constexpr double Least = sizeof(E) == 4 ? -20 : -40, Greatest = sizeof(E) == 4 ? 88 : 709;
  const V bounded = V::least(constant<V>(Greatest), V::greatest(constant<V>(Least), x));
  V n;
  const V q = reduceExp(bounded, n);
  // 2^n is split, since n may be one more than the greatest exponent; exact.
  const V one = constant<V>(1);
  const V scale = powerOfTwo(n - one);
  const V half = V::fma(scale, q, scale - constant<V>(0.5));
  const V result = half + half;
  // Keeps -0, and what is too large.
  return V::select(V::equal(x, constant<V>(0)), x,
                   V::select(V::less(constant<V>(Greatest), x), exp(x), result));
}

// ---- tanh, sigmoid ------------------------------------------------------------------------------

template <class V> MLBRIDGE_INLINE V tanhInline(V x) {
  constexpr double Greatest = sizeof(ElementOf<V>) == 4 ? 20 : 40;
  const V a = absolute(x);
  V n;
  const V q = reduceExp(V::least(constant<V>(Greatest), a + a), n);
  const V scale = powerOfTwo(n);
  const V e = V::fma(scale, q, scale - constant<V>(1)); // exp(2a) - 1
  return withSign(e / (e + constant<V>(2)), x);
}

template <class V> MLBRIDGE_INLINE V sigmoidInline(V x) {
  const V e = exp(negate(absolute(x)));
  const V one = constant<V>(1);
  const V s = one / (one + e);
  return V::select(V::less(x, constant<V>(0)), e * s, s);
}

template <class V> MLBRIDGE_RARE V tanhShared(V x) { return tanhInline(x); }
template <class V> MLBRIDGE_RARE V sigmoidShared(V x) { return sigmoidInline(x); }
template <class V> MLBRIDGE_INLINE V tanh(V x) {
  if constexpr (IsArray<V>)
    return tanhShared(x);
  else
    return tanhInline(x);
}
template <class V> MLBRIDGE_INLINE V sigmoid(V x) {
  if constexpr (IsArray<V>)
    return sigmoidShared(x);
  else
    return sigmoidInline(x);
}

// ---- log ----------------------------------------------------------------------------------------

/// log(x) = hi + lo for x > 0, finite. For double alone.
template <class V> MLBRIDGE_INLINE V logParts(V x, V &lo) {
  static constexpr double P[] = {0x1.5555555555555p-1, 0x1.9999999999a39p-2, 0x1.2492492476a1ap-2,
                                 0x1.c71c7201a55d7p-3, 0x1.745cf8e4bba1bp-3, 0x1.3b1c3c1c81c8fp-3,
                                 0x1.0fbde0f4ad17bp-3, 0x1.0c0aff044a970p-3};
  const auto tiny = V::less(x, constant<V>(0x1p-1022));
  x = V::select(tiny, x * constant<V>(0x1p54), x);
  // The exponent such that the mantissa is from sqrt(1/2) to sqrt(2).
  const V shifted = V::subBits(x, bitsOf<V>(0x3fe6a09e667f3bcdu));
  const V exponentBits = V::bitAnd(shifted, bitsOf<V>(0xfff0000000000000u));
  const V f = V::subBits(x, exponentBits) - constant<V>(1);
  // Its integer, negative or not, by way of a biased one.
  const V biased =
      V::template shiftRight<52>(V::addBits(exponentBits, bitsOf<V>(0x3ff0000000000000u)));
  V e = V::bitOr(biased, bitsOf<V>(0x4330000000000000u)) - constant<V>(0x1p52 + 1023);
  e = V::select(tiny, e - constant<V>(54), e);
  const V t = f + constant<V>(2);
  const V inverse = constant<V>(1) / t;
  const V s = f * inverse;
  // The loss of the roundings.
  const V tLost = f - (t - constant<V>(2));
  V sLost = V::fma(negate(s), t, f);
  sLost = V::fma(negate(s), tLost, sLost) * inverse;
  const V z = s * s;
  const V rest = V::fma(s * z, polynomial(z, P), sLost + sLost);
  // e Ln2Hi is exact and dominates 2 s unless e is 0.
  const V ln2 = e * constant<V>(0x1.62e42fefa3p-1);
  const V twice = s + s;
  const V hi = ln2 + twice;
  const V low = V::fma(e, constant<V>(0x1.3de6af278ece6p-42), rest + (twice - (hi - ln2)));
  const V sum = hi + low;
  lo = low - (sum - hi);
  return sum;
}

template <class V> MLBRIDGE_INLINE V logSpecial(V x, V result) {
  const V zero = constant<V>(0);
  result = V::select(V::equal(x, zero), negate(infinity<V>()), result);
  result = V::select(V::equal(x, infinity<V>()), x, result);
  // Negative or NaN.
  return V::select(V::lessEqual(zero, x), result, notANumber<V>());
}
template <class V> MLBRIDGE_RARE V logDouble(V x) {
  V lo;
  return logSpecial(x, logParts(x, lo));
}

/// log(1 + x) for x >= 0 (what x > -1 gives is less accurate below -0.3).
template <class V> MLBRIDGE_RARE V log1pDouble(V x) {
  const V one = constant<V>(1);
  const V u = one + x;
  V lo;
  const V l = logParts(u, lo);
  // The loss of the sum, unless there is nothing left to correct.
  const V lost = V::select(V::less(x, one), x - (u - one), one - (u - x));
  V result = l + (lo + lost / u);
  result = V::select(V::equal(u, one), x, result);
  return logSpecial(u, V::select(V::equal(u, infinity<V>()), u, result));
}

// ---- sin, cos -----------------------------------------------------------------------------------

/// The remainder of a huge x by pi/2, and its quadrant, with the bits of 2/pi that matter.
MLBRIDGE_INLINE double reduceHuge(uint64_t bits, double &quadrant) {
  static constexpr uint64_t TwoOverPi[] = {
      0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u, 0xfe5163abdebbc561u,
      0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu, 0xe88235f52ebb4484u,
      0xe99c7026b45f7e41u, 0x3991d639835339f4u, 0x9c845f8bbdf9283bu, 0x1ff897ffde05980fu,
      0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u, 0x4f463f669e5fea2du, 0x7527bac7ebe5f17bu,
      0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu, 0xf0cfbc209af4361du};
  __extension__ using Wide = unsigned __int128;
  const int e = static_cast<int>(bits >> 52 & 0x7ff) - 1075; // x = m 2^e
  const uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  // Bits of 2/pi before number e - 1 (the first is number 1) give multiples of 4. Take 192.
  const int first = e - 2; // of the table, from 0; negative: zeros come before
  uint64_t window[3];
  for (int i = 0; i < 3; ++i) {
    const int at = first + 64 * i;
    const int word = at >> 6, shift = at & 63;
    const uint64_t high = word >= 0 ? TwoOverPi[word] : 0;
    const uint64_t low = word + 1 >= 0 ? TwoOverPi[word + 1] : 0;
    window[i] = shift ? high << shift | low >> (64 - shift) : high;
  }
  // m times the window, modulo 2^192: two bits of the quadrant, then the fraction.
  const Wide p2 = static_cast<Wide>(m) * window[2];
  const Wide p1 = static_cast<Wide>(m) * window[1] + static_cast<uint64_t>(p2 >> 64);
  uint64_t high = m * window[0] + static_cast<uint64_t>(p1 >> 64);
  uint64_t low = static_cast<uint64_t>(p1);
  quadrant = static_cast<double>(high >> 62);
  high = high << 2 | low >> 62;
  low <<= 2;
  const bool more = high >> 63; // nearer to the next
  if (more) {
    quadrant += 1;
    high = ~high;
    low = ~low;
  }
  const double fraction = static_cast<double>(high) * 0x1p-64 + static_cast<double>(low) * 0x1p-128;
  return (more ? -fraction : fraction) * 0x1.921fb54442d18p+0;
}

/// Replaces remainder, quadrant and loss of those of `lanes` angles that are huge; one after the
/// other in x.
MLBRIDGE_PLAIN void reduceHugeAngles(double *x, int lanes);
#ifdef MLBRIDGE_NATIVE_RARE
MLBRIDGE_PLAIN void reduceHugeAngles(double *x, int lanes) {
  for (int i = 0; i < lanes; ++i, ++x) {
    uint64_t bits;
    __builtin_memcpy(&bits, x, sizeof bits);
    const double sign = bits >> 63 ? -1 : 1;
    bits &= ~BitsOf<double>::Sign;
    if (bits <= 0x4150000000000000u || bits >= 0x7ff0000000000000u)
      continue;
    x[lanes] = sign * reduceHuge(bits, x[2 * lanes]);
    x[2 * lanes] *= sign;
    x[3 * lanes] = 0;
  }
}
#endif

/// x = (pi/2) n + r, |r| <= pi/4; n modulo 4 counts. In `low` what r lost.
template <class V> MLBRIDGE_INLINE V reduceAngle(V x, V &n, V &low) {
  const V rounder = constant<V>(BitsOf<double>::Rounder);
  n = V::fma(x, constant<V>(0x1.45f306dc9c883p-1), rounder) - rounder;
  const V a = V::fma(n, constant<V>(-0x1.921fb54442d18p+0), x); // exact
  const V b = n * constant<V>(0x1.1a62633145c07p-54);
  V r = a - b;
  low = (a - r) - b;
  low = low - V::fma(n, constant<V>(0x1.1a62633145c07p-54), negate(b));
  low = V::fma(n, constant<V>(0x1.f1976b7ed8fbcp-110), low);
  const V sum = r + low;
  low = low - (sum - r);
  r = sum;
  const V huge = constant<V>(0x1p22);
  const V a1 = absolute(x);
  if (V::any(V::both(V::less(huge, a1), V::less(a1, infinity<V>())))) {
    double all[4 * V::Lanes];
    x.store(all);
    r.store(all + V::Lanes);
    n.store(all + 2 * V::Lanes);
    low.store(all + 3 * V::Lanes);
    reduceHugeAngles(all, V::Lanes);
    r = V::load(all + V::Lanes);
    n = V::load(all + 2 * V::Lanes);
    low = V::load(all + 3 * V::Lanes);
  }
  return r;
}

/// sin(x + quadrants pi/2), of double.
template <class V> MLBRIDGE_RARE V sinDouble(V x, double quadrants) {
  static constexpr double S[] = {-0x1.5555555555555p-3,  0x1.1111111110babp-7,
                                 -0x1.a01a019e820aep-13, 0x1.71de37946ed6dp-19,
                                 -0x1.ae6008d114485p-26, 0x1.5e0a4fc16be59p-33};
  static constexpr double C[] = {0x1.5555555555555p-5,  -0x1.6c16c16c16963p-10,
                                 0x1.a01a019f4ddfdp-16, -0x1.27e4fa16cc2d1p-22,
                                 0x1.1eeb67d026ec6p-29, -0x1.907cd8ff5ede7p-37};
  V n, low;
  const V r = reduceAngle(x, n, low);
  const V z = r * r;
  // sin(r + low) and cos(r + low)
  const V one = constant<V>(1), half = constant<V>(0.5);
  const V s = r + V::fma(r * z, polynomial(z, S), V::fma(z, low * constant<V>(-0.5), low));
  const V hz = z * half;
  const V w = one - hz;
  const V c = w + (((one - w) - hz) + V::fma(z * z, polynomial(z, C), negate(r * low)));
  const V q = V::addBits(n + constant<V>(BitsOf<double>::Rounder),
                         bitsOf<V>(static_cast<uint64_t>(quadrants)));
  const V odd = V::template shiftLeft<62>(V::bitAnd(q, bitsOf<V>(1))); // 0 or 2
  const V sign = V::template shiftLeft<62>(V::bitAnd(q, bitsOf<V>(2)));
  const V result = V::bitXor(V::select(V::equal(odd, constant<V>(0)), s, c), sign);
  return quadrants == 0 ? V::select(V::equal(x, constant<V>(0)), x, result) : result;
}

// ---- inverse functions --------------------------------------------------------------------------

template <class V> MLBRIDGE_RARE V atanDouble(V x) {
  static constexpr double P[] = {
      -0x1.5555555555555p-2, 0x1.9999999999952p-3, -0x1.249249248d684p-3, 0x1.c71c71c2f37e8p-4,
      -0x1.745d165a9c002p-4, 0x1.3b139279535a8p-4, -0x1.110e81459346ep-4, 0x1.e19978381e052p-5,
      -0x1.ac761b5db4f38p-5, 0x1.74c9760b1bea4p-5, -0x1.1aff6533dd0e5p-5, 0x1.0a5f8c60d732bp-6};
  const V one = constant<V>(1), zero = constant<V>(0);
  const V a = absolute(x);
  // tan(pi/8) and tan(3 pi/8)
  const auto middle = V::less(constant<V>(0x1.a827999fcef32p-2), a);
  const auto large = V::less(constant<V>(0x1.3504f333f9de6p+1), a);
  const V t = V::select(large, constant<V>(-1), V::select(middle, a - one, a)) /
              V::select(large, a, V::select(middle, a + one, one));
  V base = V::select(middle, constant<V>(0x1.921fb54442d18p-1), zero);
  base = V::select(large, constant<V>(0x1.921fb54442d18p+0), base);
  V rest = V::select(middle, constant<V>(0x1.1a62633145c07p-55), zero);
  rest = V::select(large, constant<V>(0x1.1a62633145c07p-54), rest);
  const V z = t * t;
  return withSign(absolute(base + (t + V::fma(t * z, polynomial(z, P), rest))), x);
}

/// asin or acos of float. Beyond 9/16 both are made of asin(sqrt((1 - |x|) / 2)).
template <class V> MLBRIDGE_RARE V arcFloat(V x, bool isCosine) {
  static constexpr double P[] = {0x1.555554p-3, 0x1.333728p-4, 0x1.6c98e4p-5,
                                 0x1.075c94p-5, 0x1.9609c6p-7, 0x1.515348p-5};
  constexpr double Hi = 0x1.921fb6p+0, Lo = -0x1.777a5cp-25; // pi/2
  const V a = absolute(x), zero = constant<V>(0), half = constant<V>(0.5);
  const auto far = V::less(constant<V>(0.5625), a);
  const V z = V::select(far, V::fma(a, constant<V>(-0.5), half), a * a);
  const V root = V::sqrt(z);
  // The loss of the root; where that is 0, nothing.
  const V lost = V::fma(negate(root), root, z) / V::greatest(root + root, constant<V>(1e-30));
  const V s = V::select(far, root, a);
  const V rest = V::fma(s * z, polynomial(z, P), V::select(far, lost, zero));
  // The result is base - factor (s + rest).
  V factor = V::select(far, constant<V>(2), constant<V>(-1)), quarters = half + half;
  if (isCosine) {
    const V sign = withSign(quarters, x);
    quarters = V::select(far, quarters - sign, quarters);
    factor = V::select(far, constant<V>(-2) * sign, sign);
  } else {
    quarters = V::select(far, quarters, zero);
  }
  const V low = V::fma(factor, rest, quarters * constant<V>(-Lo));
  const V result = quarters * constant<V>(Hi) - V::fma(factor, s, low);
  return isCosine ? result : withSign(absolute(result), x);
}

// ---- erf ----------------------------------------------------------------------------------------

/// exp(-x²) erfcx(x) = erfc(x) for x >= 1, where x² is `share` times the square of y.
template <class V> MLBRIDGE_INLINE V erfcTail(V x, V y, double share) {
  static constexpr double P[] = {
      0x1.6e9827d229d2dp-3,   -0x1.4e102b9cf8513p-2, 0x1.f6ff204105974p-3,  -0x1.336ffbef08b12p-3,
      0x1.258b13b017a7dp-4,   -0x1.8fa58eb5e2699p-6, 0x1.17c838ee87283p-8,  0x1.73101ea23dba4p-11,
      -0x1.39084c4fb78e5p-11, 0x1.7ba0d0636a178p-15, 0x1.0cac27a563e2dp-14, -0x1.af7ddaa506633p-17,
      -0x1.0baca8f22292ep-17, 0x1.1ba6567686c2ap-19, 0x1.4e5307f58f040p-20, -0x1.23f900a89b790p-22,
      -0x1.b94cf8cc5a512p-23};
  static constexpr double Short[] = {0x1.6e9828p-3, -0x1.4e1030p-2, 0x1.f6fed8p-3, -0x1.336df2p-3,
                                     0x1.259b0cp-4, -0x1.90a506p-6, 0x1.0d5296p-8, 0x1.009024p-10};
  const V bounded = V::least(constant<V>(6.2), x);
  const V three = constant<V>(3);
  const V t = (bounded - three) / (bounded + three);
  y = V::least(constant<V>(42), y); // the result is 0 long before
  const V square = y * y, of = constant<V>(-share);
  const V power = exp(of * square, of * V::fma(y, y, negate(square)));
  if constexpr (sizeof(ElementOf<V>) == 4)
    return power * polynomial(t, Short);
  else
    return power * polynomial(t, P);
}
template <class V> MLBRIDGE_INLINE V erfNear(V x) {
  static constexpr double P[] = {
      0x1.20dd750429b6dp+0,  -0x1.812746b0379c0p-2,  0x1.ce2f21a040f20p-4,  -0x1.b82ce31202513p-6,
      0x1.565bccfa1cce7p-8,  -0x1.c02db0604590bp-11, 0x1.f9a2bdb8fcb67p-14, -0x1.f4ca7a42278fdp-17,
      0x1.b981799c363d2p-20, -0x1.5c10c8957465dp-23, 0x1.d75aba73d5ca8p-27, -0x1.ac641bc040b16p-31};
  static constexpr double Short[] = {0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2cf0p-4, -0x1.b7f88cp-6,
                                     0x1.5401dcp-8, -0x1.a3dc18p-11, 0x1.49234ep-14};
  if constexpr (sizeof(ElementOf<V>) == 4)
    return V::fma(x, polynomial(x * x, Short), x);
  else
    return x * polynomial(x * x, P);
}
template <class V> MLBRIDGE_RARE V erf(V x) {
  const V a = absolute(x), one = constant<V>(1);
  // NaN takes the first.
  return V::select(V::less(one, a), withSign(one - erfcTail(a, a, 1), x), erfNear(x));
}
/// The normal distribution's share below x, times x.
template <class V> MLBRIDGE_RARE V gelu(V x) {
  const V scaled = x * constant<V>(0x1.6a09e667f3bcdp-1);
  const V a = absolute(scaled), one = constant<V>(1), half = constant<V>(0.5);
  const V tail = half * erfcTail(a, absolute(x), 0.5);
  const V far = V::select(V::less(x, constant<V>(0)), tail, one - tail);
  const V share = V::select(V::less(one, a), far, V::fma(half, erfNear(scaled), half));
  return x * share;
}

// ---- pow ----------------------------------------------------------------------------------------

template <class V> MLBRIDGE_RARE V powDouble(V x, V y) {
  const V zero = constant<V>(0), one = constant<V>(1);
  const V a = absolute(x), magnitude = absolute(y);
  V lo;
  V hi = logParts(a, lo);
  hi = V::select(V::equal(a, zero), negate(infinity<V>()), hi);
  hi = V::select(V::equal(a, infinity<V>()), infinity<V>(), hi);
  const V product = hi * y;
  // A product that isn't finite needs no correction.
  V rest = V::fma(hi, y, negate(product)) + lo * y;
  rest = V::select(V::less(absolute(product), constant<V>(1e6)), rest, zero);
  V result = exp(product, rest);
  const auto ordinary = V::both(V::both(V::less(zero, x), V::less(x, infinity<V>())),
                                V::less(absolute(product), constant<V>(700)));
  if (!V::any(V::equal(V::select(ordinary, one, zero), zero)))
    return result;
  result = V::select(V::equal(a, one), one, result); // also to the power of infinity
  result = V::select(V::equal(y, y), result, y);
  result = V::select(V::equal(x, x), result, x);
  // A negative base: whole powers only, of which the odd ones are negative.
  const auto whole = V::equal(V::round(y), y);
  const V halved = y * constant<V>(0.5);
  const V odd =
      V::select(V::equal(V::round(halved), halved), zero, V::select(whole, signOf(x), zero));
  const V flipped = V::bitXor(result, odd);
  const auto fractional = V::both(V::less(x, zero), V::less(zero, absolute(y - V::round(y))));
  const auto finite = V::less(a, infinity<V>());
  result = V::select(V::both(fractional, finite), notANumber<V>(), flipped);
  result = V::select(V::both(V::equal(a, infinity<V>()), V::equal(magnitude, infinity<V>())),
                     V::select(V::less(zero, y), infinity<V>(), zero), result);
  result = V::select(V::equal(x, one), one, result);
  return V::select(V::equal(y, zero), one, result);
}

} // namespace mlbridge::native::kernels

#endif
