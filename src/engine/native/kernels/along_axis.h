// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, orders, sums and normalizations along one axis of [outer, n, inner], and sums over
// edges of graphs. Sums along a dense axis have four chains of vectors, as dot of gemm.h does.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_ALONG_AXIS_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_ALONG_AXIS_H

#include "elementwise.h"

namespace mlbridge::native::kernels {

// ---- reductions ---------------------------------------------------------------------------------

/// `take` takes a value into the sum, `join` two sums into one, `joinOne` as single numbers.
#define MLBRIDGE_REDUCTION(Name, start, takeExpression, joinExpression, oneExpression)             \
  struct Name {                                                                                    \
    static constexpr double Start = start;                                                         \
    template <class V> static MLBRIDGE_INLINE V take(V sum, V x) { return takeExpression; }        \
    template <class V> static MLBRIDGE_INLINE V join(V sum, V x) { return joinExpression; }        \
    template <class E> static MLBRIDGE_INLINE E joinOne(E sum, E x) { return oneExpression; }      \
  };
MLBRIDGE_REDUCTION(SumOf, 0, sum + x, sum + x, sum + x)
MLBRIDGE_REDUCTION(ProductOf, 1, sum *x, sum *x, sum *x)
MLBRIDGE_REDUCTION(GreatestOf, -__builtin_inf(), greatestOrNan(sum, x), greatestOrNan(sum, x),
                   sum != sum || sum > x ? sum : x)
MLBRIDGE_REDUCTION(LeastOf, __builtin_inf(), leastOrNan(sum, x), leastOrNan(sum, x),
                   sum != sum || sum < x ? sum : x)
MLBRIDGE_REDUCTION(MagnitudesOf, 0, sum + absolute(x), sum + x, sum + x)
MLBRIDGE_REDUCTION(SquaresOf, 0, V::fma(x, x, sum), sum + x, sum + x)
#undef MLBRIDGE_REDUCTION

/// The first `left` lanes of v, 0 elsewhere.
template <class V> MLBRIDGE_INLINE V firstLanes(V v, int64_t left) {
  if (V::Lanes == 1 || left >= V::Lanes)
    return v;
  ElementOf<V> lanes[V::Lanes];
  v.store(lanes);
  return V::loadPartial(lanes, static_cast<int>(left));
}
/// The first `left` lanes from p, the others `other`.
template <class V, class E = ElementOf<V>>
MLBRIDGE_INLINE V loadOr(const E *p, int64_t left, E other) {
  E lanes[V::Lanes];
  V::broadcast(other).store(lanes);
  storeUpTo(loadUpTo<V>(p, left), lanes, left);
  return V::load(lanes);
}

/// n numbers that lie side by side, in four chains of vectors; then chains and lanes by halves.
template <class V, class R, class E = ElementOf<V>>
MLBRIDGE_SHARED E reduceSpan(const E *x, int64_t n) {
  using L = typename LanesOf<V>::Type;
  constexpr int64_t Step = 4 * V::Lanes;
  E lanes[Step];
  if constexpr (IsArray<V>) {
    for (E &lane : lanes)
      lane = static_cast<E>(R::Start);
    for (int64_t i = 0; i < n; ++i)
      R::take(L::load(lanes + i % Step), L::load(x + i)).store(lanes + i % Step);
  } else {
    V sums[4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s)
      sums[s] = constant<V>(R::Start);
    for (int64_t i = 0; i < n; i += Step) {
      const E *from = x + i;
      if (n - i < Step) { // what it starts with changes nothing
        from = lanes;
        for (int64_t k = 0; k < Step; k += L::Lanes)
          (i + k < n ? loadOr<L>(x + i + k, n - i - k, static_cast<E>(R::Start))
                     : constant<L>(R::Start))
              .store(lanes + k);
      }
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s)
        sums[s] = R::take(sums[s], V::load(from + s * V::Lanes));
    }
    const V sum = R::join(R::join(sums[0], sums[2]), R::join(sums[1], sums[3]));
    if constexpr (R::Start == 0)
      return V::sum(sum);
    sum.store(lanes);
    for (int64_t half = V::Lanes / 2; half >= L::Lanes; half /= 2)
      for (int64_t i = 0; i < half; i += L::Lanes)
        R::join(L::load(lanes + i), L::load(lanes + i + half)).store(lanes + i);
  }
  for (int64_t half = IsArray<V> ? Step / 2 : L::Lanes / 2; half; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      lanes[i] = R::joinOne(lanes[i], lanes[i + half]);
  return lanes[0];
}

/// Columns that lie side by side, each of n numbers `stride` apart.
template <class V, class R, class E = ElementOf<V>>
MLBRIDGE_SHARED void reduceColumns(E *y, const E *x, int64_t n, int64_t stride, int64_t columns) {
  for (int64_t i = 0; i < columns; i += V::Lanes) {
    V sum = constant<V>(R::Start);
    for (int64_t j = 0; j < n; ++j)
      sum = R::take(sum, loadUpTo<V>(x + j * stride + i, columns - i));
    storeUpTo(sum, y + i, columns - i);
  }
}

template <class E> struct ReduceWith {
  E (*span)(const E *, int64_t);
  void (*columns)(E *, const E *, int64_t, int64_t, int64_t);
};
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void reduceWith(ReduceWith<E> with, Operands operands, Parameters p) {
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]);
  const int64_t n = p[1], inner = p[2];
  for (int64_t o = 0; o < p[0]; ++o, x += n * inner, y += inner)
    if (inner == 1)
      *y = with.span(x, n);
    else
      with.columns(y, x, n, inner, inner);
}

