// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, orders, sums and normalizations along one axis of [outer, n, inner], and sums over
// edges of graphs. Sums along a dense axis have four chains of vectors, as dot of gemm.h does.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_ALONG_AXIS_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_ALONG_AXIS_H

#include "elementwise.h"

namespace mlbridge::native::kernels {

// ---- reductions ---------------------------------------------------------------------------------

/// `of` takes a value into the sum, `join` two sums into one.
#define MLBRIDGE_REDUCTION(Name, start, ofExpression, joinExpression)                              \
  struct Name {                                                                                    \
    static constexpr double Start = start;                                                         \
    template <class V> static MLBRIDGE_INLINE V of(V sum, V x) { return ofExpression; }            \
    template <class V> static MLBRIDGE_INLINE V join(V sum, V x) { return joinExpression; }        \
  };
MLBRIDGE_REDUCTION(SumOf, 0, sum + x, sum + x)
MLBRIDGE_REDUCTION(ProductOf, 1, sum *x, sum *x)
MLBRIDGE_REDUCTION(GreatestOf, -__builtin_inf(), greatestOrNan(sum, x), greatestOrNan(sum, x))
MLBRIDGE_REDUCTION(LeastOf, __builtin_inf(), leastOrNan(sum, x), leastOrNan(sum, x))
MLBRIDGE_REDUCTION(MagnitudesOf, 0, sum + absolute(x), sum + x)
MLBRIDGE_REDUCTION(SquaresOf, 0, V::fma(x, x, sum), sum + x)
#undef MLBRIDGE_REDUCTION

/// All lanes, by halves.
template <class V, class R> MLBRIDGE_SHARED typename V::Element across(V sums) {
  using E = typename V::Element;
  E lanes[V::Lanes];
  sums.store(lanes);
  for (int half = V::Lanes / 2; half; half /= 2) {
    E other[V::Lanes] = {};
    for (int i = 0; i < half; ++i)
      other[i] = lanes[half + i];
    R::join(V::load(lanes), V::load(other)).store(lanes);
  }
  return lanes[0];
}

/// n numbers that lie side by side.
template <class V, class R>
MLBRIDGE_SHARED typename V::Element reduceSpan(const typename V::Element *x, std::int64_t n) {
  using E = typename V::Element;
  const V start = constant<V>(R::Start);
  V sums[4];
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s)
    sums[s] = start;
  std::int64_t i = 0;
  for (; i + 4 * V::Lanes <= n; i += 4 * V::Lanes)
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s)
      sums[s] = R::of(sums[s], V::load(x + i + s * V::Lanes));
  for (int s = 0; i < n; ++s, i += V::Lanes) {
    E lanes[V::Lanes];
    start.store(lanes);
    for (std::int64_t j = i; j < n && j < i + V::Lanes; ++j)
      lanes[j - i] = x[j];
    V sum = V::load(lanes);
    // The start is of sums; what it is as a value matters not for those with 0 or infinity.
    sum = R::of(s == 0 ? sums[0] : s == 1 ? sums[1] : s == 2 ? sums[2] : sums[3], sum);
    (s == 0 ? sums[0] : s == 1 ? sums[1] : s == 2 ? sums[2] : sums[3]) = sum;
  }
  const V sum = R::join(R::join(sums[0], sums[2]), R::join(sums[1], sums[3]));
  if constexpr (R::Start == 0)
    return V::sum(sum);
  else
    return across<V, R>(sum);
}

/// Calls done(vector of sums, outer, first inner, how many) for all of [outer, inner].
template <class V, class R, class Done>
MLBRIDGE_INLINE void reduceAxis(const typename V::Element *x, const std::int64_t *p, Done done) {
  const std::int64_t outer = p[0], n = p[1], inner = p[2];
  for (std::int64_t o = 0; o < outer; ++o) {
    const typename V::Element *slice = x + o * n * inner;
    if (inner == 1) {
      done(V::broadcast(reduceSpan<V, R>(slice, n)), o, 0, 1);
      continue;
    }
    for (std::int64_t i = 0; i < inner; i += V::Lanes) {
      const std::int64_t left = inner - i;
      V sum = constant<V>(R::Start);
      for (std::int64_t j = 0; j < n; ++j)
        sum = R::of(sum, gather<V>(slice + j * inner + i, 1, left));
      done(sum, o, i, static_cast<int>(left < V::Lanes ? left : V::Lanes));
    }
  }
}

