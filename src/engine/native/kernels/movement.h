// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that move elements of any type: by their width in bytes (1, 2, 4 or 8).
//
// Copy           {y, x}  {bytes}
// CopyStrided    {y, x}  {width, first of y, first of x, rank, then for each dimension, outermost
//                first: length, stride of y, stride of x}
// Fill           {y, value}  {width, count}
// Where          {y, condition (bool), a, b}  {width, rank, then for each dimension: length, stride
//                of condition, of a, of b}  y is dense.
// Gather         {y [outer, count, block], x [outer, n, block], indices int64, fault}
//                {outer, n, bytes of a block, count}
// GatherElements {y, x, indices int64, fault}  {width, n, stride of x along the axis, rank, then
//                for each dimension of the indices: length, stride of x, 0 along the axis}
// GatherNd       {y, x, indices int64 [batch, count, depth], fault}
//                {batch, bytes between batches of x, count, bytes of a block, depth, then for each
//                index: length, bytes between}
// OneHot         {y [outer, depth, inner], indices int64 [outer, inner], values [2]}
//                {width, outer, depth, inner}
// Trilu          {y, x}  {width, batch, rows, columns, diagonal, upper (0 or 1)}
// CountNonZero   {n int64, x}  {width, count, whether it is a float (0 or 1)}
// NonZero        {y int64 [rank, n], x}  {width, n, float, rank, lengths...}
// ReverseSequence {y, x, lengths int64, fault}  {outer, time, middle, batch, bytes of a block,
//                whether time comes first (0 or 1)}: [outer, time, middle, batch, block], or with
//                time and batch exchanged.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_MOVEMENT_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_MOVEMENT_H

#include "kernel.h"

#include <cstddef>
#include <cstdint>

