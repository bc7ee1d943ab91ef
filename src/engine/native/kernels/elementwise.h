// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of one and of two numbers, and the activations of sums.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_ELEMENTWISE_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_ELEMENTWISE_H

#include "kernel.h"
#include "math.h"
#include "movement.h"

namespace mlbridge::native::kernels {

/// Computes f of double vectors and rounds once.
template <class V, class F> MLBRIDGE_INLINE V inDouble(V x, const F &f) {
  if constexpr (sizeof(ElementOf<V>) == 8) {
    return f(x);
  } else {
    typename WideOf<V>::Type half[2];
    widen(x, half[0], half[1]);
    half[0] = f(half[0]);
    if constexpr (V::Lanes > 1)
      half[1] = f(half[1]);
    narrow(half[0], half[1], x);
    return x;
  }
}

template <class V> MLBRIDGE_INLINE V cosDouble(V x) { return sinDouble(x, 1); }
template <class V> MLBRIDGE_INLINE V sineDouble(V x) { return sinDouble(x, 0); }
template <class V> MLBRIDGE_INLINE V tanDouble(V x) { return sinDouble(x, 0) / sinDouble(x, 1); }
template <class V> MLBRIDGE_RARE V asinDouble(V x) {
  const V one = constant<V>(1);
  return V::select(V::equal(x, constant<V>(0)), x, atanDouble(x / V::sqrt((one - x) * (one + x))));
}
template <class V> MLBRIDGE_RARE V acosDouble(V x) {
  const V one = constant<V>(1);
  const V half = atanDouble(V::sqrt((one - x) / (one + x)));
  return half + half;
}
template <class V> MLBRIDGE_INLINE V arc(V x, bool isCosine) {
  if constexpr (sizeof(ElementOf<V>) == 4)
    return arcFloat(x, isCosine);
  else
    return isCosine ? acosDouble(x) : asinDouble(x);
}
template <class V> MLBRIDGE_RARE V sinhDouble(V x) {
  const V a = absolute(x), half = constant<V>(0.5);
  const V t = expm1(a);
  const V small = half * (t + t / (t + constant<V>(1)));
  const V root = exp(half * a);
  return withSign(V::select(V::less(constant<V>(22), a), half * root * root, small), x);
}
template <class V> MLBRIDGE_RARE V coshDouble(V x) {
  const V half = constant<V>(0.5), a = absolute(x);
  const V e = exp(a), root = exp(half * a);
  return V::select(V::less(constant<V>(22), a), half * root * root, V::fma(half, e, half / e));
}
template <class V> MLBRIDGE_RARE V asinhDouble(V x) {
  const V a = absolute(x), one = constant<V>(1);
  const V near = log1pDouble(a + a * a / (one + V::sqrt(V::fma(a, a, one))));
  const V far = logDouble(a) + constant<V>(0x1.62e42fefa39efp-1);
  return withSign(V::select(V::less(constant<V>(0x1p28), a), far, near), x);
}
template <class V> MLBRIDGE_RARE V acoshDouble(V x) {
  const V one = constant<V>(1), t = x - one;
  const V near = log1pDouble(t + V::sqrt(V::fma(t, t, t + t)));
  const V far = logDouble(x) + constant<V>(0x1.62e42fefa39efp-1);
  const V result = V::select(V::less(constant<V>(0x1p28), x), far, near);
  // Far below 1 the root is all but -x, and what is left of the sum means nothing.
  return V::select(V::lessEqual(one, x), result, notANumber<V>());
}
template <class V> MLBRIDGE_RARE V atanhDouble(V x) {
  const V a = absolute(x), one = constant<V>(1);
  return withSign(constant<V>(0.5) * log1pDouble((a + a) / (one - a)), x);
}
template <class V> MLBRIDGE_RARE V softplusDouble(V x) {
  return V::greatest(constant<V>(0), x) + log1pDouble(exp(negate(absolute(x))));
}
/// x tanh(softplus(x)), where tanh(log(1 + e)) = (e² + 2e) / (e² + 2e + 2).
template <class V> MLBRIDGE_RARE V mishDouble(V x) {
  const V e = exp(V::least(constant<V>(40), x));
  const V n = e * (e + constant<V>(2));
  return x * (n / (n + constant<V>(2)));
}
/// x sigmoid(2 sqrt(2/pi) (x + 0.044715 x³)), which is the form with tanh.
template <class V> MLBRIDGE_RARE V geluTanh(V x) {
  const V inner = x * V::fma(x * x, constant<V>(0.044715), constant<V>(1));
  return x * sigmoidShared(inner * constant<V>(0x1.9884533d43651p+0));
}

// ---- one operand --------------------------------------------------------------------------------

template <class V> struct AlphaBeta {
  V alpha, beta;
};

/// A function is a few instructions, or code that is called, of float or of double.
enum class Length { Short, Long, InDouble };

#define MLBRIDGE_FUNCTION_OF(Name, size, expression)                                               \
  struct Name##Function {                                                                          \
    static constexpr Length Size = Length::size;                                                   \
    template <class V> static MLBRIDGE_INLINE V apply(V x, const AlphaBeta<V> &p) {                \
      (void)p;                                                                                     \
      return expression;                                                                           \
    }                                                                                              \
  };