#define MLBRIDGE_REDUCE(Name, Reduction, expression)                                               \
  template <class V> MLBRIDGE_INLINE void Name(void *const *operands, const std::int64_t *p) {     \
    using E = typename V::Element;                                                                 \
    E *y = static_cast<E *>(operands[0]);                                                          \
    const V count = V::broadcast(static_cast<E>(p[1]));                                            \
    (void)count;                                                                                   \
    reduceAxis<V, Reduction>(static_cast<const E *>(operands[1]), p,                               \
                             [&](V sum, std::int64_t o, std::int64_t i, int left) {                \
                               const V result = expression;                                        \
                               result.storePartial(y + o * p[2] + i, left);                        \
                             });                                                                   \
  }
MLBRIDGE_REDUCE(ReduceSum, SumOf, sum)
MLBRIDGE_REDUCE(ReduceMean, SumOf, sum / count)
MLBRIDGE_REDUCE(ReduceMax, GreatestOf, sum)
MLBRIDGE_REDUCE(ReduceMin, LeastOf, sum)
MLBRIDGE_REDUCE(ReduceProd, ProductOf, sum)
MLBRIDGE_REDUCE(ReduceL1, MagnitudesOf, sum)
MLBRIDGE_REDUCE(ReduceL2, SquaresOf, V::sqrt(sum))
MLBRIDGE_REDUCE(ReduceSumSquare, SquaresOf, sum)
MLBRIDGE_REDUCE(ReduceLogSum, SumOf, logOf(sum))
#undef MLBRIDGE_REDUCE

/// The first `left` lanes of v, 0 elsewhere.
template <class V> MLBRIDGE_INLINE V firstLanes(V v, std::int64_t left) {
  if (left >= V::Lanes)
    return v;
  typename V::Element lanes[V::Lanes];
  v.store(lanes);
  return V::loadPartial(lanes, static_cast<int>(left));
}

/// The sum of exp(x[i] - shift), kept in y unless that is null. One chain of vectors.
template <class V>
MLBRIDGE_SHARED typename V::Element sumOfExp(typename V::Element *y, const typename V::Element *x,
                                             std::int64_t n, V shift) {
  V sum = V::broadcast(0);
  for (std::int64_t i = 0; i < n; i += V::Lanes) {
    const V e = expOf(loadUpTo<V>(x + i, n - i) - shift);
    if (y)
      storeUpTo(e, y + i, n - i);
    sum = sum + firstLanes(e, n - i);
  }
  return V::sum(sum);
}

/// Of softmax and its like along one dense row (inner = 1) or a vector of neighbouring columns.
enum class ExpSum { Softmax, LogSoftmax, LogSumExp };

template <class V, ExpSum Kind>
MLBRIDGE_INLINE void expSums(typename V::Element *y, const typename V::Element *x,
                             const std::int64_t *p) {
  using E = typename V::Element;
  const std::int64_t outer = p[0], n = p[1], inner = p[2];
  const V zero = V::broadcast(0);
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; i += inner == 1 ? 1 : V::Lanes) {
      const E *from = x + o * n * inner + i;
      E *to = Kind == ExpSum::LogSumExp ? y + o * inner + i : y + o * n * inner + i;
      const std::int64_t left = inner - i;
      V greatest, sum;
      if (inner == 1) {
        greatest = V::broadcast(reduceSpan<V, GreatestOf>(from, n));
      } else {
        greatest = constant<V>(GreatestOf::Start);
        for (std::int64_t j = 0; j < n; ++j)
          greatest = greatestOrNan(greatest, loadUpTo<V>(from + j * inner, left));
      }
      if constexpr (Kind == ExpSum::LogSumExp) // what is infinite shall stay so
        greatest = V::select(V::less(absolute(greatest), infinity<V>()), greatest, zero);
      if (inner == 1) {
        sum = V::broadcast(sumOfExp(Kind == ExpSum::Softmax ? to : nullptr, from, n, greatest));
      } else {
        sum = zero;
        for (std::int64_t j = 0; j < n; ++j) {
          const V e = expOf(loadUpTo<V>(from + j * inner, left) - greatest);
          if constexpr (Kind == ExpSum::Softmax)
            storeUpTo(e, to + j * inner, left);
          sum = sum + e;
        }
      }
      if constexpr (Kind == ExpSum::LogSumExp) {
        storeUpTo(logOf(sum) + greatest, to, inner == 1 ? 1 : left);
        continue;
      }
      const V logarithm = Kind == ExpSum::LogSoftmax ? logOf(sum) : zero;
      const std::int64_t rows = inner == 1 ? 1 : n, columns = inner == 1 ? n : left;
      for (std::int64_t j = 0; j < rows; ++j)
        for (std::int64_t c = 0; c < (inner == 1 ? columns : 1); c += V::Lanes) {
          const std::int64_t at = j * inner + c;
          const V v = Kind == ExpSum::Softmax
                          ? loadUpTo<V>(to + at, columns - c) / sum
                          : (loadUpTo<V>(from + at, columns - c) - greatest) - logarithm;
          storeUpTo(v, to + at, columns - c);
        }
    }
}