namespace mlbridge::native::kernels {

/// Calls body(offsets) for each index of the dimensions. Each has 1 + N parameters: its length and
/// N strides.
template <int N, class Body>
MLBRIDGE_INLINE void eachIndex(int64_t rank, const int64_t *dimensions, const Body &body) {
  constexpr int Width = 1 + N;
  int64_t at[MostLoops];
  int64_t offsets[N] = {};
  for (int64_t d = 0; d < rank; ++d) {
    if (dimensions[d * Width] == 0)
      return;
    at[d] = 0;
  }
  while (true) {
    body(offsets);
    int64_t d = rank - 1;
    for (; d >= 0; --d) {
      const int64_t *dimension = dimensions + d * Width;
      // Back to the start of the dimension when it ends.
      const bool more = ++at[d] < dimension[0];
      const int64_t steps = more ? 1 : 1 - dimension[0];
      for (int i = 0; i < N; ++i)
        offsets[i] += steps * dimension[1 + i];
      if (more)
        break;
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}
/// Like eachIndex, for the outer dimensions: those of `rank` but the last.
template <int N, class Body>
MLBRIDGE_INLINE void eachRow(int64_t rank, const int64_t *dimensions, const Body &body) {
  if (rank == 0 || dimensions[(rank - 1) * (1 + N)] != 0)
    eachIndex<N>(rank - 1, dimensions, body);
}

/// The numbers of the best k of n, sorted, `stride` apart: a heap whose root is the worst of them.
/// `next(i, worst)` is the first from i on that may be better.
template <class Before, class Next>
MLBRIDGE_INLINE void bestOf(int64_t *best, int64_t k, int64_t n, int64_t stride,
                            const Before &before, const Next &next) {
  const auto sink = [&](int64_t at, int64_t size, int64_t number) MLBRIDGE_OUTLINE {
    for (;;) {
      int64_t child = 2 * at + 1;
      if (child >= size)
        break;
      child += child + 1 < size && before(best[child * stride], best[(child + 1) * stride]);
      if (!before(number, best[child * stride]))
        break;
      best[at * stride] = best[child * stride];
      at = child;
    }
    best[at * stride] = number;
  };
  for (int64_t i = 0; i < k; ++i)
    best[i * stride] = i;
  for (int64_t i = k / 2; i-- > 0;)
    sink(i, k, best[i * stride]);
  for (int64_t i = k; k > 0 && (i = next(i, best[0])) < n; ++i)
    if (before(i, best[0]))
      sink(0, k, i);
  for (int64_t i = k; i-- > 1;) {
    const int64_t number = best[i * stride];
    best[i * stride] = best[0];
    sink(0, i, number);
  }
}

template <class Body> MLBRIDGE_INLINE void withWidth(int64_t width, const Body &body) {
  switch (width) {
  case 1:
    return body(uint8_t());
  case 2:
    return body(uint16_t());
  case 4:
    return body(uint32_t());
  default:
    return body(uint64_t());
  }
}

/// A number that the compiler knows.
template <int64_t N> struct Constant {
  MLBRIDGE_INLINE constexpr operator int64_t() const { return N; }
};
/// Calls body(bytes), with a Constant for the width of an element, whose copy needs no call.
template <class Body> MLBRIDGE_INLINE void withBlock(int64_t bytes, const Body &body) {
  switch (bytes) {
  case 1:
    return body(Constant<1>());
  case 2:
    return body(Constant<2>());
  case 4:
    return body(Constant<4>());
  case 8:
    return body(Constant<8>());
  default:
    return body(bytes);
  }
}

/// Copies a block; that of an element's width without a call.
MLBRIDGE_INLINE void moveBlock(void *y, const void *x, int64_t bytes) {
  withBlock(bytes, [&](auto size) MLBRIDGE_ALWAYS {
    __builtin_memcpy(y, x, static_cast<size_t>(int64_t{size}));
  });
}

/// From one element to another. Of their type T is only the width: read or written as a T, an
/// element would be another one for what the compiler knows of types.
template <class T> MLBRIDGE_INLINE void moveAs(T *y, const T *x) {
  __builtin_memcpy(y, x, sizeof(T));
}

/// One element of a width.
MLBRIDGE_INLINE void moveOne(void *y, const void *x, int64_t width) {
  withWidth(width, [&](auto element) { __builtin_memcpy(y, x, sizeof element); });
}

struct Half16 {
  uint16_t bits;
};

inline float widen(Half16 half) {
  const uint32_t sign = uint32_t(half.bits & 0x8000u) << 16;
  const uint32_t magnitude = half.bits & 0x7fffu;
  uint32_t bits;
  if (magnitude < 0x400u) { // subnormal or zero: an exact product
    float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
    __builtin_memcpy(&bits, &value, sizeof bits);
  } else if (magnitude >= 0x7c00u) {
    bits = 0x7f800000u | (magnitude & 0x3ffu) << 13;
  } else {
    bits = (magnitude << 13) + (112u << 23);
  }
  bits |= sign;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline Half16 narrow(double wide) {
  uint64_t bits;
  __builtin_memcpy(&bits, &wide, sizeof bits);
  const auto sign = static_cast<uint16_t>(bits >> 48 & 0x8000u);
  const uint64_t magnitude = bits & 0x7fffffffffffffffu;
  if (magnitude > 0x7ff0000000000000u)
    return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x40effe0000000000u) // 65520, the least that rounds to infinity
    return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude <= 0x3e60000000000000u) // 2^-25, the greatest that rounds to zero
    return {sign};
  uint64_t mantissa = magnitude;
  uint64_t shift = 42;
  if (magnitude < 0x3f10000000000000u) { // subnormal as a half
    mantissa = (magnitude & 0xfffffffffffffu) | 0x10000000000000u;
    shift = 42 + 1009 - (magnitude >> 52);
  } else {
    mantissa -= 1008ull << 52;
  }
  const uint64_t rest = mantissa & ((1ull << shift) - 1);
  const uint64_t half = 1ull << (shift - 1);
  uint64_t result = mantissa >> shift;
  result += rest > half || (rest == half && (result & 1));
  return {static_cast<uint16_t>(sign | result)};
}

inline void setFault(void *fault) { *static_cast<int64_t *>(fault) = 1; }

/// From −n … n − 1 to 0 … n − 1; otherwise −1, and a fault.
MLBRIDGE_INLINE int64_t checkedIndex(int64_t index, int64_t n, void *fault) {
  index += index < 0 ? n : 0;
  if (static_cast<uint64_t>(index) < static_cast<uint64_t>(n))
    return index;
  setFault(fault);
  return -1;
}

inline void Copy(Operands o, Parameters p) {
  if (p[0])
    __builtin_memcpy(o[0], o[1], static_cast<size_t>(p[0]));
}

/// Words of 8 bytes, two for each row of a tile.
typedef uint64_t Words __attribute__((vector_size(16)));

/// Exchanges, in squares of 2 · Half elements, the quarters that aren't on the diagonal.
template <class T, int64_t Half> MLBRIDGE_INLINE void exchange(Words *rows) {
  constexpr int64_t Side = 8 / sizeof(T);
  constexpr uint64_t Bits = 8 * sizeof(T) * Half, Mask = ~uint64_t(0) / ((uint64_t(1) << Bits) + 1);
#pragma GCC unroll 8
  for (int64_t i = 0; i < Side; ++i) {
    if (i & Half)
      continue;
    const Words change = ((rows[i] >> Bits) ^ rows[i + Half]) & Mask;
    rows[i + Half] ^= change;
    rows[i] ^= change << Bits;
  }
  if constexpr (Half > 1)
    exchange<T, Half / 2>(rows);
}
/// y[i · apartY + j] = x[i + j · apartX] of two squares of 8 bytes, which are side by side in x.
template <class T>
MLBRIDGE_INLINE void transposeTile(T *y, int64_t apartY, const T *x, int64_t apartX) {
  constexpr int64_t Side = 8 / sizeof(T);
  if constexpr (Side > 1) {
    Words rows[Side];
#pragma GCC unroll 8
    for (int64_t j = 0; j < Side; ++j)
      __builtin_memcpy(rows + j, x + j * apartX, sizeof(Words));
    exchange<T, Side / 2>(rows);
#pragma GCC unroll 8
    for (int64_t i = 0; i < Side; ++i)
      for (int64_t square = 0; square < 2; ++square) {
        const uint64_t row = rows[i][square];
        __builtin_memcpy(y + (square * Side + i) * apartY, &row, sizeof row);
      }
  } else {
    moveAs(y, x);
    moveAs(y + apartY, x + 1);
  }
}
/// y[i · apartY + j] = x[i + j · apartX], by tiles, of which a cache line of y has several.
template <class T>
inline void transposePlane(void *to, int64_t apartY, const void *from, int64_t apartX, int64_t rows,
                           int64_t columns) {
  constexpr int64_t Side = 8 / sizeof(T), Line = 8 * Side;
  T *y = static_cast<T *>(to);
  const T *x = static_cast<const T *>(from);
  const int64_t wholeRows = rows / (2 * Side) * (2 * Side), whole = columns / Side * Side;
  for (int64_t first = 0; first < whole; first += Line)
    for (int64_t i = 0; i < wholeRows; i += 2 * Side)
      for (int64_t j = first; j < whole && j < first + Line; j += Side)
        transposeTile(y + i * apartY + j, apartY, x + i + j * apartX, apartX);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < wholeRows ? whole : 0; j < columns; ++j)
      moveAs(y + i * apartY + j, x + i + j * apartX);
}

/// n times the element at x.
template <class T> MLBRIDGE_INLINE void fillRun(T *y, const T *x, int64_t n) {
  typedef T Many __attribute__((vector_size(16)));
  constexpr int64_t Each = sizeof(Many) / sizeof(T);
  T value;
  moveAs(&value, x);
  const Many many = Many{} + value;
  int64_t i = 0;
  for (; i + Each <= n; i += Each)
    __builtin_memcpy(y + i, &many, sizeof many);
  for (; i < n; ++i)
    moveAs(y + i, &value);
}

/// A row of n, with strides.
template <class T>
inline void copyRow(void *to, int64_t apartY, const void *from, int64_t apartX, int64_t n) {
  T *y = static_cast<T *>(to);
  const T *x = static_cast<const T *>(from);
  if (apartY == 1 && apartX == 0)
    return fillRun(y, x, n);
  for (int64_t i = 0; i < n; ++i)
    moveAs(y + i * apartY, x + i * apartX);
}

inline void CopyStrided(Operands o, Parameters p) {
  void (*row)(void *, int64_t, const void *, int64_t, int64_t) = nullptr;
  void (*plane)(void *, int64_t, const void *, int64_t, int64_t, int64_t) = nullptr;
  withWidth(p[0], [&](auto element) MLBRIDGE_ALWAYS {
    row = copyRow<decltype(element)>;
    plane = transposePlane<decltype(element)>;
  });
  const int64_t width = p[0], rank = p[3];
  auto *y = static_cast<char *>(o[0]) + p[1] * width;
  const auto *x = static_cast<const char *>(o[1]) + p[2] * width;
  if (rank == 0)
    return moveOne(y, x, width);
  const int64_t *last = p + 4 + (rank - 1) * 3;
  const int64_t n = last[0], apartY = last[1], apartX = last[2];
  // A dimension along which x is dense, while y is along the last one, makes a plane with it.
  int64_t dense = apartY == 1 && apartX != 1 ? rank - 2 : -1;
  while (dense >= 0 && p[4 + 3 * dense + 2] != 1)
    --dense;
  int64_t outer[3 * MostLoops];
  int64_t loops = 0;
  for (int64_t d = 0; d < rank - 1; ++d)
    if (d != dense)
      __builtin_memcpy(outer + 3 * loops++, p + 4 + 3 * d, 3 * sizeof(int64_t));
  const int64_t *rows = p + 4 + 3 * dense;
  if (n == 0)
    return;
  eachIndex<2>(loops, outer, [&](const int64_t *at) MLBRIDGE_ALWAYS {
    char *to = y + at[0] * width;
    const char *from = x + at[1] * width;
    if (dense >= 0)
      plane(to, rows[1], from, apartX, rows[0], n);
    else if (apartY == 1 && apartX == 1)
      __builtin_memcpy(to, from, static_cast<size_t>(n * width));
    else
      row(to, apartY, from, apartX, n);
  });
}

inline void Fill(Operands o, Parameters p) {
  auto *y = static_cast<char *>(o[0]);
  const int64_t size = p[0] * p[1];
  if (size)
    moveOne(y, o[1], p[0]);
  for (int64_t filled = p[0]; filled < size; filled *= 2) { // by what there is already
    const int64_t left = size - filled;
    __builtin_memcpy(y + filled, y, static_cast<size_t>(left < filled ? left : filled));
  }
}

/// A row of n; with strides that are known to be 0 or 1, compilers vectorize it.
template <class T>
MLBRIDGE_INLINE void whereRow(T *y, const uint8_t *c, const T *a, const T *b, int64_t n, int64_t sc,
                              int64_t sa, int64_t sb) {
  for (int64_t i = 0; i < n; ++i) {
    T one, other;
    moveAs(&one, a + i * sa);
    moveAs(&other, b + i * sb);
    const T chosen = c[i * sc] ? one : other;
    moveAs(y + i, &chosen);
  }
}

inline void Where(Operands o, Parameters p) {
  withWidth(p[0], [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<T *>(o[0]);
    const int64_t rank = p[1];
    const int64_t *last = p + 2 + (rank - 1) * 4;
    const int64_t n = last[0];
    eachRow<3>(rank, p + 2, [&](const int64_t *at) {
      const auto *c = static_cast<const uint8_t *>(o[1]) + at[0];
      const auto *a = static_cast<const T *>(o[2]) + at[1];
      const auto *b = static_cast<const T *>(o[3]) + at[2];
      if (last[1] == 1 && last[2] == 1 && last[3] == 1)
        whereRow(y, c, a, b, n, 1, 1, 1);
      else if (last[1] == 1 && last[2] == 1 && last[3] == 0)
        whereRow(y, c, a, b, n, 1, 1, 0);
      else if (last[1] == 0 && last[*c ? 2 : 3] == 1)
        __builtin_memcpy(y, *c ? a : b, static_cast<size_t>(n) * sizeof(T));
      else
        whereRow(y, c, a, b, n, last[1], last[2], last[3]);
      y += n;
    });
  });
}

inline void Gather(Operands o, Parameters p) {
  auto *y = static_cast<uint8_t *>(o[0]);
  const auto *x = static_cast<const uint8_t *>(o[1]);
  const auto *indices = static_cast<const int64_t *>(o[2]);
  const int64_t outer = p[0], n = p[1], count = p[3];
  const auto blocks = [&](auto block) MLBRIDGE_ALWAYS {
    for (int64_t i = 0; i < outer; ++i, x += n * block)
      for (int64_t k = 0; k < count; ++k, y += block) {
        const int64_t index = checkedIndex(indices[k], n, o[3]);
        if (index >= 0)
          moveBlock(y, x + index * block, block);
      }
  };
  if (p[2] == 4) // the most usual one, for which the width isn't looked at each time
    blocks(Constant<4>());
  else
    blocks(p[2]);
}

inline void GatherElements(Operands o, Parameters p) {
  auto *y = static_cast<char *>(o[0]);
  const auto *x = static_cast<const char *>(o[1]);
  const auto *indices = static_cast<const int64_t *>(o[2]);
  const int64_t n = p[1], rank = p[3];
  const int64_t *last = p + 4 + (rank - 1) * 2;
  eachRow<1>(rank, p + 4, [&](const int64_t *at) MLBRIDGE_ALWAYS {
    withWidth(p[0], [&](auto element) MLBRIDGE_ALWAYS {
      constexpr int64_t Width = sizeof element;
      const char *from = x + at[0] * Width;
      const int64_t step = last[1] * Width, along = p[2] * Width;
      for (int64_t i = 0; i < last[0]; ++i, y += Width, from += step) {
        const int64_t index = checkedIndex(*indices++, n, o[3]);
        if (index >= 0)
          __builtin_memcpy(y, from + index * along, sizeof element);
      }
    });
  });
}

/// The place that a tuple of indices names in bytes or elements, or -1.
MLBRIDGE_INLINE int64_t placeOf(const int64_t *indices, int64_t depth, const int64_t *dimensions,
                                void *fault) {
  int64_t at = 0;
  for (int64_t d = 0; d < depth; ++d) {
    const int64_t index = checkedIndex(indices[d], dimensions[2 * d], fault);
    if (index < 0)
      return -1;
    at += index * dimensions[2 * d + 1];
  }
  return at;
}

inline void GatherNd(Operands o, Parameters p) {
  auto *y = static_cast<uint8_t *>(o[0]);
  const auto *x = static_cast<const uint8_t *>(o[1]);
  const auto *indices = static_cast<const int64_t *>(o[2]);
  const int64_t batch = p[0], apart = p[1], count = p[2], block = p[3], depth = p[4];
  for (int64_t b = 0; b < batch; ++b, x += apart)
    for (int64_t i = 0; i < count; ++i, y += block, indices += depth) {
      const int64_t at = placeOf(indices, depth, p + 5, o[3]);
      if (at >= 0)
        moveBlock(y, x + at, block);
    }
}

inline void OneHot(Operands o, Parameters p) {
  const auto *indices = static_cast<const int64_t *>(o[1]);
  const int64_t width = p[0], outer = p[1], depth = p[2], inner = p[3];
  auto *y = static_cast<char *>(o[0]);
  const auto *values = static_cast<const char *>(o[2]);
  void *const all[] = {o[0], o[2]};
  const int64_t size[] = {width, outer * depth * inner};
  Fill(all, size);
  for (int64_t i = 0; i < outer; ++i, y += depth * inner * width)
    for (int64_t k = 0; k < inner; ++k) {
      const int64_t given = *indices++, index = given < 0 ? given + depth : given;
      if (index >= 0 && index < depth)
        moveOne(y + (index * inner + k) * width, values + width, width);
    }
}

inline void Trilu(Operands o, Parameters p) {
  auto *y = static_cast<char *>(o[0]);
  const auto *x = static_cast<const char *>(o[1]);
  const int64_t width = p[0], rows = p[2], columns = p[3], size = width * columns;
  const int64_t diagonal = p[4] < -rows ? -rows : p[4] > columns ? columns : p[4];
  const bool upper = p[5] != 0;
  for (int64_t i = 0; i < p[1] * rows; ++i, x += size, y += size) {
    int64_t at = i % rows + diagonal + !upper; // where the two parts of a row meet
    at = width * (at < 0 ? 0 : at > columns ? columns : at);
    const auto first = static_cast<size_t>(at), rest = static_cast<size_t>(size - at);
    __builtin_memcpy(y + (upper ? at : 0), x + (upper ? at : 0), upper ? rest : first);
    __builtin_memset(y + (upper ? 0 : at), 0, upper ? first : rest);
  }
}

/// A float's negative zero is zero.
template <class T> MLBRIDGE_INLINE bool isNonZero(const T *x, bool isFloat) {
  T bits;
  moveAs(&bits, x);
  return static_cast<T>(isFloat ? bits << 1 : bits) != 0;
}

inline void CountNonZero(Operands o, Parameters p) {
  withWidth(p[0], [&](auto element) {
    int64_t n = 0;
    for (int64_t i = 0; i < p[1]; ++i)
      n += isNonZero(static_cast<const decltype(element) *>(o[1]) + i, p[2] != 0);
    *static_cast<int64_t *>(o[0]) = n;
  });
}

inline void NonZero(Operands o, Parameters p) {
  auto *y = static_cast<int64_t *>(o[0]);
  const int64_t n = p[1], rank = p[3];
  const int64_t last = rank ? p[3 + rank] : 1;
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < rank; ++d)
    rows *= p[4 + d];
  withWidth(p[0], [&](auto element) {
    const auto *x = static_cast<const decltype(element) *>(o[1]);
    int64_t at[MostDimensions] = {}, filled = 0;
    for (int64_t row = 0; row < rows && filled < n; ++row) {
      for (int64_t i = 0; i < last && filled < n; ++i) { // what isn't counted is written over
        at[rank ? rank - 1 : 0] = i;
        for (int64_t d = 0; d < rank; ++d)
          y[d * n + filled] = at[d];
        filled += isNonZero(x + row * last + i, p[2] != 0);
      }
      for (int64_t d = rank - 2; d >= 0 && ++at[d] == p[4 + d]; --d)
        at[d] = 0;
    }
  });
}