/// The mean of a sum.
#define MLBRIDGE_FUNCTION(Name, expression)                                                        \
  struct Name##Function {                                                                          \
    template <class V> static MLBRIDGE_INLINE V apply(V x, const AlphaBeta<V> &p) {                \
      return expression;                                                                           \
    }                                                                                              \
  };
MLBRIDGE_FUNCTION(Share, x / p.alpha)
#undef MLBRIDGE_FUNCTION

#define MLBRIDGE_REDUCE(Name, Reduction, finish)                                                   \
  template <class V> MLBRIDGE_INLINE void Name(Operands operands, Parameters p) {                  \
    using E [[maybe_unused]] = ElementOf<V>;                                                       \
    reduceWith<V>({reduceSpan<V, Reduction>, reduceColumns<typename LanesOf<V>::Type, Reduction>}, \
                  operands, p);                                                                    \
    finish                                                                                         \
  }
#define MLBRIDGE_FINISH(Name, number)                                                              \
  const int64_t parameters[2] = {real(number), 0};                                                 \
  E *const y = static_cast<E *>(operands[0]);                                                      \
  map<V, Name##Function>(y, y, p[0] * p[2], parameters);
MLBRIDGE_REDUCE(ReduceSum, SumOf, )
MLBRIDGE_REDUCE(ReduceMean, SumOf, MLBRIDGE_FINISH(Share, static_cast<double>(p[1])))
MLBRIDGE_REDUCE(ReduceMax, GreatestOf, )
MLBRIDGE_REDUCE(ReduceMin, LeastOf, )
MLBRIDGE_REDUCE(ReduceProd, ProductOf, )
MLBRIDGE_REDUCE(ReduceL1, MagnitudesOf, )
MLBRIDGE_REDUCE(ReduceL2, SquaresOf, MLBRIDGE_FINISH(Sqrt, 0.0))
MLBRIDGE_REDUCE(ReduceSumSquare, SquaresOf, )
MLBRIDGE_REDUCE(ReduceLogSum, SumOf, MLBRIDGE_FINISH(Log, 0.0))
#undef MLBRIDGE_FINISH
#undef MLBRIDGE_REDUCE