template <class V>
MLBRIDGE_INLINE void ReduceLogSumExp(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  expSums<V, ExpSum::LogSumExp>(static_cast<E *>(operands[0]), static_cast<const E *>(operands[1]),
                                p);
}
template <class V> MLBRIDGE_INLINE void Softmax(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  expSums<V, ExpSum::Softmax>(static_cast<E *>(operands[0]), static_cast<const E *>(operands[1]),
                              p);
}
template <class V> MLBRIDGE_INLINE void LogSoftmax(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  expSums<V, ExpSum::LogSoftmax>(static_cast<E *>(operands[0]), static_cast<const E *>(operands[1]),
                                 p);
}

// ---- orders -------------------------------------------------------------------------------------

/// Whether a comes before b among the greatest (or the least); NaN is greatest.
template <class E> MLBRIDGE_INLINE bool precedes(E a, E b, bool largest) {
  if (largest)
    return a > b || (a != a && b == b);
  return a < b || (b != b && a == a);
}

template <class V>
MLBRIDGE_INLINE void argBest(void *const *operands, const std::int64_t *p, bool largest) {
  using E = typename V::Element;
  std::int64_t *y = static_cast<std::int64_t *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]);
  const std::int64_t outer = p[0], n = p[1], inner = p[2];
  const bool last = p[3] != 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const E *values = x + o * n * inner + i;
      std::int64_t best = 0;
      E value = values[0];
      for (std::int64_t j = 1; j < n; ++j) {
        const E next = values[j * inner];
        // NaN wins, for the least as well.
        const bool better = largest ? next > value : next < value;
        const bool nan = next != next;
        if (better || (nan && (value == value || last)) || (last && (next == value))) {
          if (value != value && !nan)
            continue;
          best = j;
          value = next;
        }
      }
      y[o * inner + i] = best;
    }
}
template <class V> MLBRIDGE_INLINE void ArgMax(void *const *operands, const std::int64_t *p) {
  argBest<V>(operands, p, true);
}
template <class V> MLBRIDGE_INLINE void ArgMin(void *const *operands, const std::int64_t *p) {
  argBest<V>(operands, p, false);
}

/// A heap of the best k whose root is the worst of them, then sorted in place.
template <class V> MLBRIDGE_INLINE void TopK(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  E *values = static_cast<E *>(operands[0]);
  std::int64_t *indices = static_cast<std::int64_t *>(operands[1]);
  const E *x = static_cast<const E *>(operands[2]);
  const std::int64_t outer = p[0], n = p[1], inner = p[2], k = p[3] < n ? p[3] : n;
  const bool largest = p[4] != 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const E *from = x + o * n * inner + i;
      E *best = values + o * k * inner + i;
      std::int64_t *where = indices + o * k * inner + i;
      const auto before = [largest](E a, std::int64_t ai, E b, std::int64_t bi) {
        return precedes(a, b, largest) || (!precedes(b, a, largest) && ai < bi);
      };
      // Puts a value into the heap of `size` at its root, or below.
      const auto sink = [&](std::int64_t at, std::int64_t size, E value, std::int64_t index) {
        for (;;) {
          std::int64_t child = 2 * at + 1;
          if (child >= size)
            break;
          if (child + 1 < size && before(best[child * inner], where[child * inner],
                                         best[(child + 1) * inner], where[(child + 1) * inner]))
            ++child;
          if (!before(value, index, best[child * inner], where[child * inner]))
            break;
          best[at * inner] = best[child * inner];
          where[at * inner] = where[child * inner];
          at = child;
        }
        best[at * inner] = value;
        where[at * inner] = index;
      };
      for (std::int64_t j = 0; j < k; ++j) {
        best[j * inner] = from[j * inner];
        where[j * inner] = j;
      }
      for (std::int64_t j = k / 2; j-- > 0;)
        sink(j, k, best[j * inner], where[j * inner]);
      for (std::int64_t j = k; k > 0 && j < n; ++j)
        if (before(from[j * inner], j, best[0], where[0]))
          sink(0, k, from[j * inner], j);
      for (std::int64_t j = k; j-- > 1;) {
        const E value = best[j * inner];
        const std::int64_t index = where[j * inner];
        best[j * inner] = best[0];
        where[j * inner] = where[0];
        sink(0, j, value, index);
      }
    }
}

