// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of quantized networks. A whole number q stands for (q - zero) scale.
//
// Quantize       {y, x float, scale float, zero?}  y = round(x / scale) + zero, saturated; the
// least
//                number of NaN. y and zero are of one type of 8 or 16 bits.
// Dequantize     {y float, x, scale float, zero?}  x and zero are of one type of 8, 16 or 32 bits.
//                Both take {type, outer, n, inner, block, then strides of scale and zero: in a row
//                of inner elements (0, 1), between blocks of so many rows, between outer ones}
// QuantizationOf {scale float, zero uint8, least float, greatest float}  {}  of numbers between
//                these two, as DynamicQuantizeLinear has it.
// IntegerGemm    {y, a, packed b, zero of a?, zero of b?, scale float?, bias float?}
//                y [m, n] = (a - its zero) (b - its zero), of 8 bits each, as int32, or as float:
//                that times scale plus bias. Sums wrap, so their order doesn't matter.
//                {m, k, n, type of a, type of b, whether y is float, strides of a's zero (between
//                rows), b's zero, scale and bias (between columns; each is 0 or 1),
//                rank of the batch, then for each of its dimensions: length, stride of a, of b}
// PackBytes      {packed, b}  {k, n, row stride of b, column stride of b, type, batch, stride of b}
//                packedBytes(k, n) bytes for each matrix: panels of 16 columns, each four rows
//                after four, in each of these the four numbers of a column side by side, as int8
//                (128 less if they are uint8); then the sums of the columns.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_QUANTIZED_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_QUANTIZED_H

#include "elementwise.h"
#include "generic.h"

