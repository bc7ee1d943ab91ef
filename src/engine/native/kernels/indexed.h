// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that write where an index says, products of integers, and what loops and recurrent
// layers need besides. A "type" is a Type of kernel.h.
//
// ScatterElements {y, updates, indices int64, fault}
//                {type, ScatterOp, n, stride of y along the axis, rank, then for each dimension of
//                the indices: length, stride of y (0 along the axis), stride of updates}
// ScatterNd      {y, updates, indices int64 [count, depth], fault}
//                {type, ScatterOp, count, elements of a block, depth, then for each index: length,
//                elements between}
//                y of both holds the values to start with.
// IntegerMatMul  {y, a, b}  of one type of 32 or 64 bits. Overflow wraps.
//                {type, m, k, n, rank of the batch, then for each of its dimensions: length, stride
//                of a, of b}
// TakeEntry      {y, x, index int64}  {bytes of an entry, entries, reverse (0, 1)}  y = x[index],
//                from the end if reverse.
// PutEntry       {y, x, index int64}  {the same}  y[index] = x
// PackRecurrent  {packed, w}  {type, gates, hidden, input}  packRecurrentWeights of sizes.h.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_INDEXED_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_INDEXED_H

#include "generic.h"
#include "sizes.h"

namespace mlbridge::native {

enum class ScatterOp : int64_t { None, Add, Mul, Max, Min };

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

// ---- scatter -----------------------------------------------------------------------------------

/// Not for a half.
MLBRIDGE_OUTLINE inline void combineOne(ScatterOp op, int64_t type, void *y, const void *update) {
  if (isReal(type)) {
    double a, b;
    load(&a, y, type, 1, 1);
    load(&b, update, type, 1, 1);
    if (op == ScatterOp::Add)
      a += b;
    else if (op == ScatterOp::Mul)
      a *= b;
    else if (b != b || (op == ScatterOp::Max ? a < b : b < a)) // NaN wins
      a = b;
    return store(y, type, 1, &a, 1);
  }
  constexpr IntegerOp Ops[] = {IntegerOp::Add, IntegerOp::Add, IntegerOp::Mul, IntegerOp::Max,
                               IntegerOp::Min};
  int64_t a, b;
  load(&a, y, type, 1, 1);
  load(&b, update, type, 1, 1);
  a = integerOp(Ops[static_cast<int64_t>(op)], type, a, b);
  store(y, type, 1, &a, 1);
}
template <class T> MLBRIDGE_INLINE void addTo(void *y, const void *update) {
  T sum, term;
  __builtin_memcpy(&sum, y, sizeof sum);
  __builtin_memcpy(&term, update, sizeof term);
  sum += term;
  __builtin_memcpy(y, &sum, sizeof sum);
}
/// An update of a block that is moved, or of one element. Sums of usual types, as over the edges of
/// a graph, need no call.
MLBRIDGE_OUTLINE inline void scatterOne(ScatterOp op, int64_t type, void *y, const void *update,
                                        int64_t bytes) {
  if (op == ScatterOp::None)
    moveBlock(y, update, bytes);
  else if (op == ScatterOp::Add && type == Float32)
    addTo<float>(y, update);
  else if (op == ScatterOp::Add && type == Int32)
    addTo<uint32_t>(y, update);
  else if (op == ScatterOp::Add && type == Int64)
    addTo<uint64_t>(y, update);
  else
    combineOne(op, type, y, update);
}

inline void ScatterElements(Operands o, Parameters p) {
  const auto op = static_cast<ScatterOp>(p[1]);
  const int64_t type = p[0], n = p[2], rank = p[4], width = widthOf(type);
  const int64_t *last = p + 5 + (rank - 1) * 3;
  const auto *indices = static_cast<const int64_t *>(o[2]);
  const int64_t along = p[3] * width, stepY = last[1] * width, step = last[2] * width;
  eachRow<2>(rank, p + 5, [&](const int64_t *at) MLBRIDGE_ALWAYS {
    char *to = static_cast<char *>(o[0]) + at[0] * width;
    const char *from = static_cast<const char *>(o[1]) + at[1] * width;
    for (int64_t i = 0; i < last[0]; ++i, to += stepY, from += step) {
      const int64_t index = checkedIndex(*indices++, n, o[3]);
      if (index >= 0)
        scatterOne(op, type, to + index * along, from, width);
    }
  });
}

inline void ScatterNd(Operands o, Parameters p) {
  const auto op = static_cast<ScatterOp>(p[1]);
  const int64_t type = p[0], width = widthOf(type), depth = p[4];
  const bool isMove = op == ScatterOp::None; // of a block as one
  const int64_t times = isMove ? 1 : p[3], bytes = isMove ? p[3] * width : width;
  const auto *indices = static_cast<const int64_t *>(o[2]);
  const char *update = static_cast<const char *>(o[1]);
  for (int64_t i = 0; i < p[2]; ++i, indices += depth) {
    const int64_t at = placeOf(indices, depth, p + 5, o[3]);
    char *to = static_cast<char *>(o[0]) + at * width;
    for (int64_t k = 0; k < times; ++k, update += bytes)
      if (at >= 0)
        scatterOne(op, type, to + k * bytes, update, bytes);
  }
}

/// The numbers are unsigned, and wrap. Those of 32 bits are multiplied by four.
template <class Element, class Part>
MLBRIDGE_INLINE void multiplyMatrices(Element *y, const Element *a, const Element *b, int64_t m,
                                      int64_t k, int64_t n) {
  constexpr int64_t Parts = 4, Bytes = sizeof(Part), Each = Bytes / int64_t{sizeof(Element)};
  for (int64_t row = 0; row < m; ++row, y += n, a += k) {
    int64_t first = 0;
    for (; first + Parts * Each <= n; first += Parts * Each) {
      Part sums[Parts] = {};
      for (int64_t i = 0; i < k; ++i)
#pragma GCC unroll 4
        for (int64_t part = 0; part < Parts; ++part) {
          Part factor;
          __builtin_memcpy(&factor, b + i * n + first + part * Each, sizeof factor);
          sums[part] += factor * a[i];
        }
      __builtin_memcpy(y + first, sums, sizeof sums);
    }
    for (; first < n; ++first) {
      y[first] = 0;
      for (int64_t i = 0; i < k; ++i)
        y[first] += a[i] * b[i * n + first];
    }
  }
}

inline void IntegerMatMul(Operands o, Parameters p) {
  typedef uint32_t Four __attribute__((vector_size(16)));
  const int64_t m = p[1], k = p[2], n = p[3];
  const auto product = [&](auto element, auto part) {
    using T = decltype(element);
    auto *y = static_cast<T *>(o[0]);
    eachIndex<2>(p[4], p + 5, [&](const int64_t *at) {
      multiplyMatrices<T, decltype(part)>(y, static_cast<const T *>(o[1]) + at[0],
                                          static_cast<const T *>(o[2]) + at[1], m, k, n);
      y += m * n;
    });
  };
  widthOf(p[0]) == 4 ? product(uint32_t(), Four()) : product(uint64_t(), uint64_t());
}

// ---- loops and recurrent layers -----------------------------------------------------------------

inline int64_t entryOffset(const void *index, const int64_t *p) {
  const int64_t i = *static_cast<const int64_t *>(index);
  return (p[2] ? p[1] - 1 - i : i) * p[0];
}

inline void TakeEntry(Operands o, Parameters p) {
  __builtin_memcpy(o[0], static_cast<const char *>(o[1]) + entryOffset(o[2], p),
                   static_cast<size_t>(p[0]));
}

inline void PutEntry(Operands o, Parameters p) {
  __builtin_memcpy(static_cast<char *>(o[0]) + entryOffset(o[2], p), o[1],
                   static_cast<size_t>(p[0]));
}

inline void PackRecurrent(Operands o, Parameters p) {
  if (p[0] == Float64)
    packRecurrentWeights(static_cast<double *>(o[0]), static_cast<const double *>(o[1]), p[1], p[2],
                         p[3]);
  else
    packRecurrentWeights(static_cast<float *>(o[0]), static_cast<const float *>(o[1]), p[1], p[2],
                         p[3]);
}

} // namespace mlbridge::native::kernels

#endif
