// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products. The order of operations of an element of the result depends on k, n and its
// column alone:
// - In panels, packed or not, the products of rows k = s (mod S) of b are summed in chain s, one
//   after the other from zero, and the S chains by halves (s and s + S/2, and so on). S is 8, 4, 2,
//   2 in a block of 1, 2, 3, 4 panels. How many columns and rows are computed at a time is up to
//   the registers.
// - By columns, lane l of chain s sums elements (4 i + s) Lanes + l; then the chains and the
//   lanes are summed by halves.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_GEMM_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_GEMM_H

#include "elementwise.h"
#include "sizes.h"

namespace mlbridge::native::kernels {

/// The operations on a sum: y = alpha sum + beta c, and Relu.
template <class E> struct Epilogue {
  E *y;
  int64_t rowStride;
  const E *c;
  int64_t cRowStride, cColumnStride;
  E alpha, beta;
  bool relu;
};

template <class V, class E = ElementOf<V>>
MLBRIDGE_INLINE void finishInline(V sum, const Epilogue<E> &e, int64_t row, int64_t column,
                                  int64_t n) {
  const int64_t left = n - column;
  sum = sum * V::broadcast(e.alpha);
  if (e.c) {
    const E *c = e.c + row * e.cRowStride + column * e.cColumnStride;
    const V addend = e.cColumnStride ? loadUpTo<V>(c, left) : V::broadcast(*c);
    sum = V::fma(V::broadcast(e.beta), addend, sum);
  }
  if (e.relu)
    sum = V::greatest(V::broadcast(0), sum); // as Relu
  storeUpTo(sum, e.y + row * e.rowStride + column, left);
}
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void finish(V sum, const Epilogue<E> &e, int64_t row, int64_t column, int64_t n) {
  finishInline(sum, e, row, column, n);
}

/// M rows of a times W panels, in S chains of which C are summed at a time. If there are fewer than
/// M rows, the last one is computed more than once.
template <class V, int M, int W, int S, int C, class E = ElementOf<V>>
MLBRIDGE_INLINE void tile(const E *a, int64_t rowStride, int64_t rows, const E *b, int64_t bStride,
                          int64_t k, const Epilogue<E> &e, int64_t row, int64_t column, int64_t n) {
  const E *x[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
    x[m] = a + (m < rows ? m : rows - 1) * rowStride;
  V sums[M][W][S];
#pragma GCC unroll 8
  for (int first = 0; first < S; first += C) {
    V chain[M][W][C];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w)
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c)
          chain[m][w][c] = V::broadcast(0);
    int64_t i = first;
    const E *panel = b + first * bStride;
    for (; i + C <= k; i += S, panel += S * bStride)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        V factor[W];
#pragma GCC unroll 4
        for (int w = 0; w < W; ++w)
          factor[w] = V::load(panel + c * bStride + w * V::Lanes);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
          const V value = V::broadcast(x[m][i + c]);
#pragma GCC unroll 4
          for (int w = 0; w < W; ++w)
            chain[m][w][c] = V::fma(value, factor[w], chain[m][w][c]);
        }
      }
    const int64_t left = k - i; // fewer than C rows of b
#pragma GCC unroll 8
    for (int c = 0; c < C - 1; ++c)
      if (c < left)
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
          for (int w = 0; w < W; ++w)
            chain[m][w][c] = V::fma(V::broadcast(x[m][i + c]),
                                    V::load(panel + c * bStride + w * V::Lanes), chain[m][w][c]);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w)
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c)
          sums[m][w][first + c] = chain[m][w][c];
  }
  V results[M][W];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int w = 0; w < W; ++w) {
#pragma GCC unroll 4
      for (int half = S / 2; half; half /= 2)
#pragma GCC unroll 8
        for (int s = 0; s < half; ++s)
          sums[m][w][s] = sums[m][w][s] + sums[m][w][s + half];
      results[m][w] = sums[m][w][0];
    }