namespace mlbridge::native {

/// Bytes of a packed panel of 16 columns, and of a packed matrix.
constexpr int64_t panelBytes(int64_t k) { return (k + 3) / 4 * 64 + 64; }
constexpr int64_t packedBytes(int64_t k, int64_t n) { return (n + 15) / 16 * panelBytes(k); }

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

// The kernels of an instruction set use functions that are inlined or depend on its type, so that
// code for one CPU can't be linked in place of code for another.

MLBRIDGE_INLINE int32_t wholeAt(const void *x, int64_t type, int64_t i) {
  switch (type) {
  case Int8:
    return static_cast<const int8_t *>(x)[i];
  case UInt8:
    return static_cast<const uint8_t *>(x)[i];
  case Int16:
    return static_cast<const int16_t *>(x)[i];
  case UInt16:
    return static_cast<const uint16_t *>(x)[i];
  default:
    return static_cast<const int32_t *>(x)[i];
  }
}
/// n elements of any of these types, up to 16.
template <class V>
MLBRIDGE_SHARED void readWhole(int32_t *y, const void *x, int64_t type, int64_t i, int64_t n) {
#pragma GCC unroll 1
  for (int64_t j = 0; j < n && j < 16; ++j)
    y[j] = wholeAt(x, type, i + j);
}
/// The scale and zero of 16 elements.
template <class V> struct Quantization {
  V scale, realZero;
  alignas(64) int32_t zero[16];
};
template <class V>
MLBRIDGE_SHARED void readQuantization(Quantization<V> &q, Operands o, int64_t type, int64_t i,
                                      int64_t stride, int64_t n) {
  const float *scale = static_cast<const float *>(o[2]) + i;
  q.scale = stride ? loadUpTo<V>(scale, n) : V::broadcast(*scale);
  const int32_t zero = o[3] ? wholeAt(o[3], type, i) : 0;
  for (int32_t &z : q.zero)
    z = zero;
  if (stride && o[3])
    readWhole<V>(q.zero, o[3], type, i, n);
  alignas(64) float zeros[16];
  for (int j = 0; j < 16; ++j)
    zeros[j] = static_cast<float>(q.zero[j]);
  q.realZero = V::load(zeros);
}
/// Calls body(first of up to 16 elements, how many, their quantization).
template <class V, class Body>
MLBRIDGE_INLINE void eachQuantized(Operands o, Parameters p, const Body &body) {
  const int64_t inner = p[3];
  int64_t first = 0;
  Quantization<V> q;
  for (int64_t i = 0; i < p[1]; ++i)
    for (int64_t j = 0; j < p[2]; ++j, first += inner) {
      const int64_t scale = i * p[7] + j / p[4] * p[6];
      for (int64_t at = 0; at < inner; at += 16) {
        if (at == 0 || p[5])
          readQuantization<V>(q, o, p[0], scale + at * p[5], p[5], inner - at);
        body(first + at, inner - at < 16 ? inner - at : int64_t{16}, q);
      }
    }
}

template <class Isa> MLBRIDGE_INLINE void Quantize(Operands o, Parameters p) {
  using V = typename Isa::F32;
  const float *x = static_cast<const float *>(o[1]);
  const bool isWide = p[0] == Int16 || p[0] == UInt16;
  const bool isSigned = p[0] == Int8 || p[0] == Int16;
  const float most = isWide ? 65535 : 255, least = isSigned ? (most + 1) / -2 : 0;
  eachQuantized<V>(o, p, [&](int64_t i, int64_t n, const Quantization<V> &q) MLBRIDGE_ALWAYS {
    const V lowest = V::broadcast(least) - q.realZero;
    V v = loadUpTo<V>(x + i, n) / q.scale;
    v = V::least(V::greatest(v, lowest), lowest + V::broadcast(most));
    v = v + V::broadcast(BitsOf<float>::Rounder); // the number is in the lowest bits
    alignas(64) uint32_t bits[16];
    __builtin_memcpy(bits, &v, sizeof bits);
    for (int j = 0; j < 16; ++j)
      bits[j] += static_cast<uint32_t>(q.zero[j]);
    const auto narrow = [&](auto element) MLBRIDGE_ALWAYS {
      using T = decltype(element);
      T numbers[16];
      for (int j = 0; j < 16; ++j)
        numbers[j] = static_cast<T>(bits[j]);
      const auto size = static_cast<size_t>(n) * sizeof(T);
      __builtin_memcpy(static_cast<T *>(o[0]) + i, numbers, n == 16 ? sizeof numbers : size);
    };
    isWide ? narrow(uint16_t()) : narrow(uint8_t());
  });
}

template <class Isa> MLBRIDGE_INLINE void Dequantize(Operands o, Parameters p) {
  using V = typename Isa::F32;
  float *y = static_cast<float *>(o[0]);
  const bool isByte = p[0] == Int8 || p[0] == UInt8;
  const uint32_t flip = p[0] == Int8 ? 128 : 0; // makes an int8 a uint8, 128 more
  eachQuantized<V>(o, p, [&](int64_t i, int64_t n, const Quantization<V> &q) MLBRIDGE_ALWAYS {
    alignas(64) int32_t whole[16];
    alignas(64) float values[16];
    if (isByte && n == 16) {
      const uint8_t *bytes = static_cast<const uint8_t *>(o[1]) + i;
      Isa::widen(whole, bytes);
      for (int32_t &number : whole)
        number = static_cast<int32_t>((static_cast<uint32_t>(number) ^ flip) - flip);
    } else {
      readWhole<V>(whole, o[1], p[0], i, n);
    }
    for (int j = 0; j < 16; ++j)
      values[j] = static_cast<float>(
          static_cast<int32_t>(static_cast<uint32_t>(whole[j]) - static_cast<uint32_t>(q.zero[j])));
    storeUpTo(V::load(values) * q.scale, y + i, n);
  });
}

// ---- products of bytes --------------------------------------------------------------------------
// a is taken as uint8 and b as int8, whatever they are: adding 128 to all of a, or taking it from
// all of b, is the same as doing so with their zeros. With such numbers
//   sum (a - za) (b - zb) = sum a b - za sum b - zb (sum a - k za).

struct ByteProduct {
  void *y;
  const int8_t *b; ///< the packed matrix
  int64_t k, n;
  uint32_t offsetB; ///< what was added to b's zero
  bool isFloat, needsRowSums;
  int64_t type; ///< of b
  const void *zeroB;
  const float *scale, *bias;
  const int64_t *strides; ///< of b's zero, scale and bias
};
struct ByteRow {
  uint32_t zero; ///< that of a
  uint32_t sum;  ///< of a - zero
};

MLBRIDGE_INLINE uint32_t byteAt(const void *x, int64_t type, int64_t i) {
  if (!x)
    return 0;
  return type == Int8 ? static_cast<uint32_t>(static_cast<const int8_t *>(x)[i])
                      : static_cast<const uint8_t *>(x)[i];
}

/// Makes 16 elements of a row of their sums.
template <class V>
MLBRIDGE_SHARED void finishBytes(const ByteProduct &q, const int32_t *sums, const int8_t *panel,
                                 int64_t row, int64_t column, const ByteRow &a) {
  const int64_t left = q.n - column, n = left < 16 ? left : 16;
  uint32_t columnSums[16], whole[16];
  __builtin_memcpy(columnSums, panel + panelBytes(q.k) - 64, 64);
  for (int j = 0; j < 16; ++j)
    whole[j] = static_cast<uint32_t>(sums[j]) - a.zero * columnSums[j];
  if (q.needsRowSums) {
    uint32_t zeros[16];
    const uint32_t zero = byteAt(q.zeroB, q.type, 0) + q.offsetB;
    for (uint32_t &z : zeros)
      z = zero;
    for (int64_t j = 0; q.strides[0] && j < n; ++j)
      zeros[j] = byteAt(q.zeroB, q.type, column + j) + q.offsetB;
    for (int j = 0; j < 16; ++j)
      whole[j] -= zeros[j] * a.sum;
  }
  if (!q.isFloat) {
    __builtin_memcpy(static_cast<int32_t *>(q.y) + row * q.n + column, whole,
                     static_cast<size_t>(n) * 4);
    return;
  }
  alignas(64) float values[16];
  for (int j = 0; j < 16; ++j)
    values[j] = static_cast<float>(static_cast<int32_t>(whole[j]));
  const auto columns = [&](const float *x, int64_t stride) MLBRIDGE_ALWAYS {
    return stride ? loadUpTo<V>(x + column, n) : V::broadcast(*x);
  };
  V v = V::load(values);
  if (q.scale)
    v = v * columns(q.scale, q.strides[1]);
  if (q.bias)
    v = v + columns(q.bias, q.strides[2]);
  storeUpTo(v, static_cast<float *>(q.y) + row * q.n + column, n);
}

/// M rows of a times as many panels as an instruction set takes at a time. Where fewer are left,
/// the last is taken again, to no effect.
template <class Isa, int M>
MLBRIDGE_INLINE void byteTile(const ByteProduct &q, const uint8_t *a, uint32_t flip, int64_t row,
                              int64_t column, const ByteRow *rows) {
  using S = typename Isa::Sums;
  constexpr int W = S::Panels;
  const int64_t panel = panelBytes(q.k), last = (q.n - 1) / 16;
  const int8_t *panels[W];
  S sums[M][W];
#pragma GCC unroll 4
  for (int w = 0; w < W; ++w) {
    const int64_t number = column / 16 + w;
    panels[w] = q.b + (number < last ? number : last) * panel;
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
      sums[m][w].clear();
  }
  uint32_t rest[M] = {}; // the last numbers of each row, fewer than four
  const int64_t whole = q.k / 4 * 4;
  for (int m = 0; m < M; ++m)
    for (int64_t i = whole; i < q.k; ++i)
      rest[m] |= uint32_t(a[(row + m) * q.k + i]) << (8 * (i - whole));
  const uint8_t *from = a + row * q.k;
  int64_t stride = q.k, end = whole;
  for (int64_t i = 0;;) {
#pragma GCC unroll 1
    for (; i < end; i += 4, from += 4) {
      uint32_t four[M];
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        __builtin_memcpy(&four[m], from + m * stride, 4);
        four[m] ^= flip;
      }
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w)
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m)
          sums[m][w].add(four[m], panels[w] + i * 16);
    }
    if (end >= q.k)
      break;
    from = reinterpret_cast<const uint8_t *>(rest); // b has zeros there
    stride = 4;
    end += 4;
  }
  alignas(64) int32_t values[M][W][16];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int w = 0; w < W; ++w)
      sums[m][w].store(values[m][w]);
