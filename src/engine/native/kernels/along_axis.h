// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, orders, sums and normalizations along one axis of [outer, n, inner], and sums over
// edges of graphs. Sums along a dense axis have four chains of vectors, as dot of gemm.h does.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_ALONG_AXIS_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_ALONG_AXIS_H

#include "elementwise.h"

namespace mlbridge::native::kernels {

// ---- reductions ---------------------------------------------------------------------------------

/// `take` takes a value into the sum, `join` two sums into one, `joinOne` as single numbers. The
/// least is made as the greatest of the numbers with their signs flipped.
#define MLBRIDGE_REDUCTION(Name, start, takeExpression, joinExpression, oneExpression)             \
  struct Name {                                                                                    \
    static constexpr double Start = start;                                                         \
    static constexpr bool Flips = start < 0;                                                       \
    template <class V> static MLBRIDGE_INLINE V take(V sum, V x) { return takeExpression; }        \
    template <class V> static MLBRIDGE_INLINE V join(V sum, V x) { return joinExpression; }        \
    template <class E> static MLBRIDGE_INLINE E joinOne(E sum, E x) { return oneExpression; }      \
  };
MLBRIDGE_REDUCTION(SumOf, 0, sum + x, sum + x, sum + x)
MLBRIDGE_REDUCTION(ProductOf, 1, sum *x, sum *x, sum *x)
MLBRIDGE_REDUCTION(GreatestOf, -__builtin_inf(), greatestOrNan(sum, x), greatestOrNan(sum, x),
                   sum != sum || sum > x ? sum : x)
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

/// Flips the signs of vectors if that is wanted, and R may want it.
template <class V, class R> struct Flip {
  V mask;
  MLBRIDGE_INLINE explicit Flip(bool isFlipped)
      : mask(V::broadcastBits(isFlipped ? BitsOf<ElementOf<V>>::Sign : 0)) {}
  MLBRIDGE_INLINE V operator()(V x) const {
    if constexpr (R::Flips)
      return V::bitXor(x, mask);
    else
      return x;
  }
};

/// n numbers that lie side by side, in four chains of vectors; then chains and lanes by halves.
template <class V, class R, class E = ElementOf<V>>
MLBRIDGE_SHARED E reduceSpan(const E *x, int64_t n, bool isFlipped) {
  using L = typename LanesOf<V>::Type;
  constexpr int64_t Step = 4 * V::Lanes;
  const Flip<V, R> flip(isFlipped);
  const Flip<L, R> flipLanes(isFlipped);
  const E start = R::Flips && isFlipped ? -static_cast<E>(R::Start) : static_cast<E>(R::Start);
  E lanes[Step];
  if constexpr (IsArray<V>) {
    for (E &lane : lanes)
      lane = static_cast<E>(R::Start);
    for (int64_t i = 0; i < n; ++i)
      R::take(L::load(lanes + i % Step), flipLanes(L::load(x + i))).store(lanes + i % Step);
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
          (i + k < n ? loadOr<L>(x + i + k, n - i - k, start) : L::broadcast(start))
              .store(lanes + k);
      }
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s)
        sums[s] = R::take(sums[s], flip(V::load(from + s * V::Lanes)));
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
  return R::Flips && isFlipped ? -lanes[0] : lanes[0];
}

/// Columns that lie side by side, each of n numbers.
template <class V, class R, class E = ElementOf<V>>
MLBRIDGE_SHARED void reduceColumns(E *y, const E *x, int64_t n, int64_t columns, bool isFlipped) {
  const Flip<V, R> flip(isFlipped);
  for (int64_t i = 0; i < columns; i += V::Lanes) {
    V sum = constant<V>(R::Start);
    for (int64_t j = 0; j < n; ++j)
      sum = R::take(sum, flip(loadUpTo<V>(x + j * columns + i, columns - i)));
    storeUpTo(flip(sum), y + i, columns - i);
  }
}

template <class E> struct ReduceWith {
  E (*span)(const E *, int64_t, bool);
  void (*columns)(E *, const E *, int64_t, int64_t, bool);
  bool isFlipped;
};
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void reduceWith(ReduceWith<E> with, Operands operands, Parameters p) {
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]);
  const int64_t n = p[1], inner = p[2];
  for (int64_t o = 0; o < p[0]; ++o, x += n * inner, y += inner)
    if (inner == 1)
      *y = with.span(x, n, with.isFlipped);
    else
      with.columns(y, x, n, inner, with.isFlipped);
}

/// The mean of a sum.
MLBRIDGE_FUNCTION_OF(Share, Short, x / p.alpha)

#define MLBRIDGE_REDUCE(Name, Reduction, isFlipped, finish)                                        \
  template <class V> MLBRIDGE_INLINE void Name(Operands operands, Parameters p) {                  \
    using E [[maybe_unused]] = ElementOf<V>;                                                       \
    reduceWith<V>({reduceSpan<V, Reduction>, reduceColumns<typename LanesOf<V>::Type, Reduction>,  \
                   isFlipped},                                                                     \
                  operands, p);                                                                    \
    finish                                                                                         \
  }
