// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vectors of the kernels: 64 bytes, 16 float or 8 double, whatever the registers of the CPU.
// Register has the operations that compilers know for any register; an instruction set adds the
// rest. Pair makes a vector of twice the lanes of two.
//
// All of it is inlined and depends on the instruction set by type, never by macro, so that code for
// one CPU can't be linked in place of code for another.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_VECTOR_H

#include "kernel.h"

#include <cstddef>
#include <cstdint>

namespace mlbridge::native::kernels {

/// The numbers of a vector.
template <class V> using ElementOf = typename V::Element;

template <class Element> struct BitsOf;
template <> struct BitsOf<float> {
  using Type = uint32_t;
  static constexpr int Mantissa = 23, Bias = 127;
  static constexpr Type Sign = 0x80000000u;
  /// Adding it rounds to an integer, which is then in the lowest bits.
  static constexpr float Rounder = 12582912.0F; // 1.5 * 2^23
};
template <> struct BitsOf<double> {
  using Type = uint64_t;
  static constexpr int Mantissa = 52, Bias = 1023;
  static constexpr Type Sign = 0x8000000000000000u;
  static constexpr double Rounder = 6755399441055744.0; // 1.5 * 2^52
};

/// Traits has an instruction set's Native register for an element type, and the operations below
/// that begin with Traits::.
template <class Traits> struct Register {
  using Element = typename Traits::Element;
  using Native = typename Traits::Native;
  using Bits = typename BitsOf<Element>::Type;
  using Mask = decltype(Native() < Native());
  typedef Bits BitVector __attribute__((vector_size(sizeof(Native))));
  static constexpr int Lanes = sizeof(Native) / sizeof(Element);
  Native r;

  // clang-format off
  static MLBRIDGE_INLINE BitVector bits(Register a) { return reinterpret_cast<BitVector>(a.r); }
  static MLBRIDGE_INLINE Register fromBits(BitVector a) { return {reinterpret_cast<Native>(a)}; }
  static MLBRIDGE_INLINE Register load(const Element *p) { Register a; __builtin_memcpy(&a.r, p, sizeof a.r); return a; }
  static MLBRIDGE_INLINE Register loadPartial(const Element *p, int n) { return {Traits::loadPartial(p, n)}; }
  MLBRIDGE_INLINE void store(Element *p) const { __builtin_memcpy(p, &r, sizeof r); }
  MLBRIDGE_INLINE void storePartial(Element *p, int n) const { Traits::storePartial(p, n, r); }
  static MLBRIDGE_INLINE Register broadcast(Element x) { return {Traits::broadcast(x)}; }
  static MLBRIDGE_INLINE Register broadcastBits(Bits x) { return fromBits(BitVector{} + x); }
  static MLBRIDGE_INLINE Register sqrt(Register a) { return {Traits::sqrt(a.r)}; }
  static MLBRIDGE_INLINE Register floor(Register a) { return {Traits::floor(a.r)}; }
  static MLBRIDGE_INLINE Register ceil(Register a) { return {Traits::ceil(a.r)}; }
  static MLBRIDGE_INLINE Register round(Register a) { return {Traits::round(a.r)}; }
  static MLBRIDGE_INLINE Register add(Register a, Register b) { return {a.r + b.r}; }
  static MLBRIDGE_INLINE Register sub(Register a, Register b) { return {a.r - b.r}; }
  static MLBRIDGE_INLINE Register mul(Register a, Register b) { return {a.r * b.r}; }
  static MLBRIDGE_INLINE Register div(Register a, Register b) { return {a.r / b.r}; }
  static MLBRIDGE_INLINE Register greatest(Register a, Register b) { return {Traits::greatest(a.r, b.r)}; }
  static MLBRIDGE_INLINE Register least(Register a, Register b) { return {Traits::least(a.r, b.r)}; }
  static MLBRIDGE_INLINE Register bitAnd(Register a, Register b) { return fromBits(bits(a) & bits(b)); }
  static MLBRIDGE_INLINE Register bitOr(Register a, Register b) { return fromBits(bits(a) | bits(b)); }
  static MLBRIDGE_INLINE Register bitXor(Register a, Register b) { return fromBits(bits(a) ^ bits(b)); }
  static MLBRIDGE_INLINE Register addBits(Register a, Register b) { return fromBits(bits(a) + bits(b)); }
  static MLBRIDGE_INLINE Register subBits(Register a, Register b) { return fromBits(bits(a) - bits(b)); }
  static MLBRIDGE_INLINE Mask less(Register a, Register b) { return a.r < b.r; }
  static MLBRIDGE_INLINE Mask lessEqual(Register a, Register b) { return a.r <= b.r; }
  static MLBRIDGE_INLINE Mask equal(Register a, Register b) { return a.r == b.r; }
  static MLBRIDGE_INLINE Register scale(Register a, Register n) { return {Traits::scale(a.r, n.r)}; } // AVX-512's
  static MLBRIDGE_INLINE Register fma(Register a, Register b, Register c) { return {Traits::fma(a.r, b.r, c.r)}; }
  template <int N> static MLBRIDGE_INLINE Register shiftLeft(Register a) { return fromBits(bits(a) << N); }
  template <int N> static MLBRIDGE_INLINE Register shiftRight(Register a) { return fromBits(bits(a) >> N); }
  static MLBRIDGE_INLINE Register select(Mask m, Register a, Register b) { return {m ? a.r : b.r}; }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) { return a & b; }
  static MLBRIDGE_INLINE bool any(Mask m) { return Traits::any(reinterpret_cast<Native>(m)); }
  static MLBRIDGE_INLINE Element sum(Register a) { return Traits::sum(a.r); }
  // clang-format on
};

