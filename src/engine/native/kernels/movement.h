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

/// From −n … n − 1 to 0 … n − 1; otherwise 0, and a fault.
inline int64_t checkedIndex(int64_t index, int64_t n, void *fault) {
  if (index >= -n && index < n)
    return index < 0 ? index + n : index;
  setFault(fault);
  return -1;
}

inline void Copy(Operands o, Parameters p) {
  if (p[0])
    __builtin_memcpy(o[0], o[1], static_cast<size_t>(p[0]));
}

template <class T> inline void copyRows(T *y, const T *x, int64_t rank, const int64_t *dimensions) {
  const int64_t *last = dimensions + (rank - 1) * 3;
  eachRow<2>(rank, dimensions, [&](const int64_t *at) {
    T *to = y + at[0];
    const T *from = x + at[1];
    const int64_t n = last[0], sy = last[1], sx = last[2];
    if (sy == 1 && sx == 1)
      __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    else
      for (int64_t i = 0; i < n; ++i)
        moveAs(to + i * sy, from + i * sx);
  });
}

inline void CopyStrided(Operands o, Parameters p) {
  withWidth(p[0], [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<T *>(o[0]) + p[1];
    const auto *x = static_cast<const T *>(o[1]) + p[2];
    if (p[3] == 0)
      moveAs(y, x);
    else
      copyRows(y, x, p[3], p + 4);
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
  const int64_t outer = p[0], n = p[1], block = p[2], count = p[3];
  for (int64_t i = 0; i < outer; ++i, x += n * block)
    for (int64_t k = 0; k < count; ++k, y += block) {
      const int64_t index = checkedIndex(indices[k], n, o[3]);
      if (index >= 0)
        __builtin_memcpy(y, x + index * block, static_cast<size_t>(block));
    }
}

inline void GatherElements(Operands o, Parameters p) {
  auto *y = static_cast<char *>(o[0]);
  const auto *x = static_cast<const char *>(o[1]);
  const auto *indices = static_cast<const int64_t *>(o[2]);
  const int64_t width = p[0], n = p[1], along = p[2], rank = p[3];
  const int64_t *last = p + 4 + (rank - 1) * 2;
  eachRow<1>(rank, p + 4, [&](const int64_t *at) {
    for (int64_t i = 0; i < last[0]; ++i, y += width, ++indices) {
      const int64_t index = checkedIndex(*indices, n, o[3]);
      if (index >= 0)
        moveOne(y, x + (at[0] + i * last[1] + index * along) * width, width);
    }
  });
}

/// The place that a tuple of indices names in bytes or elements, or -1.
inline int64_t placeOf(const int64_t *indices, int64_t depth, const int64_t *dimensions,
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
        __builtin_memcpy(y, x + at, static_cast<size_t>(block));
    }
}

inline void OneHot(Operands o, Parameters p) {
  const auto *indices = static_cast<const int64_t *>(o[1]);
  const int64_t outer = p[1], depth = p[2], inner = p[3];
  withWidth(p[0], [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<T *>(o[0]);
    T values[2];
    __builtin_memcpy(values, o[2], sizeof values);
    for (int64_t i = 0; i < outer * depth * inner; ++i)
      moveAs(y + i, values);
    for (int64_t i = 0; i < outer * inner; ++i) {
      const int64_t index = indices[i] < 0 ? indices[i] + depth : indices[i];
      if (index >= 0 && index < depth)
        moveAs(y + (i / inner * depth + index) * inner + i % inner, values + 1);
    }
  });
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
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t a = 0; a < first; ++a)
      for (int64_t m = 0; m < middle; ++m)
        for (int64_t b = 0; b < second; ++b, y += block) {
          const int64_t entry = timeFirst ? b : a, step = timeFirst ? a : b;
          int64_t length = lengths[entry];
          if (length < 0 || length > time) {
            setFault(o[3]);
            length = 0;
          }
          const int64_t from = step < length ? length - 1 - step : step;
          const int64_t fromA = timeFirst ? from : a, fromB = timeFirst ? b : from;
          const int64_t at = ((i * first + fromA) * middle + m) * second + fromB;
          __builtin_memcpy(y, x + at * block, static_cast<size_t>(block));
        }
}

} // namespace mlbridge::native::kernels

#endif