/// Exact, so that the order doesn't matter. Two chains of vectors.
template <class V> MLBRIDGE_INLINE void CountLess(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  E *y = static_cast<E *>(operands[0]);
  const E *a = static_cast<const E *>(operands[1]);
  const E *b = static_cast<const E *>(operands[2]);
  const bool orEqual = p[0] != 0;
  const int64_t n = p[2];
  for (int64_t o = 0; o < p[1]; ++o, a += p[3], b += p[5]) {
    const auto at = [&](int64_t i) {
      const V x = p[4] ? loadUpTo<V>(a + i, n - i) : V::broadcast(*a);
      const V z = p[6] ? loadUpTo<V>(b + i, n - i) : V::broadcast(*b);
      const V one = V::broadcast(1), zero = V::broadcast(0);
      return orEqual ? V::select(V::lessEqual(x, z), one, zero)
                     : V::select(V::less(x, z), one, zero);
    };
    V even = V::broadcast(0), odd = even;
    int64_t i = 0;
    for (; i + 2 * V::Lanes <= n; i += 2 * V::Lanes) {
      even = even + at(i);
      odd = odd + at(i + V::Lanes);
    }
    for (; i < n; i += V::Lanes)
      even = even + firstLanes(at(i), n - i);
    *y++ = V::sum(even + odd);
  }
}

/// The greatest of a row, NaN left out. Exact, so that the order doesn't matter.
template <class V, class E = ElementOf<V>> MLBRIDGE_INLINE E greatestOfRow(const E *x, int64_t n) {
  constexpr E Least = static_cast<E>(GreatestOf::Start);
  V even = V::broadcast(Least), odd = even;
  int64_t i = 0;
  for (; i + 2 * V::Lanes <= n; i += 2 * V::Lanes) {
    even = V::greatest(V::load(x + i), even);
    odd = V::greatest(V::load(x + i + V::Lanes), odd);
  }
  if (i + V::Lanes <= n) {
    even = V::greatest(V::load(x + i), even);
    i += V::Lanes;
  }
  if (i < n)
    odd = V::greatest(loadOr<V>(x + i, n - i, Least), odd);
  E lanes[V::Lanes];
  V::greatest(even, odd).store(lanes);
  for (int half = V::Lanes / 2; half; half /= 2)
    for (int k = 0; k < half; ++k)
      lanes[k] = lanes[k] > lanes[k + half] ? lanes[k] : lanes[k + half];
  return lanes[0];
}

/// The sum of exp(x[i] - shift), kept in y unless that is null. One chain of vectors.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED E sumOfExp(E *y, const E *x, int64_t n, E shift) {
  using L = typename LanesOf<V>::Type;
  constexpr int Parts = V::Lanes / L::Lanes;
  L parts[Parts];
  for (L &part : parts)
    part = L::broadcast(0);
  const L by = L::broadcast(shift);
  for (int64_t i = 0; i < n;)
#pragma GCC unroll 2
    for (int part = 0; part < Parts && i < n; ++part, i += L::Lanes) {
      const L e = expOfNegative(loadUpTo<L>(x + i, n - i) - by);
      if (y)
        storeUpTo(e, y + i, n - i);
      parts[part] = parts[part] + firstLanes(e, n - i);
    }
  E sums[V::Lanes];
  for (int part = 0; part < Parts; ++part)
    parts[part].store(sums + part * L::Lanes);
  if constexpr (!IsArray<V>)
    return V::sum(V::load(sums));
  return sumByHalves<V>(sums, V::Lanes);
}

/// Functions of sums of exponentials, along one dense row (inner = 1) or a vector of neighbouring
/// columns.
enum class ExpSum { Softmax, LogSoftmax, LogSumExp };

