// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for images and signals, without vectors. A plane has three dimensions, of which the first
// ones may be 1. A "type" is float32 or float64 unless stated.
//
// SpreadPlanes   {y, x}  {width (4, 8), fill, planes, three lengths of x, three places in y of x's
// first
//                element (may be negative), three distances in y between neighbours of x, two
//                lengths of y, phases, columns of a phase, period}
//                What lies outside of y is left out, and the rest filled. The last dimension is
//                dealt out to the phases: place q is in column q / period of phase q mod period.
//                Only one of period and the last distance may be more than 1.
// MaxPool        {y, indices int64, x}  {type, planes, column-major indices (0, 1), then of three
//                dimensions each: lengths of x, of y, window, strides, dilations, pads}
// Interpolate    {y [outer, count, inner], x [outer, n, inner], indices int64 [count, taps],
//                weights [count, taps], value?}  Sums; an index of -1 stands for the value.
//                {type, outer, n, inner, count, taps}
// GridSample     {y, x, grid}
//                {type, batch, channels, positions, dimensions, SampleMode, padding (0 zeros, 1
//                border, 2 reflection), align corners, three lengths of x}
// SuppressOverlaps {number int64, selected int64 [batch · classes · n, 3], boxes [batch, n, 4],
//                scores [batch, classes, n], most int64?, overlap?, least score?, workspace int64
//                [n]}, floats  {batch, classes, n, whether boxes are given by their centres (0, 1)}
//                The selected boxes of each class, the best first: batch, class, number.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_SPATIAL_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_SPATIAL_H

#include "generic.h"