#define MLBRIDGE_FUNCTION(Name, expression) MLBRIDGE_FUNCTION_OF(Name, Short, expression)
#define MLBRIDGE_LONG(Name, expression) MLBRIDGE_FUNCTION_OF(Name, Long, expression)
#define MLBRIDGE_IN_DOUBLE(Name, function)                                                         \
  MLBRIDGE_FUNCTION_OF(Name, InDouble,                                                             \
                       inDouble(x, [](auto wide) MLBRIDGE_ALWAYS { return function(wide); }))
#define MLBRIDGE_ZERO constant<V>(0)
#define MLBRIDGE_ONE constant<V>(1)
// A function written as a < b ? ... takes NaN to the second branch, which passes it; but Shrink and
// ThresholdedRelu make 0 of it, as ONNX defines them.
MLBRIDGE_LONG(Acos, arc(x, true))
MLBRIDGE_IN_DOUBLE(Acosh, acoshDouble)
MLBRIDGE_FUNCTION(Affine, V::fma(p.alpha, x, p.beta))
MLBRIDGE_LONG(Asin, arc(x, false))
MLBRIDGE_IN_DOUBLE(Asinh, asinhDouble)
MLBRIDGE_IN_DOUBLE(Atan, atanDouble)
MLBRIDGE_IN_DOUBLE(Atanh, atanhDouble)
MLBRIDGE_FUNCTION(Ceil, V::ceil(x))
MLBRIDGE_LONG(Celu, V::select(V::less(x, MLBRIDGE_ZERO), p.alpha *expm1(x / p.alpha), x))
MLBRIDGE_FUNCTION(Clamp, V::least(p.beta, V::greatest(p.alpha, x)))
MLBRIDGE_IN_DOUBLE(Cos, cosDouble)
MLBRIDGE_IN_DOUBLE(Cosh, coshDouble)
MLBRIDGE_LONG(Elu, V::select(V::less(x, MLBRIDGE_ZERO), p.alpha *expm1(x), x))
MLBRIDGE_LONG(Erf, erf(x))
MLBRIDGE_LONG(Exp, exp(x))
MLBRIDGE_FUNCTION(Floor, V::floor(x))
MLBRIDGE_LONG(Gelu, gelu(x))
MLBRIDGE_LONG(GeluTanh, geluTanh(x))
MLBRIDGE_FUNCTION(HardSigmoid,
                  V::least(MLBRIDGE_ONE, V::greatest(MLBRIDGE_ZERO, V::fma(p.alpha, x, p.beta))))
MLBRIDGE_FUNCTION(HardSwish, x *V::least(MLBRIDGE_ONE,
                                         V::greatest(MLBRIDGE_ZERO, V::fma(constant<V>(1.0 / 6), x,
                                                                           constant<V>(0.5)))))