template <class V> MLBRIDGE_SHARED void expSums(Operands operands, Parameters p, ExpSum kind) {
  using E = ElementOf<V>;
  using L = typename LanesOf<V>::Type;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]);
  const int64_t outer = p[0], n = p[1], inner = p[2];
  const bool total = kind == ExpSum::LogSumExp, keeps = kind == ExpSum::Softmax;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; i += inner == 1 ? 1 : L::Lanes) {
      const E *from = x + o * n * inner + i;
      E *to = y + (total ? o * inner : o * n * inner) + i;
      const int64_t left = inner - i;
      L greatest, sum;
      if (inner == 1) {
        greatest = L::broadcast(greatestOfRow<L>(from, n)); // of NaN, the sum is NaN
      } else {
        greatest = constant<L>(GreatestOf::Start);
        for (int64_t j = 0; j < n; ++j)
          greatest = greatestOrNan(greatest, loadUpTo<L>(from + j * inner, left));
      }
      if (total) // what is infinite shall stay so
        greatest = L::select(L::less(absolute(greatest), infinity<L>()), greatest, L::broadcast(0));
      if (inner == 1) {
        E shift[L::Lanes];
        greatest.store(shift);
        sum = L::broadcast(sumOfExp<V>(keeps ? to : nullptr, from, n, shift[0]));
      } else {
        sum = L::broadcast(0);
        for (int64_t j = 0; j < n; ++j) {
          const L e = exp(loadUpTo<L>(from + j * inner, left) - greatest);
          if (keeps)
            storeUpTo(e, to + j * inner, left);
          sum = sum + e;
        }
      }
      const L logarithm = keeps ? sum : LogFunction::apply(sum, AlphaBeta<L>{});
      if (total) {
        storeUpTo(logarithm + greatest, to, inner == 1 ? 1 : left);
        continue;
      }
      const L share = constant<L>(1) / sum;
      if (keeps && inner == 1) {
        for (int64_t j = 0; j < n; j += L::Lanes)
          storeUpTo(loadUpTo<L>(to + j, n - j) * share, to + j, n - j);
        continue;
      }
      // Rows of one column, or the columns of one row.
      const int64_t step = inner == 1 ? L::Lanes : 1;
      for (int64_t j = 0; j < n; j += step) {
        const int64_t at = j * inner, count = inner == 1 ? n - j : left;
        storeUpTo(keeps ? loadUpTo<L>(to + at, count) * share
                        : (loadUpTo<L>(from + at, count) - greatest) - logarithm,
                  to + at, count);
      }
    }
}

template <class V> MLBRIDGE_INLINE void ReduceLogSumExp(Operands operands, Parameters p) {
  expSums<V>(operands, p, ExpSum::LogSumExp);
}
template <class V> MLBRIDGE_INLINE void Softmax(Operands operands, Parameters p) {
  expSums<V>(operands, p, ExpSum::Softmax);
}
template <class V> MLBRIDGE_INLINE void LogSoftmax(Operands operands, Parameters p) {
  expSums<V>(operands, p, ExpSum::LogSoftmax);
}

// ---- sums so far --------------------------------------------------------------------------------

template <class V> MLBRIDGE_INLINE void CumSum(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  const int64_t n = p[1], inner = p[2], apart = p[4] ? -inner : inner;
  const bool isExclusive = p[3] != 0, isProduct = p[5] != 0;
  const CombineRow<E> row = isProduct ? combineRow<V, MulFunction> : combineRow<V, AddFunction>;
  const E start = isProduct ? 1 : 0;
  for (int64_t o = 0; o < p[0]; ++o) {
    const int64_t first = (o * n + (p[4] ? n - 1 : 0)) * inner;
    E *y = static_cast<E *>(operands[0]) + first;
    const E *x = static_cast<const E *>(operands[1]) + first;
    E sum = start;
    for (int64_t j = 0; j < n; ++j, y += apart, x += apart) {
      if (inner != 1) {
        const bool takesNone = isExclusive && j == 0;
        row(y, j ? y - apart : &start, j != 0,
            takesNone     ? &start
            : isExclusive ? x - apart
                          : x,
            !takesNone, inner);
        continue;
      }
      const E next = isProduct ? sum * *x : sum + *x;
      *y = isExclusive ? sum : next;
      sum = next;
    }
  }
}

