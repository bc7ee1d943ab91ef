// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for images and signals, without vectors. A plane has three dimensions, of which the first
// ones may be 1. A "type" is float32 or float64 unless stated.
//
// SpreadPlanes   {y, x}  {width (4, 8), fill, planes, three lengths of x, three places in y of x's
// first
//                element (may be negative), two lengths of y, phases, columns of a phase, period}
//                What lies outside of y is left out, and the rest filled. The last dimension is
//                dealt out to the phases: place q is in column q / period of phase q mod period.
//                The last place may only be negative if period is 1.
// JoinPhases     {y, x [planes, phases, lengths of one]}  {width (4, 8), planes, then of three
// dimensions
//                each: lengths of y, places before y's first, phases, lengths of a phase}
//                The other way round: place q is in column q / phases of phase q mod phases.
// WindowIndices  {indices int64, y, x, offsets int64 [taps], places int64 [taps]}  Where in its
//                plane the first element of each window is that equals y, or is NaN, as Windows
//                found it in x. The places are those of a window's elements from its first one.
//                {type, planes, taps, stride of x between planes, strides of x between windows
//                along the first two dimensions, elements of a plane, then of three dimensions
//                each: lengths of y, strides of indices, strides, dilations, pads}
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

/// The whole number that is not above x, which is below 2^63.
inline double floorOf(double x) {
  const auto whole = static_cast<double>(static_cast<int64_t>(x));
  return whole - (x < whole ? 1 : 0);
}