MLBRIDGE_FUNCTION(LeakyRelu, V::select(V::less(x, MLBRIDGE_ZERO), p.alpha *x, x))
MLBRIDGE_IN_DOUBLE(Log, logDouble)
MLBRIDGE_IN_DOUBLE(Mish, mishDouble)
MLBRIDGE_FUNCTION(Reciprocal, MLBRIDGE_ONE / x)
MLBRIDGE_FUNCTION(Relu, V::greatest(MLBRIDGE_ZERO, x))
MLBRIDGE_FUNCTION(Round, V::round(x))
MLBRIDGE_LONG(Selu, p.beta *V::select(V::less(MLBRIDGE_ZERO, x), x, p.alpha *expm1(x)))
MLBRIDGE_FUNCTION(Shrink, V::select(V::less(x, negate(p.alpha)), x + p.beta,
                                    V::select(V::less(p.alpha, x), x - p.beta, MLBRIDGE_ZERO)))
MLBRIDGE_LONG(Sigmoid, sigmoid(x))
MLBRIDGE_FUNCTION(Sign, V::select(V::less(MLBRIDGE_ZERO, absolute(x)), withSign(MLBRIDGE_ONE, x),
                                  V::bitAnd(x, absolute(x))))
MLBRIDGE_IN_DOUBLE(Sin, sineDouble)
MLBRIDGE_IN_DOUBLE(Sinh, sinhDouble)
MLBRIDGE_IN_DOUBLE(Softplus, softplusDouble)
MLBRIDGE_FUNCTION(Softsign, x / (MLBRIDGE_ONE + absolute(x)))
MLBRIDGE_FUNCTION(Sqrt, V::sqrt(x))
MLBRIDGE_FUNCTION(Square, x *x)
MLBRIDGE_LONG(Swish, x *sigmoidShared(p.alpha *x))
MLBRIDGE_IN_DOUBLE(Tan, tanDouble)
MLBRIDGE_LONG(Tanh, tanh(x))
MLBRIDGE_FUNCTION(ThresholdedRelu, V::select(V::less(p.alpha, x), x, MLBRIDGE_ZERO))
#undef MLBRIDGE_FUNCTION
#undef MLBRIDGE_LONG
#undef MLBRIDGE_IN_DOUBLE
#undef MLBRIDGE_ZERO
#undef MLBRIDGE_ONE

template <class V> MLBRIDGE_INLINE AlphaBeta<V> parametersOf(const int64_t *bits) {
  using E = ElementOf<V>;
  return {V::broadcast(realOf<E>(bits[0])), V::broadcast(realOf<E>(bits[1]))};
}

/// All lanes, or the first `left`, of which there is one at least.
template <class V, class E = ElementOf<V>> MLBRIDGE_INLINE V loadUpTo(const E *p, int64_t left) {
  return V::Lanes == 1 || left >= V::Lanes ? V::load(p) : V::loadPartial(p, static_cast<int>(left));
}
template <class V, class E = ElementOf<V>> MLBRIDGE_INLINE void storeUpTo(V v, E *p, int64_t left) {
  if (V::Lanes == 1 || left >= V::Lanes)
    v.store(p);
  else
    v.storePartial(p, static_cast<int>(left));
}
/// y[i] = f(x[i]); tails take the same way as the rest.
template <class V, class F, class E = ElementOf<V>>
MLBRIDGE_INLINE void mapInline(E *y, const E *x, int64_t count, const int64_t *parameters) {
  const AlphaBeta<V> p = parametersOf<V>(parameters);
  for (int64_t i = 0; i < count; i += V::Lanes)
    storeUpTo(F::apply(loadUpTo<V>(x + i, count - i), p), y + i, count - i);
}

#ifdef MLBRIDGE_NATIVE_SPECIALIZE

template <class V, class F, class E = ElementOf<V>>
MLBRIDGE_INLINE void map(E *y, const E *x, int64_t count, const int64_t *parameters) {
  mapInline<typename LanesOf<V>::Type, F>(y, x, count, parameters);
}

#else