template <class R> struct Pair {
  using Element = ElementOf<R>;
  using Bits = typename BitsOf<Element>::Type;
  static constexpr int Lanes = 2 * R::Lanes;
  struct Mask {
    typename R::Mask lo, hi;
  };
  R lo, hi;

  static MLBRIDGE_INLINE Pair load(const Element *p) { return {R::load(p), R::load(p + R::Lanes)}; }
  /// The first n lanes, 0 elsewhere. n may be anything from 0 to Lanes.
  static MLBRIDGE_INLINE Pair loadPartial(const Element *p, int n) {
    if (n <= R::Lanes)
      return {R::loadPartial(p, n), R::broadcast(0)};
    return {R::load(p), R::loadPartial(p + R::Lanes, n - R::Lanes)};
  }
  MLBRIDGE_INLINE void store(Element *p) const {
    lo.store(p);
    hi.store(p + R::Lanes);
  }
  MLBRIDGE_INLINE void storePartial(Element *p, int n) const {
    if (n <= R::Lanes) {
      lo.storePartial(p, n);
    } else {
      lo.store(p);
      hi.storePartial(p + R::Lanes, n - R::Lanes);
    }
  }
  static MLBRIDGE_INLINE Pair broadcast(Element x) {
    const R r = R::broadcast(x);
    return {r, r};
  }
  static MLBRIDGE_INLINE Pair broadcastBits(Bits x) {
    const R r = R::broadcastBits(x);
    return {r, r};
  }

#define MLBRIDGE_PAIR_1(name)                                                                      \
  static MLBRIDGE_INLINE Pair name(Pair a) { return {R::name(a.lo), R::name(a.hi)}; }
#define MLBRIDGE_PAIR_2(name)                                                                      \
  static MLBRIDGE_INLINE Pair name(Pair a, Pair b) {                                               \
    return {R::name(a.lo, b.lo), R::name(a.hi, b.hi)};                                             \
  }
#define MLBRIDGE_PAIR_COMPARE(name)                                                                \
  static MLBRIDGE_INLINE Mask name(Pair a, Pair b) {                                               \
    return {R::name(a.lo, b.lo), R::name(a.hi, b.hi)};                                             \
  }
  MLBRIDGE_PAIR_1(sqrt)
  MLBRIDGE_PAIR_1(floor)
  MLBRIDGE_PAIR_1(ceil)
  MLBRIDGE_PAIR_1(round) // to even
  MLBRIDGE_PAIR_2(add)
  MLBRIDGE_PAIR_2(sub)
  MLBRIDGE_PAIR_2(mul)
  MLBRIDGE_PAIR_2(div)
  MLBRIDGE_PAIR_2(greatest) // a > b ? a : b
  MLBRIDGE_PAIR_2(least)    // a < b ? a : b
  MLBRIDGE_PAIR_2(bitAnd)
  MLBRIDGE_PAIR_2(bitOr)
  MLBRIDGE_PAIR_2(bitXor)
  MLBRIDGE_PAIR_2(addBits) // as integers
  MLBRIDGE_PAIR_2(subBits)
  MLBRIDGE_PAIR_COMPARE(less)
  MLBRIDGE_PAIR_COMPARE(lessEqual)
  MLBRIDGE_PAIR_COMPARE(equal)
#undef MLBRIDGE_PAIR_1
#undef MLBRIDGE_PAIR_2
#undef MLBRIDGE_PAIR_COMPARE
  /// a * b + c in one rounding.
  static MLBRIDGE_INLINE Pair fma(Pair a, Pair b, Pair c) {
    return {R::fma(a.lo, b.lo, c.lo), R::fma(a.hi, b.hi, c.hi)};
  }
  template <int N> static MLBRIDGE_INLINE Pair shiftLeft(Pair a) {
    return {R::template shiftLeft<N>(a.lo), R::template shiftLeft<N>(a.hi)};
  }
  /// Shifts zeros in.
  template <int N> static MLBRIDGE_INLINE Pair shiftRight(Pair a) {
    return {R::template shiftRight<N>(a.lo), R::template shiftRight<N>(a.hi)};
  }
  static MLBRIDGE_INLINE Pair select(Mask m, Pair a, Pair b) {
    return {R::select(m.lo, a.lo, b.lo), R::select(m.hi, a.hi, b.hi)};
  }
  static MLBRIDGE_INLINE Mask both(Mask a, Mask b) {
    return {R::both(a.lo, b.lo), R::both(a.hi, b.hi)};
  }
  static MLBRIDGE_INLINE bool any(Mask m) { return R::any(m.lo) || R::any(m.hi); }

  /// Sums lanes i and i + Lanes / 2, and so on by halves.
  static MLBRIDGE_INLINE Element sum(Pair a) { return R::sum(R::add(a.lo, a.hi)); }
};