namespace mlbridge::native {

enum class SampleMode : int64_t { Nearest, Linear, Cubic };

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

/// The sides of a box along one of its dimensions.
struct Side {
  float low, high;
};
MLBRIDGE_OUTLINE inline Side sideOf(const float *box, int dimension, bool isCentred) {
  const float a = box[dimension], b = box[dimension + 2];
  if (isCentred)
    return {a - b / 2, a + b / 2};
  return a < b ? Side{a, b} : Side{b, a};
}
/// The intersection of two boxes divided by their union; 0 if they have none.
MLBRIDGE_OUTLINE inline float overlapOf(const float *a, const float *b, bool isCentred) {
  float both = 1, first = 1, second = 1;
  for (int d = 0; d < 2; ++d) {
    const Side x = sideOf(a, d, isCentred), y = sideOf(b, d, isCentred);
    const float common = (x.high < y.high ? x.high : y.high) - (x.low > y.low ? x.low : y.low);
    both *= common > 0 ? common : 0;
    first *= x.high - x.low;
    second *= y.high - y.low;
  }
  const float all = first + second - both;
  return first > 0 && second > 0 && all > 0 ? both / all : 0;
}

inline void SuppressOverlaps(Operands o, Parameters p) {
  const int64_t classes = p[1], n = p[2];
  const auto *boxes = static_cast<const float *>(o[2]), *scores = static_cast<const float *>(o[3]);
  const int64_t most = o[4] ? *static_cast<const int64_t *>(o[4]) : 0;
  const float overlap = o[5] ? *static_cast<const float *>(o[5]) : 0;
  auto *order = static_cast<int64_t *>(o[7]), *selected = static_cast<int64_t *>(o[1]);
  for (int64_t i = 0; i < p[0] * classes; ++i, scores += n) {
    const float *box = boxes + i / classes * n * 4;
    const auto before = [&](int64_t a, int64_t b) {
      return scores[a] == scores[b] ? a < b : scores[a] > scores[b];
    };
    bestOf(order, n, n, 1, before, [](int64_t at, int64_t) { return at; });
    const int64_t *first = selected;
    for (int64_t k = 0; k < n && selected - first < 3 * most; ++k) {
      const int64_t candidate = order[k];
      bool isKept = !o[6] || scores[candidate] > *static_cast<const float *>(o[6]);
      for (const int64_t *other = first; isKept && other < selected; other += 3)
        isKept = !(overlapOf(box + candidate * 4, box + other[2] * 4, p[3] != 0) > overlap);
      if (!isKept)
        continue;
      *selected++ = i / classes;
      *selected++ = i % classes;
      *selected++ = candidate;
    }
  }
  *static_cast<int64_t *>(o[0]) = (selected - static_cast<int64_t *>(o[1])) / 3;
}

inline double realAt(const void *x, int64_t type, int64_t i) {
  return type == Float64 ? static_cast<const double *>(x)[i]
                         : static_cast<double>(static_cast<const float *>(x)[i]);
}
inline double floorOf(double x) { return __builtin_floor(x); }

template <class T> MLBRIDGE_OUTLINE void spreadPlanes(Operands o, Parameters p) {
  typedef T Vector __attribute__((vector_size(16)));
  constexpr int64_t Lanes = 16 / sizeof(T);
  auto *y = static_cast<T *>(o[0]);
  const auto *x = static_cast<const T *>(o[1]);
  const int64_t *n = p + 3, *first = p + 6, *apart = p + 9;
  const int64_t phases = p[14], columns = p[15], period = p[16], line = phases * columns;
  const int64_t plane = p[12] * p[13] * line;
  const Vector fill = Vector{} + static_cast<T>(p[1]);
  for (int64_t i = 0; i < p[2]; ++i, y += plane, x += n[0] * n[1] * n[2]) {
    int64_t filled = 0;
    for (; filled + Lanes <= plane; filled += Lanes)
      __builtin_memcpy(y + filled, &fill, sizeof fill);
    __builtin_memcpy(y + filled, &fill, static_cast<size_t>(plane - filled) * sizeof(T));
    for (int64_t phase = 0; phase < phases; ++phase) {
      // The first element of a line in this phase, its column, and how many there are.
      int64_t from = ((phase - first[2]) % period + period) % period;
      if (first[2] < 0 && period == 1)
        from = (apart[2] - 1 - first[2]) / apart[2];
      const int64_t column = phase * columns + (first[2] + from * apart[2]) / period;
      const int64_t there = (n[2] - from + period - 1) / period;
      const int64_t room = ((phase + 1) * columns - column + apart[2] - 1) / apart[2];
      const int64_t count = there < room ? there : room;
      for (int64_t line0 = 0; line0 < n[0] * n[1]; ++line0) {
        const int64_t toA = first[0] + line0 / n[1] * apart[0];
        const int64_t toB = first[1] + line0 % n[1] * apart[1];
        if (toA < 0 || toA >= p[12] || toB < 0 || toB >= p[13])
          continue;
        T *to = y + (toA * p[13] + toB) * line + column;
        const T *at = x + line0 * n[2] + from;
        int64_t k = 0;
        if (period == 1 && apart[2] == 1) {
          for (; k + Lanes <= count; k += Lanes)
            __builtin_memcpy(to + k, at + k, sizeof fill);
        } else if constexpr (Lanes == 4) {
          for (; period == 2 && k + Lanes < count; k += Lanes) {
            Vector a, b;
            __builtin_memcpy(&a, at + 2 * k, sizeof a);
            __builtin_memcpy(&b, at + 2 * k + Lanes, sizeof b);
            a = __builtin_shufflevector(a, b, 0, 2, 4, 6);
            __builtin_memcpy(to + k, &a, sizeof a);
          }
        }
        for (; k < count; ++k)
          moveAs(to + k * apart[2], at + k * period);
      }
    }
  }
}
inline void SpreadPlanes(Operands o, Parameters p) {
  if (p[0] == 4)
    spreadPlanes<uint32_t>(o, p);
  else
    spreadPlanes<uint64_t>(o, p);
}

/// Calls body(element of x, place in the window) for the elements of a window that x has.
template <class Body>
MLBRIDGE_INLINE void eachOfWindow(const int64_t *p, const int64_t *at, const Body &body) {
  const int64_t *n = p, *window = p + 6, *strides = p + 9, *dilations = p + 12, *pads = p + 15;
  int64_t k[3];
  const auto place = [&](int i) { return at[i] * strides[i] + k[i] * dilations[i] - pads[i]; };
  for (k[0] = 0; k[0] < window[0]; ++k[0])
    for (k[1] = 0; k[1] < window[1]; ++k[1])
      for (k[2] = 0; k[2] < window[2]; ++k[2]) {
        const int64_t a = place(0), b = place(1), c = place(2);
        if (a >= 0 && a < n[0] && b >= 0 && b < n[1] && c >= 0 && c < n[2])
          body(a, b, c);
      }
}

inline void MaxPool(Operands o, Parameters p) {
  const int64_t *n = p + 3, *out = p + 6;
  int64_t to = 0, at[3];
  for (int64_t plane = 0; plane < p[1]; ++plane)
    for (at[0] = 0; at[0] < out[0]; ++at[0])
      for (at[1] = 0; at[1] < out[1]; ++at[1])
        for (at[2] = 0; at[2] < out[2]; ++at[2], ++to) {
          const int64_t before = plane * n[0] * n[1] * n[2];
          double best = -__builtin_inf();
          int64_t index = -1;
          eachOfWindow(n, at, [&](int64_t a, int64_t b, int64_t c) {
            const int64_t from = (a * n[1] + b) * n[2] + c;
            const double value = realAt(o[2], p[0], before + from);
            if (index >= 0 && !(best < value || (value != value && best == best)))
              return;
            best = value;
            index = before + (p[2] ? (c * n[1] + b) * n[0] + a : from);
          });
          store(element(o[0], p[0], to), p[0], 1, &best, 1);
          static_cast<int64_t *>(o[1])[to] = index;
        }
}

template <class E> MLBRIDGE_INLINE void interpolate(Operands o, Parameters p) {
  constexpr int64_t Lanes = 8;
  E *y = static_cast<E *>(o[0]);
  const E *x = static_cast<const E *>(o[1]);
  const int64_t inner = p[3], count = p[4], taps = p[5];
  for (int64_t outer = 0; outer < p[1]; ++outer, x += p[2] * inner) {
    const auto *indices = static_cast<const int64_t *>(o[2]);
    const E *weights = static_cast<const E *>(o[3]);
    for (int64_t i = 0; i < count; ++i, y += inner, indices += taps, weights += taps) {
      int64_t k = 0;
      for (; indices[0] >= 0 && k + Lanes <= inner; k += Lanes) {
        E sum[Lanes] = {};
        for (int64_t t = 0; t < taps; ++t)
          for (int64_t lane = 0; lane < Lanes; ++lane)
            sum[lane] += weights[t] * x[indices[t] * inner + k + lane];
        __builtin_memcpy(y + k, sum, sizeof sum);
      }
      for (; k < inner; ++k) {
        E sum = indices[0] < 0 ? *static_cast<const E *>(o[4]) : 0;
        for (int64_t t = 0; indices[0] >= 0 && t < taps; ++t)
          sum += weights[t] * x[indices[t] * inner + k];
        y[k] = sum;
      }
    }
  }
}
inline void Interpolate(Operands o, Parameters p) {
  if (p[0] == Float64)
    interpolate<double>(o, p);
  else
    interpolate<float>(o, p);
}

/// Weights of the four neighbours of a place that is `t` behind the second one.
inline void cubicWeights(double t, double a, double *weights) {
  for (int i = 0; i < 4; ++i) {
    const double d = __builtin_fabs(t + 1 - i);
    weights[i] =
        d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  }
}

/// Reflects at both borders until it is between them.
inline double reflected(double x, double least, double greatest) {
  const double range = greatest - least;
  const double distance = x < least ? least - x : x > greatest ? x - greatest : -1;
  if (distance < 0 || !(range > 0) || !(distance < 1e15))
    return distance < 0 ? x : least;
  const double turns = floorOf(distance / range), rest = distance - turns * range;
  const bool fromLeast = (x < least) == (turns - 2 * floorOf(turns / 2) == 0);
  return fromLeast ? least + rest : greatest - rest;
}

inline void GridSample(Operands o, Parameters p) {
  constexpr int MostTaps = 4;
  const int64_t type = p[0], channels = p[2], positions = p[3], dimensions = p[4], padding = p[6];
  const auto mode = static_cast<SampleMode>(p[5]);
  const bool aligns = p[7] != 0;
  const int64_t *n = p + 8;
  const int64_t taps = mode == SampleMode::Nearest ? 1 : mode == SampleMode::Linear ? 2 : 4;
  const int64_t plane = n[0] * n[1] * n[2];
  for (int64_t i = 0; i < p[1] * positions; ++i) {
    // Indices, or -1, and weights for each dimension, of which the first ones may be missing.
    int64_t indices[3][MostTaps] = {};
    double weights[3][MostTaps] = {{1}, {1}, {1}};
    for (int64_t d = 3 - dimensions; d < 3; ++d) {
      const auto length = static_cast<double>(n[d]);
      const double least = aligns ? 0 : -0.5, greatest = aligns ? length - 1 : length - 0.5;
      const double normal = realAt(o[2], type, i * dimensions + 2 - d);
      double x = aligns ? (normal + 1) / 2 * (length - 1) : ((normal + 1) * length - 1) / 2;
      x = type == Float32 ? static_cast<double>(static_cast<float>(x)) : x;
      if (mode == SampleMode::Nearest)
        x = __builtin_nearbyint(x);
      if (padding == 1)
        x = x < 0 ? 0 : x > length - 1 ? length - 1 : x;
      else if (padding == 2)
        x = reflected(x, least, greatest);
      if (!(x > -1e9 && x < 1e9)) // also if it is NaN
        x = padding ? 0 : -10;
      const double below = floorOf(x), t = x - below;
      if (mode == SampleMode::Linear) {
        weights[d][0] = 1 - t;
        weights[d][1] = t;
      } else if (mode == SampleMode::Cubic) {
        cubicWeights(t, -0.75, weights[d]);
      }
      for (int64_t k = 0; k < taps; ++k) {
        double at = below + static_cast<double>(k - (taps == 4));
        if (padding == 2)
          at = reflected(at, least, greatest);
        if (padding)
          at = at < 0 ? 0 : at > length - 1 ? length - 1 : at;
        indices[d][k] = at >= 0 && at < length ? static_cast<int64_t>(at) : -1;
      }
    }
    const int64_t most[3] = {dimensions == 3 ? taps : 1, dimensions > 1 ? taps : 1, taps};
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t image = i / positions * channels + c;
      double sum = 0;
      for (int64_t a = 0; a < most[0]; ++a)
        for (int64_t b = 0; b < most[1]; ++b)
          for (int64_t k = 0; k < most[2]; ++k) {
            const int64_t ia = indices[0][a], ib = indices[1][b], ik = indices[2][k];
            if (ia >= 0 && ib >= 0 && ik >= 0)
              sum += weights[0][a] * weights[1][b] * weights[2][k] *
                     realAt(o[1], type, image * plane + (ia * n[1] + ib) * n[2] + ik);
          }
      store(element(o[0], type, image * positions + i % positions), type, 1, &sum, 1);
    }
  }
}

} // namespace mlbridge::native::kernels

#endif