/// Functions that are called share a loop; of float in double, another. Short ones have loops over
/// whole vectors.
template <class V, class F> MLBRIDGE_RARE V functionOf(V x, const AlphaBeta<V> &p) {
  return F::apply(x, p);
}
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void mapLong(V (*f)(V, const AlphaBeta<V> &), E *y, const E *x, int64_t count,
                             const int64_t *parameters) {
  const AlphaBeta<V> p = parametersOf<V>(parameters);
  for (int64_t i = 0; i < count; i += V::Lanes)
    storeUpTo(f(loadUpTo<V>(x + i, count - i), p), y + i, count - i);
}
template <class V, class W, class E = ElementOf<V>>
MLBRIDGE_SHARED void mapInDouble(W (*f)(W, const AlphaBeta<W> &), E *y, const E *x, int64_t count) {
  for (int64_t i = 0; i < count; i += V::Lanes) {
    const V v = inDouble(loadUpTo<V>(x + i, count - i),
                         [f](W wide) MLBRIDGE_ALWAYS { return f(wide, AlphaBeta<W>{}); });
    storeUpTo(v, y + i, count - i);
  }
}
template <class V, class F, class E = ElementOf<V>>
MLBRIDGE_RARE void mapWhole(E *y, const E *x, int64_t count, const AlphaBeta<V> &p) {
  for (int64_t i = 0; i < count; i += V::Lanes)
    F::apply(V::load(x + i), p).store(y + i);
}
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void mapShort(void (*whole)(E *, const E *, int64_t, const AlphaBeta<V> &), E *y,
                              const E *x, int64_t count, const int64_t *parameters) {
  const AlphaBeta<V> p = parametersOf<V>(parameters);
  const int64_t first = count / V::Lanes * V::Lanes;
  whole(y, x, first, p);
  if (const int left = static_cast<int>(count - first)) {
    E last[V::Lanes];
    V::loadPartial(x + first, left).store(last);
    whole(last, last, V::Lanes, p);
    V::load(last).storePartial(y + first, left);
  }
}
template <class V, class F, class E = ElementOf<V>>
MLBRIDGE_SHARED void mapFast(E *y, const E *x, int64_t count, const int64_t *parameters) {
  mapInline<V, F>(y, x, count, parameters);
}

/// The functions in which policies spend their time have loops of their own; the others share one.
template <class F> inline constexpr bool IsFrequent = false;
template <> inline constexpr bool IsFrequent<ExpFunction> = true;
template <> inline constexpr bool IsFrequent<ReluFunction> = true;
template <> inline constexpr bool IsFrequent<SigmoidFunction> = true;
template <> inline constexpr bool IsFrequent<TanhFunction> = true;

template <class Vector, class F, class E = ElementOf<Vector>>
MLBRIDGE_INLINE void map(E *y, const E *x, int64_t count, const int64_t *parameters) {
  using V = typename LanesOf<Vector>::Type;
  if constexpr (IsFrequent<F> && !IsArray<V>)
    mapFast<V, F>(y, x, count, parameters);
  else if constexpr (F::Size == Length::InDouble && sizeof(E) == 4)
    mapInDouble<V>(functionOf<typename WideOf<V>::Type, F>, y, x, count);
  else if constexpr (F::Size == Length::Short && !IsArray<V>)
    mapShort<V>(mapWhole<V, F>, y, x, count, parameters);
  else
    mapLong<V>(functionOf<V, F>, y, x, count, parameters);
}

#endif

#define MLBRIDGE_UNARY(Name)                                                                       \
  template <class V> MLBRIDGE_INLINE void Name(Operands operands, Parameters p) {                  \
    using E = ElementOf<V>;                                                                        \
    map<V, Name##Function>(static_cast<E *>(operands[0]), static_cast<const E *>(operands[1]),     \
                           p[0], p + 1);                                                           \
  }
MLBRIDGE_NATIVE_FLOAT_UNARY(MLBRIDGE_UNARY)
#undef MLBRIDGE_UNARY