#pragma GCC unroll 1
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 1
    for (int w = 0; w < W; ++w)
      if (column + 16 * w < q.n)
        finishBytes<typename Isa::F32>(q, values[m][w], q.b + (column / 16 + w) * panel, row + m,
                                       column + 16 * w, rows[m]);
}

/// The sum of a row of a.
template <class Isa>
MLBRIDGE_SHARED uint32_t sumOfBytes(const uint8_t *a, int64_t k, uint32_t flip) {
  typename Isa::Sums sums;
  sums.clear();
  const auto sign = static_cast<int8_t>((flip ^ 0x80) & 0xff); // makes them int8, 128 less
  for (int64_t i = 0; i < k; i += 64) {
    alignas(64) int8_t bytes[64] = {};
    const int64_t n = k - i < 64 ? k - i : 64;
    __builtin_memcpy(bytes, a + i, n == 64 ? 64 : static_cast<size_t>(n));
    for (int8_t &byte : bytes)
      byte = static_cast<int8_t>(byte ^ sign);
    for (int64_t j = n; j < 64; ++j)
      bytes[j] = 0;
    sums.add(0x01010101, bytes);
  }
  int32_t parts[16];
  sums.store(parts);
  auto sum = static_cast<uint32_t>(k) * 128;
  for (const int32_t part : parts)
    sum += static_cast<uint32_t>(part);
  return sum;
}