#pragma GCC unroll 1
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 1
    for (int w = 0; w < W; ++w)
      if (m < rows && column + w * V::Lanes < n)
        finishInline(results[m][w], e, row + m, column + w * V::Lanes, n);
}

/// Rows of a times one packed panel. Small networks consist of little else, so it is a function of
/// its own, in which everything has a register.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void onePanel(const E *a, int64_t rowStride, int64_t row, int64_t m, const E *b,
                              int64_t k, const Epilogue<E> &e, int64_t column, int64_t n) {
  for (; row < m; ++row)
    tile<V, 1, 1, 8, AccumulatorsOf<V> >= 24 ? 8 : 4>(a + row * rowStride, rowStride, 1, b,
                                                      V::Lanes, k, e, row, column, n);
}

/// A block of W panels: all rows of a.
template <class V, int W, class E = ElementOf<V>>
MLBRIDGE_INLINE void block(const E *a, int64_t rowStride, int64_t m, const E *b, int64_t bStride,
                           int64_t k, const Epilogue<E> &e, int64_t column, int64_t n) {
  constexpr int S = W == 1 ? 8 : W == 2 ? 4 : 2;
  constexpr bool Many = AccumulatorsOf<V> >= 24;
  // One row: as many panels and chains as there are registers for.
  constexpr int W1 = Many || W == 3 ? W : W == 4 ? 2 : 1;
  constexpr int C1 = Many ? S : S > 4 ? 4 : S;
  // Several rows.
  constexpr int WN = Many ? (W == 4 ? 2 : W) : 1;
  constexpr int CN = Many && W == 1 ? 4 : 2;
  constexpr int64_t MN = Many ? 4 : AccumulatorsOf<V> >= 6 ? 3 : 1;
  // Rows that are left over are computed together where that takes less time than one by one, as
  // it does if b has to be read from afar each time.
  constexpr int64_t Near = 256;
  int64_t row = 0;
  if constexpr (MN > 1)
    for (int w = 0; w < W; w += WN) // which stay in the cache for all rows
      for (row = 0; m - row > (k > Near ? 1 : MN / 2); row += MN < m - row ? MN : m - row)
        tile<V, MN, WN, S, CN>(a + row * rowStride, rowStride, m - row, b + w * V::Lanes, bStride,
                               k, e, row, column + w * V::Lanes, n);
  if (W == 1 && bStride == V::Lanes)
    return onePanel<V>(a, rowStride, row, m, b, k, e, column, n);
  for (; row < m; ++row)
    for (int w = 0; w < W; w += W1)
      tile<V, 1, W1, S, C1>(a + row * rowStride, rowStride, 1, b + w * V::Lanes, bStride, k, e, row,
                            column + w * V::Lanes, n);
}

/// True if products of V have code for each number of panels: those of float.
#ifdef MLBRIDGE_NATIVE_SPECIALIZE
template <class V> inline constexpr bool HasTiles = !IsArray<V>;
#else
template <class V> inline constexpr bool HasTiles = !IsArray<V> && sizeof(ElementOf<V>) == 4;
#endif