inline void ReverseSequence(Operands o, Parameters p) {
  auto *y = static_cast<uint8_t *>(o[0]);
  const auto *x = static_cast<const uint8_t *>(o[1]);
  const auto *lengths = static_cast<const int64_t *>(o[2]);
  const int64_t outer = p[0], time = p[1], middle = p[2], batch = p[3], block = p[4];
  const bool timeFirst = p[5] != 0;
  const int64_t first = timeFirst ? time : batch, second = timeFirst ? batch : time;
  const int64_t apart = middle * second * block; // along the first
  for (int64_t i = 0; i < outer; ++i, x += first * apart)
    for (int64_t a = 0; a < first; ++a)
      for (int64_t m = 0; m < middle; ++m)
        for (int64_t b = 0; b < second; ++b, y += block) {
          const int64_t step = timeFirst ? a : b;
          int64_t length = lengths[timeFirst ? b : a];
          if (static_cast<uint64_t>(length) > static_cast<uint64_t>(time)) {
            setFault(o[3]);
            length = 0;
          }
          const int64_t from = step < length ? length - 1 - step : step;
          const uint8_t *row = x + (timeFirst ? from : a) * apart + m * second * block;
          moveBlock(y, row + (timeFirst ? b : from) * block, block);
        }
}

} // namespace mlbridge::native::kernels

#endif
