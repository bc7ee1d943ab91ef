// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layout of matrices for Gemm and the recurrent kernels: the same for every instruction set,
// so that a file of packed weights fits all machines.
//
// Columns are taken in panels of a vector's lanes (16 float or 8 double, the last padded with
// zeros), panels in blocks of up to four; a block lies row after row. A matrix of few columns and
// many rows lies column after column instead, each padded to whole vectors.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_SIZES_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_SIZES_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mlbridge::native {

template <class Element> constexpr int64_t lanesOf() { return 64 / sizeof(Element); }

constexpr int64_t PanelsOfBlock = 4;

/// True if a [k, n] matrix is packed by columns.
constexpr bool packedByColumns(int64_t k, int64_t n) {
  return (n == 1 && k >= 16) || (n <= 4 && k >= 256);
}

/// Elements of a packed [k, n] matrix, a multiple of a vector's lanes.
template <class Element> constexpr int64_t packedGemmSize(int64_t k, int64_t n) {
  constexpr int64_t Lanes = lanesOf<Element>();
  if (packedByColumns(k, n))
    return (k + Lanes - 1) / Lanes * Lanes * n;
  return (n + Lanes - 1) / Lanes * Lanes * k;
}

/// The place of element (row, column) of a [k, n] matrix in the packed one.
template <class Element>
constexpr int64_t packedGemmIndex(int64_t k, int64_t n, int64_t row, int64_t column) {
  constexpr int64_t Lanes = lanesOf<Element>();
  if (packedByColumns(k, n))
    return column * ((k + Lanes - 1) / Lanes * Lanes) + row;
  const int64_t panels = (n + Lanes - 1) / Lanes;
  const int64_t block = column / (Lanes * PanelsOfBlock);
  const int64_t left = panels - block * PanelsOfBlock;
  const int64_t width = Lanes * (left < PanelsOfBlock ? left : PanelsOfBlock);
  return block * PanelsOfBlock * Lanes * k + row * width + column % (Lanes * PanelsOfBlock);
}

/// y[i][j] = x[j][i] of four rows and columns.
template <class Element>
inline void transposeFour(Element *y, int64_t yStride, const Element *x, int64_t xStride) {
  typedef Element Four __attribute__((vector_size(4 * sizeof(Element))));
  Four x0, x1, x2, x3;
  std::memcpy(&x0, x, sizeof x0);
  std::memcpy(&x1, x + xStride, sizeof x1);
  std::memcpy(&x2, x + 2 * xStride, sizeof x2);
  std::memcpy(&x3, x + 3 * xStride, sizeof x3);
  const Four low0 = __builtin_shufflevector(x0, x1, 0, 4, 1, 5);
  const Four low2 = __builtin_shufflevector(x2, x3, 0, 4, 1, 5);
  const Four high0 = __builtin_shufflevector(x0, x1, 2, 6, 3, 7);
  const Four high2 = __builtin_shufflevector(x2, x3, 2, 6, 3, 7);
  const Four rows[] = {__builtin_shufflevector(low0, low2, 0, 1, 4, 5),
                       __builtin_shufflevector(low0, low2, 2, 3, 6, 7),
                       __builtin_shufflevector(high0, high2, 0, 1, 4, 5),
                       __builtin_shufflevector(high0, high2, 2, 3, 6, 7)};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    std::memcpy(y + i * yStride, &rows[i], sizeof rows[i]);
}