template <class Isa> MLBRIDGE_INLINE void IntegerGemm(Operands o, Parameters p) {
  const int64_t m = p[0], k = p[1], n = p[2];
  const bool isSignedA = p[3] == Int8;
  const uint32_t flip = isSignedA ? 0x80808080 : 0, offsetA = isSignedA ? 128 : 0;
  ByteProduct q{o[0],
                nullptr,
                k,
                n,
                p[4] == Int8 ? 0 : 0u - 128,
                p[5] != 0,
                false,
                p[4],
                o[4],
                static_cast<const float *>(o[5]),
                static_cast<const float *>(o[6]),
                p + 7};
  q.needsRowSums = p[7] || byteAt(o[4], p[4], 0) + q.offsetB != 0;
  eachIndex<2>(p[10], p + 11, [&](const int64_t *at) MLBRIDGE_ALWAYS {
    constexpr int64_t Block = 64; // rows
    const uint8_t *a = static_cast<const uint8_t *>(o[1]) + at[0];
    q.b = static_cast<const int8_t *>(o[2]) + at[1];
    for (int64_t first = 0; first < m; first += Block) {
      const int64_t end = m - first < Block ? m : first + Block;
      ByteRow rows[Block];
      for (int64_t row = first; row < end; ++row) {
        const uint32_t zero = byteAt(o[3], p[3], row * p[6]) + offsetA;
        rows[row - first] = {zero, q.needsRowSums ? sumOfBytes<Isa>(a + row * k, k, flip) -
                                                        static_cast<uint32_t>(k) * zero
                                                  : 0};
      }
      for (int64_t column = 0; column < n; column += 16 * Isa::Sums::Panels) {
        constexpr int M = Isa::Sums::Rows;
        int64_t row = first;
        if constexpr (M > 1)
          for (; row + M <= end; row += M)
            byteTile<Isa, M>(q, a, flip, row, column, rows + (row - first));
        for (; row < end; ++row)
          byteTile<Isa, 1>(q, a, flip, row, column, rows + (row - first));
      }
    }
    q.y = static_cast<int32_t *>(q.y) + m * n;
  });
}

// ---- without vectors ----------------------------------------------------------------------------

inline void PackBytes(Operands o, Parameters p) {
  const int64_t k = p[0], n = p[1];
  const uint8_t flip = p[4] == Int8 ? 0 : 0x80;
  auto *packed = static_cast<int8_t *>(o[0]);
  for (int64_t matrix = 0; matrix < p[5]; ++matrix) {
    const auto *b = static_cast<const uint8_t *>(o[1]) + matrix * p[6];
    for (int64_t first = 0; first < n; first += 16, packed += panelBytes(k)) {
      uint32_t sums[16] = {};
      for (int64_t i = 0; i < (k + 3) / 4 * 4; ++i)
        for (int64_t j = 0; j < 16; ++j) {
          const bool isInside = i < k && first + j < n;
          const auto value =
              isInside ? static_cast<int8_t>(b[i * p[2] + (first + j) * p[3]] ^ flip) : int8_t{0};
          packed[i / 4 * 64 + j * 4 + i % 4] = value;
          sums[j] += static_cast<uint32_t>(value);
        }
      __builtin_memcpy(packed + panelBytes(k) - 64, sums, sizeof sums);
    }
  }
}

inline void QuantizationOf(Operands o, Parameters) {
  const float least = *static_cast<const float *>(o[2]);
  const float greatest = *static_cast<const float *>(o[3]);
  const float low = least < 0 ? least : 0, high = greatest > 0 ? greatest : 0;
  const float scale = high == low ? 1 : (high - low) / 255;
  *static_cast<float *>(o[0]) = scale;
  const float zero = (0 - low) / scale;
  const float rounded = (zero > 0 ? zero < 255 ? zero : 255 : 0) + BitsOf<float>::Rounder;
  *static_cast<uint8_t *>(o[1]) =
      static_cast<uint8_t>(static_cast<int32_t>(rounded - BitsOf<float>::Rounder));
}

} // namespace mlbridge::native::kernels

#endif