/// Applies an activation in place.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void activate(E *y, int64_t count, const int64_t *activation) {
#ifdef MLBRIDGE_NATIVE_WITHOUT_TABLES // what is compiled ahead of time
  switch (static_cast<Activation>(activation[0])) {
  case Activation::None:
    return;
#define MLBRIDGE_ACTIVATION(Name)                                                                  \
  case Activation::Name:                                                                           \
    return map<V, Name##Function>(y, y, count, activation + 1);
    MLBRIDGE_NATIVE_ACTIVATIONS(MLBRIDGE_ACTIVATION)
#undef MLBRIDGE_ACTIVATION
  }
#else
  if constexpr (sizeof(ElementOf<V>) == 4 && !IsArray<V>) {
    switch (static_cast<Activation>(activation[0])) {
    case Activation::Relu:
      return map<V, ReluFunction>(y, y, count, activation + 1);
    case Activation::Sigmoid:
      return map<V, SigmoidFunction>(y, y, count, activation + 1);
    case Activation::Tanh:
      return map<V, TanhFunction>(y, y, count, activation + 1);
    default:
      break;
    }
  }
  const KernelId id = kernelOf(static_cast<Activation>(activation[0]));
  if (id == KernelId::Count)
    return;
  const int apart = sizeof(ElementOf<V>) == 8; // GemmF64 follows GemmF32
  void *const operands[] = {y, y};
  const int64_t parameters[] = {count, activation[1], activation[2]};
  kernelsFor(SetOf<V>)[static_cast<int>(id) + apart](operands, parameters);
#endif
}

// ---- two operands -------------------------------------------------------------------------------

#define MLBRIDGE_FUNCTION(Name, expression)                                                        \
  struct Name##Function {                                                                          \
    template <class V> static MLBRIDGE_INLINE V apply(V a, V b) { return expression; }             \
  };
MLBRIDGE_FUNCTION(Add, a + b)
MLBRIDGE_FUNCTION(Sub, a - b)
MLBRIDGE_FUNCTION(Mul, a *b)
MLBRIDGE_FUNCTION(Div, a / b)
MLBRIDGE_FUNCTION(Max, greatestOrNan(a, b))
MLBRIDGE_FUNCTION(Min, leastOrNan(a, b))
MLBRIDGE_FUNCTION(PRelu, V::select(V::less(a, constant<V>(0)), a *b, a))
#undef MLBRIDGE_FUNCTION
struct PowFunction {
  template <class V> static MLBRIDGE_INLINE V apply(V a, V b) {
    if constexpr (sizeof(ElementOf<V>) == 8) {
      return powDouble(a, b);
    } else {
      typename WideOf<V>::Type x[2], y[2];
      widen(a, x[0], x[1]);
      widen(b, y[0], y[1]);
      x[0] = powDouble(x[0], y[0]);
      if constexpr (V::Lanes > 1)
        x[1] = powDouble(x[1], y[1]);
      narrow(x[0], x[1], a);
      return a;
    }
  }
};

/// y[i] = f(a[i], b[i]), n of them; the strides are 0 or 1.
using Row = void (*)(void *y, const void *a, int64_t strideA, const void *b, int64_t strideB,
                     int64_t n);
template <class Vector, class F>
MLBRIDGE_SHARED void combineRow(void *to, const void *as, int64_t strideA, const void *bs,
                                int64_t strideB, int64_t n) {
  using V = typename LanesOf<Vector>::Type;
  using E = ElementOf<V>;
  E *y = static_cast<E *>(to);
  const E *a = static_cast<const E *>(as), *b = static_cast<const E *>(bs);
  for (int64_t i = 0; i < n; i += V::Lanes, a += strideA * V::Lanes, b += strideB * V::Lanes) {
    const V x = strideA ? loadUpTo<V>(a, n - i) : V::broadcast(*a);
    const V z = strideB ? loadUpTo<V>(b, n - i) : V::broadcast(*b);
    storeUpTo(F::apply(x, z), y + i, n - i);
  }
}