/// `packed` has packedGemmSize(k, n) elements.
template <class Element>
void packGemm(Element *packed, const Element *b, int64_t k, int64_t n, int64_t rowStride,
              int64_t columnStride) {
  constexpr int64_t Lanes = lanesOf<Element>();
  if (columnStride == 1 && !packedByColumns(k, n)) { // row after row, as they are read fastest
    for (int64_t row = 0; row < k; ++row, b += rowStride)
      for (int64_t first = 0; first < n; first += Lanes * PanelsOfBlock) {
        const int64_t left = n - first;
        const int64_t count = left < Lanes * PanelsOfBlock ? left : Lanes * PanelsOfBlock;
        const int64_t width = (count + Lanes - 1) / Lanes * Lanes;
        Element *to = packed + first * k + row * width;
        std::memcpy(to, b + first, static_cast<size_t>(count) * sizeof(Element));
        for (int64_t i = count; i < width; ++i)
          to[i] = 0;
      }
    return;
  }
  // Lines are columns, or rows of a block: `count` elements, then zeros up to whole vectors. Where
  // neighbours in b are of several lines, these are taken at once.
  const auto lines = [&packed](const Element *from, int64_t lineCount, int64_t lineStride,
                               int64_t count, int64_t stride) {
    const int64_t width = (count + Lanes - 1) / Lanes * Lanes;
    for (int64_t line = 0; line < lineCount; line += Lanes) {
      const int64_t end = line + Lanes < lineCount ? line + Lanes : lineCount;
      int64_t i = 0;
      if (lineStride == 1 && end - line == Lanes)
        for (; i + 4 <= count; i += 4)
          for (int64_t at = line; at < end; at += 4)
            transposeFour(packed + at * width + i, width, from + at + i * stride, stride);
      for (; i < width; ++i)
        for (int64_t at = line; at < end; ++at)
          packed[at * width + i] = i < count ? from[at * lineStride + i * stride] : 0;
    }
    packed += lineCount * width;
  };
  if (packedByColumns(k, n))
    return lines(b, n, columnStride, k, rowStride);
  for (int64_t first = 0; first < n && k; first += Lanes * PanelsOfBlock) {
    const int64_t left = n - first;
    const int64_t count = left < Lanes * PanelsOfBlock ? left : Lanes * PanelsOfBlock;
    lines(b + first * columnStride, k, rowStride, count, columnStride);
  }
}

template <class Element> constexpr int64_t paddedHidden(int64_t hidden) {
  return (hidden + lanesOf<Element>() - 1) / lanesOf<Element>() * lanesOf<Element>();
}

/// Gates of Lstm, Gru, Rnn: 4, 3, 1. The gates of w [gates · hidden, input] (or of r, with input =
/// hidden) are padded so that each starts with a panel, and packed as one matrix [input, gates ·
/// padded]; those of Gru as one of two gates and one of the third, which needs another operand.
template <class Element>
constexpr int64_t packedRecurrentSize(int64_t gates, int64_t hidden, int64_t input) {
  const int64_t padded = paddedHidden<Element>(hidden);
  if (gates == 3)
    return packedGemmSize<Element>(input, 2 * padded) + packedGemmSize<Element>(input, padded);
  return packedGemmSize<Element>(input, gates * padded);
}

template <class Element>
void packRecurrentWeights(Element *packed, const Element *w, int64_t gates, int64_t hidden,
                          int64_t input) {
  const int64_t padded = paddedHidden<Element>(hidden);
  const int64_t size = packedRecurrentSize<Element>(gates, hidden, input);
  for (int64_t i = 0; i < size; ++i)
    packed[i] = 0;
  for (int64_t first = 0; first < gates;) {
    const int64_t count = gates == 3 ? 2 - first / 2 : gates;
    for (int64_t gate = 0; gate < count; ++gate)
      for (int64_t unit = 0; unit < hidden; ++unit)
        for (int64_t i = 0; i < input; ++i)
          packed[packedGemmIndex<Element>(input, count * padded, i, gate * padded + unit)] =
              w[((first + gate) * hidden + unit) * input + i];
    packed += packedGemmSize<Element>(input, count * padded);
    first += count;
  }
}

/// Elements of the workspace of Lstm, Gru and Rnn.
template <class Element>
constexpr int64_t recurrentWorkspace(int64_t gates, int64_t steps, int64_t batch, int64_t hidden) {
  const int64_t padded = paddedHidden<Element>(hidden);
  // Sums of the inputs, sums of a step, biases, h and c.
  return gates * padded * (steps * batch + batch + 2) + 4 * batch * padded;
}

} // namespace mlbridge::native

#endif