template <class T> MLBRIDGE_OUTLINE void spreadPlanes(Operands o, Parameters p) {
  typedef T Vector __attribute__((vector_size(16)));
  constexpr int64_t Lanes = 16 / sizeof(T);
  auto *y = static_cast<T *>(o[0]);
  const auto *x = static_cast<const T *>(o[1]);
  const int64_t *n = p + 3, *first = p + 6, *lengths = p + 9;
  const int64_t phases = p[11], columns = p[12], period = p[13], line = phases * columns;
  const Vector fill = Vector{} + static_cast<T>(p[1]);
  const auto fillUp = [fill](T *from, const T *end) MLBRIDGE_OUTLINE {
    for (; from + Lanes <= end; from += Lanes)
      __builtin_memcpy(from, &fill, sizeof fill);
    for (; from < end; ++from)
      __builtin_memcpy(from, &fill, sizeof(T));
  };
  // Two phases are made at once.
  const bool isPair = phases == 2 && period == 2;
  for (int64_t phase = 0; phase < phases; phase += isPair ? 2 : 1) {
    // A line in this phase and the next one: where the phase begins, the first element, its column,
    // and how many there are.
    int64_t start[2], from[2], column[2], count[2] = {0, 0};
    for (int64_t k = 0; k <= isPair; ++k) {
      const int64_t one = isPair ? (first[2] + k) % 2 : phase;
      start[k] = one * columns;
      from[k] =
          period == 1 && first[2] < 0 ? -first[2] : ((one - first[2]) % period + period) % period;
      column[k] = (first[2] + from[k]) / period;
      column[k] = column[k] < columns ? column[k] : columns;
      const int64_t there = (n[2] - from[k] + period - 1) / period, room = columns - column[k];
      count[k] = there < 0 ? 0 : there < room ? there : room;
    }
    const int64_t both = period == 1 || count[0] < count[1] ? count[0] : count[1];
    const int64_t whole = both < Lanes ? 0 : both; // in vectors
    T *to = y;
    for (int64_t plane = 0; plane < p[2]; ++plane)
      for (int64_t a = -first[0]; a < lengths[0] - first[0]; ++a)
        for (int64_t b = -first[1]; b < lengths[1] - first[1]; ++b, to += line) {
          if (a < 0 || a >= n[0] || b < 0 || b >= n[1]) {
            fillUp(to + phase * columns, to + (phase + 1 + isPair) * columns);
            continue;
          }
          const T *at = x + ((plane * n[0] + a) * n[1] + b) * n[2];
          T *into[] = {to + start[0] + column[0], to + start[isPair] + column[isPair]};
          // The last vector of a line may begin in the one before.
          for (int64_t i = 0; i < whole; i += Lanes) {
            const int64_t k = i < whole - Lanes ? i : whole - Lanes;
            if (period == 1) {
              __builtin_memcpy(into[0] + k, at + from[0] + k, sizeof fill);
              continue;
            }
            Vector u, v, even, odd;
            __builtin_memcpy(&u, at + 2 * k, sizeof u);
            __builtin_memcpy(&v, at + 2 * k + Lanes, sizeof v);
            if constexpr (Lanes == 4) {
              even = __builtin_shufflevector(u, v, 0, 2, 4, 6);
              odd = __builtin_shufflevector(u, v, 1, 3, 5, 7);
            } else {
              even = __builtin_shufflevector(u, v, 0, 2);
              odd = __builtin_shufflevector(u, v, 1, 3);
            }
            __builtin_memcpy(into[0] + k, &even, sizeof even);
            __builtin_memcpy(into[1] + k, &odd, sizeof odd);
          }
          for (int64_t of = 0; of <= isPair; ++of) {
            if (column[of])
              fillUp(to + start[of], into[of]);
            for (int64_t rest = whole; rest < count[of]; ++rest)
              moveAs(into[of] + rest, at + from[of] + rest * period);
            if (column[of] + count[of] < columns)
              fillUp(into[of] + count[of], to + start[of] + columns);
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

template <class T> MLBRIDGE_OUTLINE void joinPhases(Operands o, Parameters p) {
  typedef T Vector __attribute__((vector_size(16)));
  constexpr int64_t Lanes = 16 / sizeof(T);
  auto *y = static_cast<T *>(o[0]);
  const int64_t *n = p + 2, *cut = p + 5, *phases = p + 8, *lengths = p + 11;
  const int64_t each = lengths[0] * lengths[1] * lengths[2], width = phases[2];
  for (int64_t plane = 0; plane < p[1]; ++plane)
    for (int64_t a = cut[0]; a < n[0] + cut[0]; ++a)
      for (int64_t b = cut[1]; b < n[1] + cut[1]; ++b, y += n[2]) {
        const int64_t phase = (plane * phases[0] + a % phases[0]) * phases[1] + b % phases[1];
        const T *x = static_cast<const T *>(o[1]) + phase * width * each +
                     (a / phases[0] * lengths[1] + b / phases[1]) * lengths[2];
        int64_t i = 0;
        if (width == 2) {
          const T *first = x + cut[2] * each, *second = x + (cut[2] ? 1 : each);
          for (; i + 2 * Lanes <= n[2]; i += 2 * Lanes) {
            Vector even, odd, low, high;
            __builtin_memcpy(&even, first + i / 2, sizeof even);
            __builtin_memcpy(&odd, second + i / 2, sizeof odd);
            if constexpr (Lanes == 4) {
              low = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
              high = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
            } else {
              low = __builtin_shufflevector(even, odd, 0, 2);
              high = __builtin_shufflevector(even, odd, 1, 3);
            }
            __builtin_memcpy(y + i, &low, sizeof low);
            __builtin_memcpy(y + i + Lanes, &high, sizeof high);
          }
        }
        int64_t column = (cut[2] + i) / width, of = (cut[2] + i) % width;
        for (; i < n[2]; ++i) {
          moveAs(y + i, x + of * each + column);
          of = of + 1 < width ? of + 1 : 0;
          column += of == 0;
        }
      }
}
inline void JoinPhases(Operands o, Parameters p) {
  if (p[0] == 4)
    joinPhases<uint32_t>(o, p);
  else
    joinPhases<uint64_t>(o, p);
}

template <class T, class Whole> inline void windowIndices(Operands o, Parameters p) {
  typedef T Vector __attribute__((vector_size(16)));
  typedef Whole Numbers __attribute__((vector_size(16)));
  constexpr int64_t Lanes = 16 / sizeof(T);
  auto *indices = static_cast<int64_t *>(o[0]);
  const auto *y = static_cast<const T *>(o[1]);
  const auto *offsets = static_cast<const int64_t *>(o[3]),
             *places = static_cast<const int64_t *>(o[4]);
  const int64_t *out = p + 7, *apart = p + 10, *strides = p + 13, *dilations = p + 16,
                *pads = p + 19;
  const int64_t lines = out[0] * out[1];
  for (int64_t line = 0; line < p[1] * lines; ++line) {
    const int64_t plane = line / lines;
    int64_t at[] = {line % lines / out[1], line % out[1], 0};
    const T *x = static_cast<const T *>(o[2]) + plane * p[3] + at[0] * p[4] + at[1] * p[5];
    int64_t start = plane * p[6];
    for (int d = 0; d < 3; ++d)
      start += (at[d] * strides[d] - pads[d]) * apart[d];
    for (; at[2] < out[2]; x += Lanes) {
      const int64_t left = out[2] - at[2];
      Vector greatest = {};
      __builtin_memcpy(&greatest, y, left < Lanes ? static_cast<size_t>(left) * sizeof(T) : 16);
      Numbers best = {};
      for (int64_t tap = p[2]; tap-- > 0;) {
        Vector v;
        __builtin_memcpy(&v, x + offsets[tap], sizeof v);
        const Numbers is = (v == greatest) | (v != v);
        best = (best & ~is) | ((Numbers{} + static_cast<Whole>(tap)) & is);
      }
      for (int64_t lane = 0; lane < Lanes && lane < left; ++lane, ++at[2], ++y) {
        int64_t index = start + at[2] * strides[2] * apart[2] + places[best[lane]];
        if (*y == -static_cast<T>(__builtin_inf())) { // then the first one that is no padding
          index = plane * p[6];
          for (int d = 0; d < 3; ++d) {
            const int64_t place = at[d] * strides[d] - pads[d], inside = place < 0 ? -place : 0;
            const int64_t tap = (inside + dilations[d] - 1) / dilations[d];
            index += (place + tap * dilations[d]) * apart[d];
          }
        }
        *indices++ = index;
      }
    }
  }
}
inline void WindowIndices(Operands o, Parameters p) {
  if (p[0] == Float64)
    windowIndices<double, int64_t>(o, p);
  else
    windowIndices<float, int32_t>(o, p);
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

/// What a result is made of: its elements in a plane, those that are there, and their weights.
struct Samples {
  static constexpr int Most = 64;
  int count;
  int64_t at[Most];
  double weights[Most];
};
/// `normal`: the place, one number for each dimension, the last one first.
inline void findSamples(Samples &samples, const double *normal, Parameters p) {
  constexpr int MostTaps = 4;
  const int64_t dimensions = p[4], padding = p[6];
  const auto mode = static_cast<SampleMode>(p[5]);
  const bool aligns = p[7] != 0;
  const int64_t *n = p + 8;
  const int64_t taps = mode == SampleMode::Nearest ? 1 : mode == SampleMode::Linear ? 2 : 4;
  // Indices, or -1, and weights for each dimension, of which the first ones may be missing.
  int64_t indices[3][MostTaps];
  double weights[3][MostTaps];
  for (int d = 0; d < 3; ++d) {
    indices[d][0] = 0;
    weights[d][0] = 1;
  }
  for (int64_t d = 3 - dimensions; d < 3; ++d) {
    const auto length = static_cast<double>(n[d]);
    const double least = aligns ? 0 : -0.5, greatest = aligns ? length - 1 : length - 0.5;
    const double place = normal[2 - d];
    double x = aligns ? (place + 1) / 2 * (length - 1) : ((place + 1) * length - 1) / 2;
    x = p[0] == Float32 ? static_cast<double>(static_cast<float>(x)) : x;
    if (mode == SampleMode::Nearest)
      x = (x + BitsOf<double>::Rounder) - BitsOf<double>::Rounder;
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
  samples.count = 0;
  for (int64_t a = 0; a < (dimensions == 3 ? taps : 1); ++a)
    for (int64_t b = 0; b < (dimensions > 1 ? taps : 1); ++b)
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t ia = indices[0][a], ib = indices[1][b], ik = indices[2][k];
        samples.at[samples.count] = (ia * n[1] + ib) * n[2] + ik;
        samples.weights[samples.count] = weights[0][a] * weights[1][b] * weights[2][k];
        samples.count += (ia | ib | ik) >= 0;
      }
}

template <class T> MLBRIDGE_INLINE void gridSample(Operands o, Parameters p) {
  constexpr int64_t Block = 16; // positions
  const int64_t channels = p[2], positions = p[3], dimensions = p[4], plane = p[8] * p[9] * p[10];
  const auto *grid = static_cast<const T *>(o[2]);
  Samples samples[Block];
  for (int64_t batch = 0; batch < p[1]; ++batch)
    for (int64_t first = 0; first < positions; first += Block) {
      const int64_t count = positions - first < Block ? positions - first : Block;
      for (int64_t i = 0; i < count; ++i) {
        double normal[3] = {};
        for (int64_t d = 0; d < dimensions; ++d)
          normal[d] = static_cast<double>(*grid++);
        findSamples(samples[i], normal, p);
      }
      for (int64_t c = batch * channels; c < (batch + 1) * channels; ++c) {
        const T *x = static_cast<const T *>(o[1]) + c * plane;
        T *y = static_cast<T *>(o[0]) + c * positions + first;
        for (int64_t i = 0; i < count; ++i) {
          double sum = 0;
          for (int k = 0; k < samples[i].count; ++k)
            sum += samples[i].weights[k] * static_cast<double>(x[samples[i].at[k]]);
          y[i] = static_cast<T>(sum);
        }
      }
    }
}
inline void GridSample(Operands o, Parameters p) {
  if (p[0] == Float64)
    gridSample<double>(o, p);
  else
    gridSample<float>(o, p);
}

} // namespace mlbridge::native::kernels

#endif