template <class V> MLBRIDGE_INLINE void CumSum(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]);
  const std::int64_t outer = p[0], n = p[1], inner = p[2];
  const bool exclusive = p[3] != 0, reverse = p[4] != 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      E sum = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t at = (o * n + (reverse ? n - 1 - j : j)) * inner + i;
        const E next = sum + x[at];
        y[at] = exclusive ? sum : next;
        sum = next;
      }
    }
}

// ---- normalization ------------------------------------------------------------------------------

/// The sum of (x - mean)².
template <class V>
MLBRIDGE_SHARED typename V::Element squaredDeviations(const typename V::Element *x, std::int64_t n,
                                                      V mean) {
  V sum = V::broadcast(0);
  for (std::int64_t i = 0; i < n; i += V::Lanes) {
    const V d = firstLanes(loadUpTo<V>(x + i, n - i) - mean, n - i);
    sum = V::fma(d, d, sum);
  }
  return V::sum(sum);
}

/// Mean and inverse deviation of n numbers side by side, in every lane.
template <class V>
MLBRIDGE_INLINE void moments(const typename V::Element *x, std::int64_t n,
                             typename V::Element epsilon, V &mean, V &inverse) {
  using E = typename V::Element;
  const V count = V::broadcast(static_cast<E>(n));
  mean = V::broadcast(reduceSpan<V, SumOf>(x, n)) / count;
  const V variance = V::broadcast(squaredDeviations(x, n, mean)) / count;
  inverse = constant<V>(1) / V::sqrt(variance + V::broadcast(epsilon));
}

template <class V> MLBRIDGE_INLINE void LayerNorm(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  E *y = static_cast<E *>(operands[0]), *means = static_cast<E *>(operands[1]),
    *inverses = static_cast<E *>(operands[2]);
  const E *x = static_cast<const E *>(operands[3]), *scale = static_cast<const E *>(operands[4]),
          *bias = static_cast<const E *>(operands[5]);
  const std::int64_t n = p[1];
  for (std::int64_t row = 0; row < p[0]; ++row, x += n, y += n) {
    V mean, inverse;
    moments<V>(x, n, realOf<E>(p[2]), mean, inverse);
    if (means)
      mean.storePartial(means + row, 1);
    if (inverses)
      inverse.storePartial(inverses + row, 1);
    for (std::int64_t i = 0; i < n; i += V::Lanes) {
      V v = (loadUpTo<V>(x + i, n - i) - mean) * inverse;
      if (scale)
        v = v * loadUpTo<V>(scale + i, n - i);
      if (bias)
        v = v + loadUpTo<V>(bias + i, n - i);
      storeUpTo(v, y + i, n - i);
    }
  }
}

template <class V> MLBRIDGE_INLINE void RmsNorm(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]), *scale = static_cast<const E *>(operands[2]);
  const std::int64_t n = p[1];
  for (std::int64_t row = 0; row < p[0]; ++row, x += n, y += n) {
    const V square = V::broadcast(reduceSpan<V, SquaresOf>(x, n)) / V::broadcast(static_cast<E>(n));
    const V inverse = constant<V>(1) / V::sqrt(square + V::broadcast(realOf<E>(p[2])));
    for (std::int64_t i = 0; i < n; i += V::Lanes) {
      V v = loadUpTo<V>(x + i, n - i) * inverse;
      if (scale)
        v = v * loadUpTo<V>(scale + i, n - i);
      storeUpTo(v, y + i, n - i);
    }
  }
}