#define MLBRIDGE_FINISH(Name, number)                                                              \
  const int64_t parameters[2] = {real(number), 0};                                                 \
  E *const y = static_cast<E *>(operands[0]);                                                      \
  map<V, Name##Function>(y, y, p[0] * p[2], parameters);
MLBRIDGE_REDUCE(ReduceSum, SumOf, false, )
MLBRIDGE_REDUCE(ReduceMean, SumOf, false, MLBRIDGE_FINISH(Share, static_cast<double>(p[1])))
MLBRIDGE_REDUCE(ReduceMax, GreatestOf, false, )
MLBRIDGE_REDUCE(ReduceMin, GreatestOf, true, )
MLBRIDGE_REDUCE(ReduceProd, ProductOf, false, )
MLBRIDGE_REDUCE(ReduceL1, MagnitudesOf, false, )
MLBRIDGE_REDUCE(ReduceL2, SquaresOf, false, MLBRIDGE_FINISH(Sqrt, 0.0))
MLBRIDGE_REDUCE(ReduceSumSquare, SquaresOf, false, )
MLBRIDGE_REDUCE(ReduceLogSum, SumOf, false, MLBRIDGE_FINISH(Log, 0.0))
#undef MLBRIDGE_FINISH
#undef MLBRIDGE_REDUCE

/// Exact, so that the order doesn't matter.
template <class Vector> MLBRIDGE_INLINE void CountLess(Operands operands, Parameters p) {
  using V = typename LanesOf<Vector>::Type;
  using E = ElementOf<V>;
  E *y = static_cast<E *>(operands[0]);
  const E *a = static_cast<const E *>(operands[1]);
  const E *b = static_cast<const E *>(operands[2]);
  const int64_t n = p[2];
  const V one = V::broadcast(1), zero = V::broadcast(0), ofEqual = p[0] ? one : zero;
  for (int64_t o = 0; o < p[1]; ++o, a += p[3], b += p[5]) {
    V sum = zero;
    for (int64_t i = 0; i < n; i += V::Lanes) {
      const V x = p[4] ? loadUpTo<V>(a + i, n - i) : V::broadcast(*a);
      const V z = p[6] ? loadUpTo<V>(b + i, n - i) : V::broadcast(*b);
      const V counted = V::select(V::less(x, z), one, V::select(V::equal(x, z), ofEqual, zero));
      sum = sum + firstLanes(counted, n - i);
    }
    *y++ = V::sum(sum);
  }
}