/// A block of `panels` panels, all rows of a, in little code: chain after chain of some rows and
/// vectors, of which the last are computed again where there are fewer.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void anyBlock(const E *a, int64_t rowStride, int64_t m, const E *b, int64_t bStride,
                              int64_t panels, int64_t k, const Epilogue<E> &e, int64_t column,
                              int64_t n) {
  constexpr int M = IsArray<V> ? 1 : 4, W = IsArray<V> ? 1 : sizeof(V) == 64 ? 4 : 2;
  const int64_t chains = panels == 1 ? 8 : panels == 2 ? 4 : 2;
  const int64_t end = column + panels * lanesOf<E>() < n ? column + panels * lanesOf<E>() : n;
  for (; column < end; column += W * V::Lanes, b += W * V::Lanes)
    for (int64_t row = 0; row < m; row += M) {
      int64_t at[W]; // of each vector
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w)
        at[w] = column + w * V::Lanes < end ? w * V::Lanes : 0;
      const E *x[M];
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r)
        x[r] = a + (row + r < m ? row + r : m - 1) * rowStride;
      V sums[8][M][W];
      for (int64_t s = 0; s < chains; ++s) {
        V chain[M][W];
#pragma GCC unroll 8
        for (int r = 0; r < M; ++r)
#pragma GCC unroll 4
          for (int w = 0; w < W; ++w)
            chain[r][w] = V::broadcast(0);
        const E *line = b + s * bStride;
        for (int64_t i = s; i < k; i += chains, line += chains * bStride) {
          V factor[W];
#pragma GCC unroll 4
          for (int w = 0; w < W; ++w)
            factor[w] = V::load(line + at[w]);
#pragma GCC unroll 8
          for (int r = 0; r < M; ++r) {
            const V value = V::broadcast(x[r][i]);
#pragma GCC unroll 4
            for (int w = 0; w < W; ++w)
              chain[r][w] = V::fma(value, factor[w], chain[r][w]);
          }
        }
#pragma GCC unroll 8
        for (int r = 0; r < M; ++r)
#pragma GCC unroll 4
          for (int w = 0; w < W; ++w)
            sums[s][r][w] = chain[r][w];
      }
      for (int r = 0; r < M && row + r < m; ++r)
        for (int w = 0; w < W && column + w * V::Lanes < end; ++w) {
          for (int64_t half = chains / 2; half; half /= 2)
            for (int64_t s = 0; s < half; ++s)
              sums[s][r][w] = sums[s][r][w] + sums[s + half][r][w];
          finish(sums[0][r][w], e, row + r, column + w * V::Lanes, n);
        }
    }
}

/// The sum over a row of a and a column of b, both dense.
template <class V, class E = ElementOf<V>>
MLBRIDGE_INLINE E dot(const E *x, const E *b, int64_t k) {
  constexpr int64_t Step = 4 * V::Lanes;
  if constexpr (IsArray<V>) {
    using L = typename LanesOf<V>::Type;
    E sums[Step] = {};
    for (int64_t i = 0; i < k || i % V::Lanes; ++i) // as if padded
      L::fma(L::broadcast(i < k ? x[i] : 0), L::broadcast(i < k ? b[i] : 0),
             L::load(sums + i % Step))
          .store(sums + i % Step);
    return sumByHalves<V>(sums, Step);
  } else {
    V sums[4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s)
      sums[s] = V::broadcast(0);
    int64_t i = 0;
    for (; i + Step <= k; i += Step)
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s)
        sums[s] = V::fma(V::load(x + i + s * V::Lanes), V::load(b + i + s * V::Lanes), sums[s]);
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s)
      if (const int64_t at = i + s * V::Lanes; at < k)
        sums[s] = V::fma(loadUpTo<V>(x + at, k - at), loadUpTo<V>(b + at, k - at), sums[s]);
    return V::sum((sums[0] + sums[2]) + (sums[1] + sums[3]));
  }
}

