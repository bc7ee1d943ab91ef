// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows that move over images and signals: what convolutions and pooling share.
#ifndef MLBRIDGE_ENGINE_NATIVE_OPERATORS_SPATIAL_H
#define MLBRIDGE_ENGINE_NATIVE_OPERATORS_SPATIAL_H

#include "engine/native/operators/common.h"

#include <array>

namespace mlbridge::native {

/// The attributes of all windows.
#define MLBRIDGE_WINDOW "auto_pad dilations kernel_shape pads strides"

/// One number for each of three dimensions, the first ones of which may be missing.
using Triple = std::array<int64_t, 3>;

struct Sliding {
  Triple in = {1, 1, 1}, out = {1, 1, 1}, window = {1, 1, 1}, strides = {1, 1, 1},
         dilations = {1, 1, 1}, before = {}, after = {};
  size_t first = 0; ///< the first dimension that is there

  /// Elements that a window covers along a dimension.
  int64_t extent(size_t i) const { return (window[i] - 1) * dilations[i] + 1; }
  int64_t taps() const { return window[0] * window[1] * window[2]; }
  int64_t positions() const { return out[0] * out[1] * out[2]; }
  /// [batch, channels, lengths of the result]
  Shape shape(int64_t batch, int64_t channels) const;
};

/// Which of these words an attribute is; the first one, too, without it or on failure.
int choice(Lowering &l, const char *name, std::string_view words);

/// Reads window, strides and dilations for x [N, C, lengths]. `window`: the attribute's.
bool readSliding(Lowering &l, const Value *x, const Integers &window, Sliding &out);
/// Reads 'pads' or 'auto_pad' and works out the lengths of the result.
bool readPads(Lowering &l, Sliding &s, bool roundsUp);
/// The attributes 'pads', of as many dimensions as there are.
bool readPadList(Lowering &l, Sliding &s);

/// Reads a convolution of x [N, C, lengths] with weights [O, C / groups, window], and a bias or
/// null.
bool readConvolution(Lowering &l, const Value *x, const Value *weights, const Value *bias,
                     Sliding &s, int64_t &groups);

/// The greatest elements of windows of x [planes, lengths], or with weights [period, taps] the sums
/// of their products, to which a bias [period] is added. Result i reads plane i / `outputs`.
/// `indices`, if not null, become those of the greatest elements, by columns if the last dimension
/// comes first in them.
Value *windows(Lowering &l, Value *x, const Sliding &s, const Shape &shape, Value *weights,
               Value *bias, int64_t outputs = 1, Value *indices = nullptr, bool byColumns = false);
/// The sum of each window.
Value *windowSums(Lowering &l, Value *x, const Sliding &s, const Shape &shape);
/// x [N, C, lengths] with weights [O, C / groups, window], and a bias [O] or null.
Value *convolve(Lowering &l, Value *x, Value *weights, Value *bias, const Sliding &s,
                int64_t groups);

} // namespace mlbridge::native

#endif
