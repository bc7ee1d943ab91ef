// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions: matrix products of the weights with the windows of a block of positions, packed as
// Gemm takes them. The order of operations of an element depends on k and on how many positions its
// block of 64 (float) or 32 (double) has. Pooling, and convolutions of a channel each, which would
// gain nothing from a product: a chain of operations in the order of the window's elements.
//
// Planes are spread by SpreadPlanes, so that the elements of a window are at the same offsets from
// its first one, and windows side by side are neighbours.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_CONVOLUTION_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_CONVOLUTION_H

#include "along_axis.h"
#include "gemm.h"

namespace mlbridge::native::kernels {

/// Packs the windows of `count` positions from `first` on as a [k, count] matrix.
template <class V, class E = ElementOf<V>>
MLBRIDGE_SHARED void packWindows(E *packed, const E *x, const int64_t *offsets, int64_t k,
                                 int64_t first, int64_t count, Parameters p) {
  const bool byColumns = packedByColumns(k, count);
  const int64_t width = (count + V::Lanes - 1) / V::Lanes * V::Lanes;
  const int64_t padded = (k + V::Lanes - 1) / V::Lanes * V::Lanes;
  for (int64_t i = 0, step; i < count; i += step) {
    const int64_t line = (first + i) / p[7], column = (first + i) % p[7];
    const E *from = x + line / p[6] * p[8] + line % p[6] * p[9] + column;
    step = p[7] - column < count - i ? p[7] - column : count - i;
    if (byColumns) {
      E *to = packed + i * padded;
      for (int64_t row = 0; row < padded; ++row)
        to[row] = row < k ? from[offsets[row]] : 0;
      step = 1;
    } else if (step >= V::Lanes) {
      step = V::Lanes;
      E *to = packed + i;
      for (int64_t row = 0; row < k; ++row, to += width)
        V::load(from + offsets[row]).store(to);
    } else {
      E *to = packed + i;
      for (int64_t row = 0; row < k; ++row, to += width)
        V::loadPartial(from + offsets[row], static_cast<int>(step))
            .storePartial(to, static_cast<int>(step));
    }
  }
}

template <class V> MLBRIDGE_INLINE void Conv(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  constexpr int64_t Width = PanelsOfBlock * V::Lanes;
  E *y = static_cast<E *>(operands[0]);
  const E *x = static_cast<const E *>(operands[1]), *w = static_cast<const E *>(operands[2]),
          *bias = static_cast<const E *>(operands[3]);
  const int64_t *offsets = static_cast<const int64_t *>(operands[4]);
  E *packed = static_cast<E *>(operands[5]);
  const int64_t m = p[0], k = p[1], n = p[5] * p[6] * p[7];
  const bool relu = static_cast<Activation>(p[10]) == Activation::Relu;
  for (int64_t batch = 0; batch < p[2]; ++batch)
    for (int64_t group = 0; group < p[3]; ++group, x += p[4], y += m * n) {
      for (int64_t first = 0, count; first < n; first += count) {
        count = n - first < Width ? n - first : Width;
        if (const int64_t more = count % V::Lanes; count > V::Lanes && packedByColumns(k, more))
          count -= more; // a product of few columns takes less than a panel of them
        packWindows<V>(packed, x, offsets, k, first, count, p);
        multiply<V>(w + group * m * k, k, m, packed, 0, k, count,
                    {y + first, n, bias ? bias + group * m : nullptr, 1, 0, 1, 1, relu});
      }
      if (!relu)
        activate<V>(y, m * n, p + 10);
    }
}

/// The vector of windows: of an array only a lane, of doubles a register, which is less code.
template <class V, bool = IsArray<V> || sizeof(ElementOf<V>) == 8> struct LanesOfWindows {
  using Type = V;
};
template <class V> struct LanesOfWindows<V, true> : LanesOf<V> {};

/// The sum of each window's products with the weights, or its greatest element.
template <class Vector> MLBRIDGE_INLINE void Windows(Operands operands, Parameters p) {
  using V = typename LanesOfWindows<Vector>::Type;
  using E = ElementOf<V>;
  constexpr int Chains = IsArray<Vector> ? 1 : 4;
  E *y = static_cast<E *>(operands[0]);
  const E *w = static_cast<const E *>(operands[2]), *bias = static_cast<const E *>(operands[3]);
  const int64_t *offsets = static_cast<const int64_t *>(operands[4]);
  const int64_t taps = p[1], lines = p[5] * p[6], n = lines * p[7];
  for (int64_t plane = 0; plane < p[2]; ++plane, y += n) {
    const E *x = static_cast<const E *>(operands[1]) + plane / p[0] * p[4];
    const int64_t channel = plane % p[3];
    const V start = w ? V::broadcast(bias ? bias[channel] : 0) : constant<V>(GreatestOf::Start);
    int64_t line = 0, row = 0, column = 0;
    while (line < lines) {
      const E *at[Chains];
      E *to[Chains];
      int64_t left[Chains];
#pragma GCC unroll 1
      for (int c = 0; c < Chains; ++c) {
        at[c] = x + column;
        to[c] = y + line * p[7] + column;
        left[c] = p[7] - column;
        if (line == lines - 1 && left[c] <= V::Lanes) { // the last one, again in the chains left
          line += c == Chains - 1;
          continue;
        }
        column += V::Lanes;
        if (column < p[7])
          continue;
        column = 0;
        ++line;
        x += ++row < p[6] ? p[9] : p[8] - (p[6] - 1) * p[9];
        row = row < p[6] ? row : 0;
      }
      V result[Chains];
#pragma GCC unroll 4
      for (int c = 0; c < Chains; ++c)
        result[c] = start;
      if (w)
        for (int64_t t = 0; t < taps; ++t) {
          const V weight = V::broadcast(w[channel * taps + t]);
#pragma GCC unroll 4
          for (int c = 0; c < Chains; ++c)
            result[c] = V::fma(weight, V::load(at[c] + offsets[t]), result[c]);
        }
      else
        for (int64_t t = 0; t < taps; ++t)
#pragma GCC unroll 4
          for (int c = 0; c < Chains; ++c)
            result[c] = greatestOrNan(result[c], V::load(at[c] + offsets[t]));
#pragma GCC unroll 1
      for (int c = 0; c < Chains; ++c)
        storeUpTo(result[c], to[c], left[c]);
    }
  }
  activate<Vector>(static_cast<E *>(operands[0]), p[2] * n, p + 10);
}

} // namespace mlbridge::native::kernels

#endif
