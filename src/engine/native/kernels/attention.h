// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of attention that don't gain from vectors.
//
// AttentionWindow {y, lengths int64?}  {type (float32, float64), batch, rows, columns, offset,
// left,
//                right}: y is 0 in the columns from row + offset − left to row + offset + right,
//                and −infinity in the others. With lengths, one for each of the batch, columns
//                beyond them are −infinity as well, and the last row is the length's last column.
// LinearAttention {y, state, workspace [dv], q, k, v, decay?, beta?}
//                {batch, steps, heads of q, heads of k, dk, dv, whether each element of a key has
//                its decay (0: one for a head), whether each head has its beta (0: one for all),
//                real scale}: float32. In each step the state [dk, dv] of a head is multiplied by
//                the decay; what it has for the key is taken from the value, which is multiplied by
//                beta, if there is one; and the key times the value is added. state holds what to
//                start with.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_ATTENTION_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_ATTENTION_H

#include "kernel.h"

namespace mlbridge::native::kernels {

template <class Element> inline void attentionWindow(Operands o, Parameters p) {
  auto *y = static_cast<Element *>(o[0]);
  const auto *lengths = static_cast<const int64_t *>(o[1]);
  const int64_t rows = p[2], columns = p[3];
  for (int64_t b = 0; b < p[1]; ++b) {
    int64_t length = columns, offset = p[4];
    if (lengths) {
      length = lengths[b] < 0 ? 0 : lengths[b] < columns ? lengths[b] : columns;
      offset = length - rows;
    }
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t apart = column - row - offset;
        const bool isSeen = column < length && apart >= -p[5] && apart <= p[6];
        *y++ = isSeen ? 0 : -static_cast<Element>(__builtin_inf());
      }
  }
}
inline void AttentionWindow(Operands o, Parameters p) {
  if (p[0] == Float64)
    attentionWindow<double>(o, p);
  else
    attentionWindow<float>(o, p);
}

/// y = Σ x[i] m[i], over rows of m.
inline void weightedRows(float *y, const float *x, const float *m, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; ++j)
    y[j] = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      y[j] += x[i] * m[i * columns + j];
}

inline void LinearAttention(Operands o, Parameters p) {
  auto *y = static_cast<float *>(o[0]), *state = static_cast<float *>(o[1]);
  auto *written = static_cast<float *>(o[2]);
  const auto *q = static_cast<const float *>(o[3]), *k = static_cast<const float *>(o[4]),
             *v = static_cast<const float *>(o[5]), *decay = static_cast<const float *>(o[6]),
             *beta = static_cast<const float *>(o[7]);
  const int64_t steps = p[1], heads = p[3], group = p[2] / heads, dk = p[4], dv = p[5];
  double wide;
  __builtin_memcpy(&wide, p + 8, sizeof wide);
  const auto scale = static_cast<float>(wide);
  for (int64_t b = 0; b < p[0]; ++b)
    for (int64_t h = 0; h < heads; ++h, state += dk * dv)
      for (int64_t t = b * steps; t < (b + 1) * steps; ++t) {
        const int64_t head = t * heads + h;
        const float *key = k + head * dk, *value = v + head * dv;
        if (decay)
          for (int64_t i = 0; i < dk * dv; ++i)
            state[i] *= p[6] ? decay[head * dk + i / dv] : decay[head];
        weightedRows(written, key, state, dk, dv);
        for (int64_t j = 0; j < dv; ++j)
          written[j] = beta ? beta[p[7] ? head : t] * (value[j] - written[j]) : value[j];
        for (int64_t i = 0; i < dk * dv; ++i)
          state[i] += key[i / dv] * written[i % dv];
        for (int64_t g = head * group; g < (head + 1) * group; ++g) {
          weightedRows(y + g * dv, q + g * dk, state, dk, dv);
          for (int64_t j = 0; j < dv; ++j)
            y[g * dv + j] *= scale;
        }
      }
}

} // namespace mlbridge::native::kernels

#endif