/// y = alpha a b + beta c of one matrix each, with Relu if the epilogue says so. `bStride` as Gemm
/// has it.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void multiply(const E *a, int64_t rowStride, int64_t m, const E *b, int64_t bStride,
                              int64_t k, int64_t n, const Epilogue<E> &e) {
  using L = typename LanesOf<V>::Type;
  if (bStride < 0 || (bStride == 0 && packedByColumns(k, n))) {
    const int64_t apart = bStride ? -bStride : (k + V::Lanes - 1) / V::Lanes * V::Lanes;
    for (int64_t column = 0; column < n; ++column)
      for (int64_t row = 0; row < m; ++row) {
        const E sum = dot<V>(a + row * rowStride, b + column * apart, k);
        // One column of a vector, so that it is the same arithmetic.
        Epilogue<E> one = e;
        one.y = e.y + row * e.rowStride + column;
        one.c = e.c ? e.c + row * e.cRowStride + column * e.cColumnStride : nullptr;
        finish(L::broadcast(sum), one, 0, 0, 1);
      }
    return;
  }
  constexpr int64_t Width = PanelsOfBlock * V::Lanes;
  // From one block of b to the next; rows of the last packed one are as wide as it is.
  const int64_t next = bStride ? Width : Width * k;
  int64_t column = 0;
  if constexpr (!HasTiles<V>) {
    for (; column < n; column += Width, b += next) {
      const int64_t left = (n - column + V::Lanes - 1) / V::Lanes;
      const int64_t panels = left < PanelsOfBlock ? left : PanelsOfBlock;
      anyBlock<L>(a, rowStride, m, b, bStride ? bStride : panels * V::Lanes, panels, k, e, column,
                  n);
    }
  } else {
    for (; n - column > Width - V::Lanes; column += Width, b += next)
      block<V, 4>(a, rowStride, m, b, bStride ? bStride : Width, k, e, column, n);
    const int64_t left = n - column;
    if (left > 2 * V::Lanes)
      block<V, 3>(a, rowStride, m, b, bStride ? bStride : 3 * V::Lanes, k, e, column, n);
    else if (left > V::Lanes)
      block<V, 2>(a, rowStride, m, b, bStride ? bStride : 2 * V::Lanes, k, e, column, n);
    else if (left > 0)
      block<V, 1>(a, rowStride, m, b, bStride ? bStride : V::Lanes, k, e, column, n);
  }
}

template <class V> MLBRIDGE_SHARED void anyGemm(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  const E *a = static_cast<const E *>(operands[1]);
  const E *b = static_cast<const E *>(operands[2]);
  const E *c = static_cast<const E *>(operands[3]);
  const int64_t m = p[0], k = p[1], n = p[2];
  const bool relu = static_cast<Activation>(p[10]) == Activation::Relu;
  const bool activates = !relu && static_cast<Activation>(p[10]) != Activation::None;
  const auto one = [&](const int64_t *at) MLBRIDGE_ALWAYS {
    E *y = static_cast<E *>(operands[0]) + at[3];
    multiply<V>(
        a + at[0], p[3], m, b + at[1], p[4], k, n,
        {y, p[5], c ? c + at[2] : nullptr, p[6], p[7], realOf<E>(p[8]), realOf<E>(p[9]), relu});
    if (!activates)
      return;
    const bool dense = p[5] == n;
    for (int64_t row = 0; row < (dense ? 1 : m); ++row)
      activate<V>(y + row * p[5], dense ? m * n : n, p + 10);
  };
  constexpr int64_t First[4] = {};
  if (p[13] == 0) // without a walk, as in most networks
    return one(First);
  eachIndex<4>(p[13], p + 14, one);
}

template <class V> MLBRIDGE_INLINE void Gemm(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  const int64_t k = p[1], n = p[2];
  const bool relu = static_cast<Activation>(p[10]) == Activation::Relu;
  // One row by one packed panel, not in a batch.
  if constexpr (HasTiles<V>)
    if (p[0] == 1 && n <= V::Lanes && n > 0 && p[4] == 0 && p[13] == 0 &&
        (relu || static_cast<Activation>(p[10]) == Activation::None) && !packedByColumns(k, n)) {
      const Epilogue<E> e{static_cast<E *>(operands[0]),
                          p[5],
                          static_cast<const E *>(operands[3]),
                          p[6],
                          p[7],
                          realOf<E>(p[8]),
                          realOf<E>(p[9]),
                          relu};
      return onePanel<V>(static_cast<const E *>(operands[1]), 0, 0, 1,
                         static_cast<const E *>(operands[2]), k, e, 0, n);
    }
  anyGemm<V>(operands, p);
}

/// Moves only: the same for all vectors.
template <class V> MLBRIDGE_INLINE void PackGemm(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  E *packed = static_cast<E *>(operands[0]);
  const E *b = static_cast<const E *>(operands[1]);
  for (int64_t i = 0; i < p[4]; ++i, b += p[5], packed += packedGemmSize<E>(p[0], p[1]))
    packGemm(packed, b, p[0], p[1], p[2], p[3]);
}

} // namespace mlbridge::native::kernels

#endif
