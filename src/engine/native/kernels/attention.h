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
// RotaryEmbedding {y, x, cosines, sines, positions int64?, fault}
//                {batch, heads, length, size, elements between batch entries, between heads,
//                between rows, how many of the size are rotated, whether pairs are neighbours (0:
//                halves), rows of the tables}: float32. Without positions, the tables have a row
//                for each row of each batch entry.
// TensorScatter  {y, update, starts int64?, fault}
//                {bytes of an entry, batch, prefixes, entries of y, of update, circular (0, 1)}
//                y [batch, prefixes, entries, bytes] holds the values to start with.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_ATTENTION_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_ATTENTION_H

#include "movement.h"

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

inline void RotaryEmbedding(Operands o, Parameters p) {
  typedef float Four __attribute__((vector_size(16)));
  const int64_t size = p[3], rotated = p[7], half = rotated / 2;
  const auto load = [](const float *from) {
    Four four;
    __builtin_memcpy(&four, from, sizeof four);
    return four;
  };
  for (int64_t i = 0; i < p[0] * p[2]; ++i) {
    const auto *positions = static_cast<const int64_t *>(o[4]);
    const int64_t row = positions ? checkedIndex(positions[i], p[9], o[5]) : i;
    if (row < 0)
      continue;
    const auto *cosine = static_cast<const float *>(o[2]) + row * half,
               *sine = static_cast<const float *>(o[3]) + row * half;
    for (int64_t head = 0; head < p[1]; ++head) {
      const int64_t at = i / p[2] * p[4] + head * p[5] + i % p[2] * p[6];
      auto *y = static_cast<float *>(o[0]) + at;
      const auto *x = static_cast<const float *>(o[1]) + at;
      const auto rotate = [&](auto a, auto b, auto c, auto s, float *first, float *second) {
        const auto left = a * c - b * s, right = a * s + b * c;
        __builtin_memcpy(first, &left, sizeof left);
        __builtin_memcpy(second, &right, sizeof right);
      };
      int64_t j = 0;
      for (; !p[8] && j + 4 <= half; j += 4)
        rotate(load(x + j), load(x + half + j), load(cosine + j), load(sine + j), y + j,
               y + half + j);
      for (; j < half; ++j) {
        const int64_t first = p[8] ? 2 * j : j, second = p[8] ? first + 1 : half + j;
        rotate(x[first], x[second], cosine[j], sine[j], y + first, y + second);
      }
      for (j = rotated; j < size; ++j)
        y[j] = x[j];
    }
  }
}

inline void TensorScatter(Operands o, Parameters p) {
  auto *y = static_cast<char *>(o[0]);
  const auto *update = static_cast<const char *>(o[1]);
  const auto *starts = static_cast<const int64_t *>(o[2]);
  const int64_t block = p[0], entries = p[3];
  for (int64_t i = 0; i < p[1] * p[2]; ++i, y += entries * block)
    for (int64_t step = 0; step < p[4]; ++step, update += block) {
      int64_t at = starts ? starts[i / p[2]] : 0;
      if (p[5]) // which is then from 0 to entries - 1
        at = ((at % entries + entries) % entries + step) % entries;
      else if (at < 0 || at > entries - p[4])
        at = entries;
      else
        at += step;
      if (at == entries)
        *static_cast<int64_t *>(o[3]) = 1;
      else
        __builtin_memcpy(y + at * block, update, static_cast<size_t>(block));
    }
}

} // namespace mlbridge::native::kernels

#endif