// ---- normalization ------------------------------------------------------------------------------

/// The sum of (x - mean)². One chain of vectors.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED E squaredDeviations(const E *x, int64_t n, E mean) {
  using L = typename LanesOf<V>::Type;
  E sums[V::Lanes] = {};
  for (int64_t i = 0; i < n; i += L::Lanes) {
    const L d = firstLanes(loadUpTo<L>(x + i, n - i) - L::broadcast(mean), n - i);
    L::fma(d, d, L::load(sums + i % V::Lanes)).store(sums + i % V::Lanes);
  }
  return sumByHalves<V>(sums, V::Lanes);
}

/// 1 over the root of a mean of squares.
template <class V, class E = ElementOf<V>>
MLBRIDGE_INLINE V inverseRoot(E sum, int64_t n, int64_t epsilon) {
  const V mean = V::broadcast(sum) / V::broadcast(static_cast<E>(n));
  return constant<V>(1) / V::sqrt(mean + V::broadcast(realOf<E>(epsilon)));
}

/// y = (x - mean) inverse scale + bias, of n numbers; each of the last two may be null. One number
/// of them for all, or one for each.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void normalizeRow(E *y, const E *x, int64_t n, V mean, V inverse, const E *scale,
                                  const E *bias) {
  for (int64_t i = 0; i < n; i += V::Lanes) {
    V v = (loadUpTo<V>(x + i, n - i) - mean) * inverse;
    if (scale)
      v = v * loadUpTo<V>(scale + i, n - i);
    if (bias)
      v = v + loadUpTo<V>(bias + i, n - i);
    storeUpTo(v, y + i, n - i);
  }
}

/// Mean and inverse deviation of n numbers side by side, in every lane.
template <class Vector, class V, class E = ElementOf<Vector>>
MLBRIDGE_SHARED void moments(const E *x, int64_t n, int64_t epsilon, V &mean, V &inverse) {
  mean = V::broadcast(reduceSpan<Vector, SumOf>(x, n)) / V::broadcast(static_cast<E>(n));
  E first[V::Lanes];
  mean.store(first);
  inverse = inverseRoot<V>(squaredDeviations<Vector>(x, n, first[0]), n, epsilon);
}

template <class Vector> MLBRIDGE_INLINE void LayerNorm(Operands operands, Parameters p) {
  using V = typename LanesOf<Vector>::Type;
  using E = ElementOf<V>;
  E *y = static_cast<E *>(operands[0]), *means = static_cast<E *>(operands[1]),
    *inverses = static_cast<E *>(operands[2]);
  const E *x = static_cast<const E *>(operands[3]), *scale = static_cast<const E *>(operands[4]),
          *bias = static_cast<const E *>(operands[5]);
  const int64_t n = p[1];
  for (int64_t row = 0; row < p[0]; ++row, x += n, y += n) {
    V mean, inverse;
    moments<Vector>(x, n, p[2], mean, inverse);
    if (means)
      storeUpTo(mean, means + row, 1);
    if (inverses)
      storeUpTo(inverse, inverses + row, 1);
    normalizeRow(y, x, n, mean, inverse, scale, bias);
  }
}

template <class Vector> MLBRIDGE_INLINE void RmsNorm(Operands operands, Parameters p) {
  using V = typename LanesOf<Vector>::Type;
  using E = ElementOf<V>;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]), *scale = static_cast<const E *>(operands[2]);
  const int64_t n = p[1];
  for (int64_t row = 0; row < p[0]; ++row, x += n, y += n) {
    const V inverse = inverseRoot<V>(reduceSpan<Vector, SquaresOf>(x, n), n, p[2]);
    normalizeRow<V>(y, x, n, V::broadcast(0), inverse, scale, static_cast<const E *>(nullptr));
  }
}