/// Pair<R>'s double counterpart is Pair<WideOf<R>>.
template <class R> struct WideOf;
template <class R> struct WideOf<Pair<R>> {
  using Type = Pair<typename WideOf<R>::Type>;
};

/// How many vectors fit the registers as accumulators of a matrix product.
template <class V> inline constexpr int AccumulatorsOf = sizeof(ElementOf<V>) == 4 ? 6 : 4;

/// The vector for computations number by number, with the same results: in the library a register,
/// in half the code of a Pair; in code for one network V itself.
template <class V> struct LanesOf {
  using Type = V;
};
#ifndef MLBRIDGE_NATIVE_SPECIALIZE
template <class R> struct LanesOf<Pair<R>> : LanesOf<R> {};
#endif

/// True if V is an array in memory, whose lanes are computed one after the other.
template <class V> inline constexpr bool IsArray = false;

/// The instruction set of a register or of a vector.
template <class V> inline constexpr InstructionSet SetOf = InstructionSet::Portable;
template <class R> inline constexpr InstructionSet SetOf<Pair<R>> = SetOf<R>;
template <class Traits> inline constexpr InstructionSet SetOf<Register<Traits>> = Traits::Set;

/// Lane i of a, as double, is lane i of lo or i - 8 of hi.
template <class R, class W> MLBRIDGE_INLINE void widen(Pair<R> a, Pair<W> &lo, Pair<W> &hi) {
  widen(a.lo, lo.lo, lo.hi);
  widen(a.hi, hi.lo, hi.hi);
}
template <class R, class W> MLBRIDGE_INLINE void narrow(Pair<W> lo, Pair<W> hi, Pair<R> &a) {
  narrow(lo.lo, lo.hi, a.lo);
  narrow(hi.lo, hi.hi, a.hi);
}

// clang-format off
template <class V> using IfVector = decltype(V::Lanes, V());
template <class V, class = IfVector<V>> MLBRIDGE_INLINE V operator+(V a, V b) { return V::add(a, b); }
template <class V, class = IfVector<V>> MLBRIDGE_INLINE V operator-(V a, V b) { return V::sub(a, b); }
template <class V, class = IfVector<V>> MLBRIDGE_INLINE V operator*(V a, V b) { return V::mul(a, b); }
template <class V, class = IfVector<V>> MLBRIDGE_INLINE V operator/(V a, V b) { return V::div(a, b); }
// clang-format on

template <class V> MLBRIDGE_INLINE V signOf(V a) {
  return V::bitAnd(a, V::broadcastBits(BitsOf<ElementOf<V>>::Sign));
}
template <class V> MLBRIDGE_INLINE V absolute(V a) {
  return V::bitAnd(a, V::broadcastBits(~BitsOf<ElementOf<V>>::Sign));
}
template <class V> MLBRIDGE_INLINE V negate(V a) {
  return V::bitXor(a, V::broadcastBits(BitsOf<ElementOf<V>>::Sign));
}
/// a, which is not negative, with the sign of b.
template <class V> MLBRIDGE_INLINE V withSign(V a, V b) { return V::bitOr(a, signOf(b)); }
/// Gives a or b, if it is NaN; else the greater. Of +0 and -0, b.
template <class V> MLBRIDGE_INLINE V greatestOrNan(V a, V b) {
  return V::select(V::equal(a, a), V::greatest(a, b), a);
}
template <class V> MLBRIDGE_INLINE V leastOrNan(V a, V b) {
  return V::select(V::equal(a, a), V::least(a, b), a);
}

/// Sums elements i and i + n / 2, and so on by halves.
template <class V, class E = ElementOf<V>> MLBRIDGE_SHARED E sumByHalves(E *x, int64_t n) {
  for (int64_t half = n / 2; half; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      x[i] = x[i] + x[i + half];
  return x[0];
}

template <class T> MLBRIDGE_INLINE T realOf(int64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return static_cast<T>(value);
}

/// Sums of products of bytes in 16 columns, which wrap. IntegerGemm takes so many rows and panels
/// at a time.
struct PortableSums {
  static constexpr int Rows = 1, Panels = 1;
  uint32_t r[16];
  MLBRIDGE_INLINE void clear() {
    for (uint32_t &sum : r)
      sum = 0;
  }
  /// Adds four uint8, the first in the lowest bits, times four int8 of each column.
  MLBRIDGE_INLINE void add(uint32_t four, const int8_t *b) {
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 4; ++j)
        r[i] += static_cast<uint32_t>(static_cast<int32_t>(four >> (8 * j) & 255) * b[4 * i + j]);
  }
  MLBRIDGE_INLINE void store(int32_t *y) const { __builtin_memcpy(y, r, sizeof r); }
};

} // namespace mlbridge::native::kernels

#endif