/// The greatest of N numbers, none of which is NaN, in registers.
template <int N, class E> MLBRIDGE_INLINE E greatestOf(const E *x) {
  if constexpr (N == 1) {
    return *x;
  } else {
    const E a = greatestOf<N / 2>(x), b = greatestOf<N / 2>(x + N / 2);
    return a > b ? a : b;
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
  return greatestOf<V::Lanes>(lanes);
}

/// The sum of a vector's parts.
template <class V, class L, class E = ElementOf<V>> MLBRIDGE_INLINE E sumOfParts(const L *parts) {
  E sums[V::Lanes];
  for (int part = 0; part < V::Lanes / L::Lanes; ++part)
    parts[part].store(sums + part * L::Lanes);
  if constexpr (!IsArray<V>)
    return V::sum(V::load(sums));
  return sumByHalves<V>(sums, V::Lanes);
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
  return sumOfParts<V>(parts);
}

/// Functions of sums of exponentials, along one dense row (inner = 1) or a vector of neighbouring
/// columns.
enum class ExpSum { Softmax, LogSoftmax, LogSumExp };

template <class V> MLBRIDGE_SHARED void expSums(Operands operands, Parameters p, ExpSum kind) {
  using E = ElementOf<V>;
  using L = typename LanesOf<V>::Type;
  const int64_t n = p[1], inner = p[2];
  const bool isRow = inner == 1;
  const bool total = kind == ExpSum::LogSumExp, keeps = kind == ExpSum::Softmax;
  // A vector of lines at a time; of long rows one, which is read again before it is forgotten.
  const int64_t lines = isRow ? p[0] : inner, most = isRow && n > 1024 ? 1 : L::Lanes;
  for (int64_t o = 0; o < (isRow ? 1 : p[0]); ++o)
    for (int64_t i = 0; i < lines; i += most) {
      const int64_t left = lines - i < most ? lines - i : most;
      const int64_t first = isRow ? i * n : o * n * inner + i;
      const E *from = static_cast<const E *>(operands[1]) + first;
      E *to = static_cast<E *>(operands[0]) + (total ? o * inner + i : first);
      L greatest, sum;
      E shifts[L::Lanes] = {}, sums[L::Lanes] = {};
      if (isRow) {
        for (int64_t r = 0; r < left; ++r) {
          const E shift = greatestOfRow<L>(from + r * n, n);   // of NaN, the sum is NaN
          shifts[r] = total && shift - shift != 0 ? 0 : shift; // what is infinite shall stay so
          sums[r] = sumOfExp<V>(keeps ? to + r * n : nullptr, from + r * n, n, shifts[r]);
        }
        greatest = L::load(shifts);
        sum = L::load(sums);
      } else {
        greatest = constant<L>(GreatestOf::Start);
        for (int64_t j = 0; j < n; ++j)
          greatest = greatestOrNan(greatest, loadUpTo<L>(from + j * inner, left));
        if (total)
          greatest =
              L::select(L::less(absolute(greatest), infinity<L>()), greatest, L::broadcast(0));
        sum = L::broadcast(0);
        for (int64_t j = 0; j < n; ++j) {
          const L e = exp(loadUpTo<L>(from + j * inner, left) - greatest);
          if (keeps)
            storeUpTo(e, to + j * inner, left);
          sum = sum + e;
        }
      }
      // What shares are multiplied with, or what is subtracted.
      const L factor = keeps ? constant<L>(1) / sum : LogFunction::apply(sum, AlphaBeta<L>{});
      if (total) {
        storeUpTo(factor + greatest, to, left);
        continue;
      }
      factor.store(sums);
      for (int64_t r = 0; r < (isRow ? left : 1); ++r) {
        const L f = isRow ? L::broadcast(sums[r]) : factor;
        const L g = isRow ? L::broadcast(shifts[r]) : greatest;
        // Vectors of a row, or the columns of each row.
        for (int64_t j = 0; j < n; j += isRow ? L::Lanes : 1) {
          const int64_t at = isRow ? r * n + j : j * inner, count = isRow ? n - j : left;
          storeUpTo(keeps ? loadUpTo<L>(to + at, count) * f
                          : (loadUpTo<L>(from + at, count) - g) - f,
                    to + at, count);
        }
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
  const Row row = isProduct ? combineRow<V, MulFunction> : combineRow<V, AddFunction>;
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
  constexpr int Parts = V::Lanes / L::Lanes;
  L parts[Parts];
  for (L &part : parts)
    part = L::broadcast(0);
  for (int64_t i = 0; i < n;)
#pragma GCC unroll 2
    for (int part = 0; part < Parts && i < n; ++part, i += L::Lanes) {
      const L d = firstLanes(loadUpTo<L>(x + i, n - i) - L::broadcast(mean), n - i);
      parts[part] = L::fma(d, d, parts[part]);
    }
  return sumOfParts<V>(parts);
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
  mean = V::broadcast(reduceSpan<Vector, SumOf>(x, n, false)) / V::broadcast(static_cast<E>(n));
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
    const V inverse = inverseRoot<V>(reduceSpan<Vector, SquaresOf>(x, n, false), n, p[2]);
    normalizeRow<V>(y, x, n, V::broadcast(0), inverse, scale, static_cast<const E *>(nullptr));
  }
}

/// y = (x - mean) inverse scale + bias, of n numbers side by side.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void normalizeChannel(E *y, const E *x, int64_t n, V mean, V inverse, V scale,
                                      V bias) {
  for (int64_t i = 0; i < n; i += V::Lanes)
    storeUpTo(V::fma((loadUpTo<V>(x + i, n - i) - mean) * inverse, scale, bias), y + i, n - i);
}

/// A vector of up to `left` numbers; of one everywhere if that is 0.
template <class V, class E = ElementOf<V>> MLBRIDGE_SHARED V vectorOf(const E *p, int64_t left) {
  return left ? loadUpTo<V>(p, left) : V::broadcast(*p);
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
  const bool all = inner == 1; // a vector of channels at a time, or one
  for (int64_t o = 0; o < p[0]; ++o)
    for (int64_t c = 0; c < channels; c += all ? V::Lanes : 1) {
      const auto of = [&](const E *values) {
        return vectorOf<V>(values + c, all ? channels - c : 0);
      };
      const int64_t at = (o * channels + c) * inner;
      const int64_t left = channels - c < V::Lanes ? channels - c : V::Lanes;
      normalizeChannel<V>(y + at, x + at, all ? left : inner, of(mean),
                          constant<V>(1) / V::sqrt(of(variance) + epsilon), of(scale), of(bias));
    }
}

template <class Vector> MLBRIDGE_INLINE void GroupNorm(Operands operands, Parameters p) {
  using V = typename LanesOf<Vector>::Type;
  using E = ElementOf<V>;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]), *scale = static_cast<const E *>(operands[2]),
          *bias = static_cast<const E *>(operands[3]);
  const int64_t channels = p[2], inner = p[3];
  for (int64_t group = 0; group < p[0] * p[1]; ++group) {
    V mean, inverse;
    moments<Vector>(x, channels * inner, p[4], mean, inverse);
    for (int64_t c = 0; c < channels; ++c, x += inner, y += inner) {
      const int64_t channel = group % p[1] * channels + c;
      normalizeChannel<V>(y, x, inner, mean, inverse, V::broadcast(scale ? scale[channel] : 1),
                          V::broadcast(bias ? bias[channel] : 0));
    }
  }
}

// ---- graphs -------------------------------------------------------------------------------------

template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void scatterRows(Row row, Operands operands, Parameters p) {
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