template <class Vector> MLBRIDGE_INLINE void BatchNorm(Operands operands, Parameters p) {
  using V = typename LanesOf<Vector>::Type;
  using E = ElementOf<V>;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]), *scale = static_cast<const E *>(operands[2]),
          *bias = static_cast<const E *>(operands[3]), *mean = static_cast<const E *>(operands[4]),
          *variance = static_cast<const E *>(operands[5]);
  const int64_t channels = p[1], inner = p[2];
  const V epsilon = V::broadcast(realOf<E>(p[3]));
  // Rows of all channels, or the numbers of one channel.
  const bool all = inner == 1;
  const int64_t n = all ? channels : inner;
  const auto ofChannel = [all](const E *values, int64_t channel, int64_t i, int64_t left) {
    return all ? loadUpTo<V>(values + i, left) : V::broadcast(values[channel]);
  };
  V inverse = epsilon;
  for (int64_t o = 0; o < p[0]; ++o)
    for (int64_t c = 0; c < (all ? 1 : channels); ++c, x += n, y += n)
      for (int64_t i = 0; i < n; i += V::Lanes) {
        const int64_t left = n - i;
        if (all || i == 0)
          inverse = constant<V>(1) / V::sqrt(ofChannel(variance, c, i, left) + epsilon);
        const V v = (loadUpTo<V>(x + i, left) - ofChannel(mean, c, i, left)) * inverse;
        storeUpTo(V::fma(v, ofChannel(scale, c, i, left), ofChannel(bias, c, i, left)), y + i,
                  left);
      }
}

template <class Vector> MLBRIDGE_INLINE void GroupNorm(Operands operands, Parameters p) {
  using V = typename LanesOf<Vector>::Type;
  using E = ElementOf<V>;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]), *scale = static_cast<const E *>(operands[2]),
          *bias = static_cast<const E *>(operands[3]);
  const int64_t groups = p[1], channels = p[2], inner = p[3];
  for (int64_t batch = 0; batch < p[0]; ++batch)
    for (int64_t group = 0; group < groups; ++group) {
      V mean, inverse;
      moments<Vector>(x, channels * inner, p[4], mean, inverse);
      for (int64_t c = 0; c < channels; ++c, x += inner, y += inner) {
        const int64_t channel = group * channels + c;
        const V s = scale ? V::broadcast(scale[channel]) : constant<V>(1);
        const V b = bias ? V::broadcast(bias[channel]) : constant<V>(0);
        for (int64_t i = 0; i < inner; i += V::Lanes)
          storeUpTo(V::fma((loadUpTo<V>(x + i, inner - i) - mean) * inverse, s, b), y + i,
                    inner - i);
      }
    }
}

// ---- graphs -------------------------------------------------------------------------------------

template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void scatterRows(CombineRow<E> row, Operands operands, Parameters p) {
  E *y = static_cast<E *>(operands[0]);
  const E *updates = static_cast<const E *>(operands[1]);
  const int64_t *indices = static_cast<const int64_t *>(operands[2]);
  const int64_t rows = p[1], length = p[2];
  for (int64_t i = 0; i < p[0]; ++i, updates += length) {
    int64_t at = indices[i * p[3]];
    if (at < 0)
      at += rows;
    if (at < 0 || at >= rows) {
      *static_cast<int64_t *>(operands[3]) = 1;
      continue;
    }
    E *to = y + at * length;
    row(to, to, 1, updates, 1, length);
  }
}
#define MLBRIDGE_SCATTER(Name, Function)                                                           \
  template <class V> MLBRIDGE_INLINE void Name(Operands operands, Parameters p) {                  \
    scatterRows<V>(combineRow<V, Function>, operands, p);                                          \
  }
MLBRIDGE_SCATTER(ScatterAddRows, AddFunction)
MLBRIDGE_SCATTER(ScatterMulRows, MulFunction)
MLBRIDGE_SCATTER(ScatterMaxRows, MaxFunction)
MLBRIDGE_SCATTER(ScatterMinRows, MinFunction)
#undef MLBRIDGE_SCATTER

} // namespace mlbridge::native::kernels

#endif