template <class V> MLBRIDGE_INLINE void BatchNorm(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]), *scale = static_cast<const E *>(operands[2]),
          *bias = static_cast<const E *>(operands[3]), *mean = static_cast<const E *>(operands[4]),
          *variance = static_cast<const E *>(operands[5]);
  const std::int64_t channels = p[1], inner = p[2];
  const V epsilon = V::broadcast(realOf<E>(p[3]));
  const auto normalize = [&](V v, V s, V b, V m, V var) {
    return V::fma((v - m) / V::sqrt(var + epsilon), s, b);
  };
  for (std::int64_t o = 0; o < p[0]; ++o, x += channels * inner, y += channels * inner) {
    if (inner == 1) {
      for (std::int64_t c = 0; c < channels; c += V::Lanes) {
        const std::int64_t left = channels - c;
        storeUpTo(normalize(loadUpTo<V>(x + c, left), loadUpTo<V>(scale + c, left),
                            loadUpTo<V>(bias + c, left), loadUpTo<V>(mean + c, left),
                            loadUpTo<V>(variance + c, left)),
                  y + c, left);
      }
      continue;
    }
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = 0; i < inner; i += V::Lanes)
        storeUpTo(normalize(loadUpTo<V>(x + c * inner + i, inner - i), V::broadcast(scale[c]),
                            V::broadcast(bias[c]), V::broadcast(mean[c]),
                            V::broadcast(variance[c])),
                  y + c * inner + i, inner - i);
  }
}

template <class V> MLBRIDGE_INLINE void GroupNorm(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]), *scale = static_cast<const E *>(operands[2]),
          *bias = static_cast<const E *>(operands[3]);
  const std::int64_t groups = p[1], channels = p[2], inner = p[3];
  for (std::int64_t batch = 0; batch < p[0]; ++batch)
    for (std::int64_t group = 0; group < groups; ++group) {
      V mean, inverse;
      moments<V>(x, channels * inner, realOf<E>(p[4]), mean, inverse);
      for (std::int64_t c = 0; c < channels; ++c, x += inner, y += inner) {
        const std::int64_t channel = group * channels + c;
        const V s = scale ? V::broadcast(scale[channel]) : constant<V>(1);
        const V b = bias ? V::broadcast(bias[channel]) : constant<V>(0);
        for (std::int64_t i = 0; i < inner; i += V::Lanes)
          storeUpTo(V::fma((loadUpTo<V>(x + i, inner - i) - mean) * inverse, s, b), y + i,
                    inner - i);
      }
    }
}

// ---- graphs -------------------------------------------------------------------------------------

template <class V, class F>
MLBRIDGE_INLINE void scatterRows(void *const *operands, const std::int64_t *p) {
  using E = typename V::Element;
  E *y = static_cast<E *>(operands[0]);
  const E *updates = static_cast<const E *>(operands[1]);
  const std::int64_t *indices = static_cast<const std::int64_t *>(operands[2]);
  const std::int64_t rows = p[1], length = p[2];
  for (std::int64_t i = 0; i < p[0]; ++i, updates += length) {
    std::int64_t row = indices[i * p[3]];
    if (row < 0)
      row += rows;
    if (row < 0 || row >= rows) {
      *static_cast<std::int64_t *>(operands[3]) = 1;
      continue;
    }
    E *to = y + row * length;
    for (std::int64_t j = 0; j < length; j += V::Lanes)
      storeUpTo(F::of(loadUpTo<V>(to + j, length - j), loadUpTo<V>(updates + j, length - j)),
                to + j, length - j);
  }
}
#define MLBRIDGE_SCATTER(Name, Function)                                                           \
  template <class V> MLBRIDGE_INLINE void Name(void *const *operands, const std::int64_t *p) {     \
    scatterRows<V, Function>(operands, p);                                                         \
  }
MLBRIDGE_SCATTER(ScatterAddRows, AddFunction)
MLBRIDGE_SCATTER(ScatterMulRows, MulFunction)
MLBRIDGE_SCATTER(ScatterMaxRows, MaxFunction)
MLBRIDGE_SCATTER(ScatterMinRows, MinFunction)
#undef MLBRIDGE_SCATTER

} // namespace mlbridge::native::kernels

#endif