/// Brings n elements together.
MLBRIDGE_PLAIN void bring(void *block, const void *x, int64_t width, int64_t stride, int64_t n);
/// Rows of y, which is dense; dimensions as for eachRow<2>.
MLBRIDGE_PLAIN void combineRows(Row row, Operands o, int64_t width, int64_t rank,
                                const int64_t *dimensions);
#ifdef MLBRIDGE_NATIVE_BUSY
MLBRIDGE_PLAIN void bring(void *block, const void *x, int64_t width, int64_t stride, int64_t n) {
  withWidth(width, [&](auto element) MLBRIDGE_ALWAYS {
    auto *to = static_cast<decltype(element) *>(block);
    const auto *from = static_cast<const decltype(element) *>(x);
    for (int64_t k = 0; k < n; ++k)
      moveAs(to + k, from + k * stride);
  });
}
MLBRIDGE_PLAIN void combineRows(Row row, Operands o, int64_t width, int64_t rank,
                                const int64_t *dimensions) {
  constexpr int64_t Piece = 64;
  char *y = static_cast<char *>(o[0]);
  const int64_t one[3] = {1, 0, 0};
  const int64_t *inner = rank > 0 ? dimensions + 3 * (rank - 1) : one;
  const int64_t n = inner[0], strideA = inner[1], strideB = inner[2];
  const bool apart = strideA >> 1 != 0 || strideB >> 1 != 0;
  eachRow<2>(rank, dimensions, [&](const int64_t *at) MLBRIDGE_ALWAYS {
    const char *a = static_cast<const char *>(o[1]) + at[0] * width;
    const char *b = static_cast<const char *>(o[2]) + at[1] * width;
    if (!apart) {
      row(y, a, strideA, b, strideB, n);
    } else { // brought together first
      alignas(8) char as[8 * Piece], bs[8 * Piece];
      for (int64_t i = 0; i < n; i += Piece) {
        const int64_t count = n - i < Piece ? n - i : Piece;
        bring(as, a + i * strideA * width, width, strideA, count);
        bring(bs, b + i * strideB * width, width, strideB, count);
        row(y + i * width, as, 1, bs, 1, count);
      }
    }
    y += n * width;
  });
}
#endif

#define MLBRIDGE_BINARY(Name)                                                                      \
  template <class V> MLBRIDGE_INLINE void Name(Operands operands, Parameters p) {                  \
    combineRows(combineRow<V, Name##Function>, operands, sizeof(ElementOf<V>), p[0], p + 1);       \
  }
MLBRIDGE_NATIVE_FLOAT_BINARY(MLBRIDGE_BINARY)
#undef MLBRIDGE_BINARY

// ---- half precision -----------------------------------------------------------------------------

template <class Isa> MLBRIDGE_INLINE void F32FromF16(Operands operands, Parameters p) {
  float *y = static_cast<float *>(operands[0]);
  const uint16_t *x = static_cast<const uint16_t *>(operands[1]);
  int64_t i = 0;
  for (; i + 16 <= p[0]; i += 16)
    Isa::fromHalf(x + i).store(y + i);
  if (i < p[0]) {
    uint16_t rest[16] = {};
    for (int64_t j = i; j < p[0]; ++j)
      rest[j - i] = x[j];
    Isa::fromHalf(rest).storePartial(y + i, static_cast<int>(p[0] - i));
  }
}

template <class Isa> MLBRIDGE_INLINE void F16FromF32(Operands operands, Parameters p) {
  uint16_t *y = static_cast<uint16_t *>(operands[0]);
  const float *x = static_cast<const float *>(operands[1]);
  int64_t i = 0;
  for (; i + 16 <= p[0]; i += 16)
    Isa::toHalf(Isa::F32::load(x + i), y + i);
  if (i < p[0]) {
    uint16_t rest[16];
    Isa::toHalf(Isa::F32::loadPartial(x + i, static_cast<int>(p[0] - i)), rest);
    for (int64_t j = i; j < p[0]; ++j)
      y[j] = rest[j - i];
  }
}

} // namespace mlbridge::native::kernels

#endif
