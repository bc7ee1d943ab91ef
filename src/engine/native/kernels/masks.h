// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comparisons of float32, what masks are made of, and masks as float32: rows of them, as vectors.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_MASKS_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_MASKS_H

#include "kernel.h"

namespace mlbridge::native {

enum class CompareOp : int64_t { Equal, Less, LessOrEqual, Greater, GreaterOrEqual };

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

/// Counts of what is true: 16 at a time, which GCC 12 makes vectors of at -O2. At -O3 it does so of
/// the plain loop, and of these pieces single conversions.
inline void castBytes(float *__restrict y, const uint8_t *__restrict x, int64_t n) {
  int64_t i = 0;
#ifndef MLBRIDGE_NATIVE_SPECIALIZE
  for (; i + 16 <= n; i += 16) {
    uint8_t from[16];
    float to[16];
    __builtin_memcpy(from, x + i, sizeof from);
    for (int k = 0; k < 16; ++k)
      to[k] = static_cast<float>(from[k]);
    __builtin_memcpy(y + i, to, sizeof to);
  }
#endif
  for (; i < n; ++i)
    y[i] = static_cast<float>(x[i]);
}

#ifdef MLBRIDGE_NATIVE_SPECIALIZE
// The strides are known, and at -O3 GCC 12 makes vectors of plain loops.
template <class Op>
MLBRIDGE_INLINE void compareRow(uint8_t *__restrict y, const float *__restrict a, int64_t strideA,
                                const float *__restrict b, int64_t strideB, int64_t n,
                                const Op &op) {
  if (strideA == 0 && strideB == 1) {
    const float all = *a;
    for (int64_t i = 0; i < n; ++i)
      y[i] = op(all, b[i]);
  } else {
    for (int64_t i = 0; i < n; ++i)
      y[i] = op(a[i * strideA], b[i * strideB]);
  }
}
MLBRIDGE_INLINE void compareFloats(CompareOp op, uint8_t *y, const float *a, int64_t strideA,
                                   const float *b, int64_t strideB, int64_t n) {
  const auto with = [&](const auto &compare) { compareRow(y, a, strideA, b, strideB, n, compare); };
  switch (op) {
  case CompareOp::Equal:
    return with([](float u, float v) { return u == v; });
  case CompareOp::Less:
    return with([](float u, float v) { return u < v; });
  case CompareOp::LessOrEqual:
    return with([](float u, float v) { return u <= v; });
  case CompareOp::Greater:
    return with([](float u, float v) { return u > v; });
  default:
    return with([](float u, float v) { return u >= v; });
  }
}
#else
// In pieces that GCC 12 makes vectors of at -O2.
constexpr int Block = 16;
/// A block of a row of n from number i on: in place, or brought together in `block`.
inline const float *blockOf(const float *x, int64_t stride, int64_t i, int64_t n, float *block) {
  if (stride == 1 && n - i >= Block)
    return x + i;
  if (stride == 0)
    for (int k = 0; k < Block; ++k)
      block[k] = *x;
  else if (stride == 1)
    __builtin_memcpy(block, x + i, static_cast<size_t>(n - i) * sizeof *x);
  else
    for (int64_t k = 0; k < Block && i + k < n; ++k)
      block[k] = x[(i + k) * stride];
  return block;
}
template <class Op>
MLBRIDGE_INLINE void compareBlock(uint8_t *__restrict y, const float *__restrict a,
                                  const float *__restrict b, const Op &op) {
  for (int k = 0; k < Block; ++k)
    y[k] = op(a[k], b[k]);
}
inline void compareFloats(CompareOp op, uint8_t *y, const float *a, int64_t strideA, const float *b,
                          int64_t strideB, int64_t n) {
  const bool swapped = op == CompareOp::Greater || op == CompareOp::GreaterOrEqual;
  float as[Block] = {}, bs[Block] = {};
  uint8_t result[Block];
  for (int64_t i = 0; i < n; i += Block) {
    const float *x = strideA == 0 && i ? as : blockOf(a, strideA, i, n, as);
    const float *z = strideB == 0 && i ? bs : blockOf(b, strideB, i, n, bs);
    uint8_t *const to = n - i < Block ? result : y + i;
    if (op == CompareOp::Equal)
      compareBlock(to, x, z, [](float u, float v) { return u == v; });
    else if (op == CompareOp::Less || op == CompareOp::Greater)
      compareBlock(to, swapped ? z : x, swapped ? x : z, [](float u, float v) { return u < v; });
    else
      compareBlock(to, swapped ? z : x, swapped ? x : z, [](float u, float v) { return u <= v; });
    if (to == result)
      __builtin_memcpy(y + i, result, static_cast<size_t>(n - i));
  }
}
#endif

} // namespace mlbridge::native::kernels

#endif
