// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows and Fourier transforms. A transform is a product with a constant matrix: signals that
// policies look at are short.
#include "engine/native/operators/common.h"

#include <cmath>

namespace mlbridge::native {
namespace {

constexpr double Turn = 6.283185307179586; // 2π

/// The cosines of angles in float64, by this engine's own function.
Value *cosines(Lowering &l, const std::vector<double> &angles) {
  return unary(l, KernelId::CosF32,
               l.constantOf<double>({static_cast<int64_t>(angles.size())}, angles));
}

/// The window a − b cos t + c cos 2t.
Status window(Lowering &l, double a, double b, double c) {
  int64_t n = 0;
  if (!l.read(l.in(0), n))
    return l.status();
  const auto type = onnx::elementType(static_cast<onnx::DataType>(l.integer("output_datatype", 1)));
  if (n < 0 || !type || !isIn(*type, Numbers))
    return misfit(l, "a length, and 'output_datatype' a type of numbers");
  (void)l.make(ElementType::Float64, {n});
  if (!l.status() || !l.planner.hasTimeFor(4 * static_cast<uint64_t>(n)))
    return l.status();
  const int64_t period = std::max<int64_t>(n - (l.integer("periodic", 1) == 0), 1);
  std::vector<double> angles;
  for (int64_t i = 0; i < n; ++i)
    angles.push_back(Turn * static_cast<double>(i) / static_cast<double>(period));
  Value *y = unary(l, KernelId::AffineF32, cosines(l, angles), -b, a);
  if (c != 0) {
    for (double &angle : angles)
      angle *= 2;
    y = binary(l, KernelId::AddF32, y, unary(l, KernelId::AffineF32, cosines(l, angles), c, 0));
  }
  return l.give(cast(l, y, *type));
}
Status hannWindow(Lowering &l) { return window(l, 0.5, 0.5, 0); }
Status hammingWindow(Lowering &l) { return window(l, 25.0 / 46, 21.0 / 46, 0); }
Status blackmanWindow(Lowering &l) { return window(l, 0.42, 0.5, 0.08); }

/// The transform along an axis of x [..., 1 or 2], real or complex numbers, of length `n`, or of
/// the axis' length if that is 0.
Status transform(Lowering &l, Value *x, int64_t axis, int64_t n, bool isInverse, bool oneSided) {
  constexpr int64_t Longest = 1 << 10;
  if (!l.axis(axis, x->rank()))
    return l.status();
  const auto along = static_cast<size_t>(axis);
  const int64_t parts = x->shape.back();
  Shape shape = x->shape;
  n = n ? n : shape[along];
  if (n < 1 || parts < 1 || parts > 2 || along + 1 == shape.size() ||
      (oneSided && parts == 2 && !isInverse))
    return misfit(l, "real or complex numbers, an axis before them and a length of 1 or more");
  if (n > Longest || (oneSided && isInverse))
    return l.unsupported("a transform longer than 1024, or back from one side");
  shape[along] = std::min(shape[along], n);
  x = slice(l, x, shape, Integers(x->rank()), Integers(x->rank(), 1));
  // Row j of the matrix has e^(∓2πi jk / n), for real and imaginary part a row and a column each.
  const int64_t used = shape[along], wanted = oneSided ? n / 2 + 1 : n;
  std::vector<double> angles; // whose cosines are cos, sin and −sin
  if (!l.planner.hasTimeFor(64 * static_cast<uint64_t>(n * n)))
    return l.status();
  for (int64_t i = 0; i < used * parts; ++i)
    for (int64_t k = 0; k < wanted * 2; ++k) {
      const bool isOdd = i % parts != 0, isImaginary = k % 2 != 0;
      angles.push_back(Turn * static_cast<double>(i / parts * (k / 2) % n) /
                       static_cast<double>(n));
      if (isOdd != isImaginary)
        angles.back() += isOdd == isInverse ? Turn / 4 : -Turn / 4;
    }
  Value *matrix = l.view(cast(l, cosines(l, angles), x->type), {used * parts, wanted * 2});
  l.planner.foldNode();
  Integers order = allAxes(shape.size()), back = order;
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end() - 1);
  std::rotate(back.begin() + axis, back.end() - 2, back.end() - 1);
  x = transpose(l, x, order);
  shape = x->shape;
  const int64_t rows = product(shape, 0, shape.size() - 2);
  Value *y = matmul(l, l.view(x, {rows, used * parts}), matrix, false,
                    isInverse ? 1.0 / static_cast<double>(n) : 1);
  shape[shape.size() - 2] = wanted;
  shape.back() = 2;
  return l.give(transpose(l, l.view(y, shape), back));
}

Status dftAlong(Lowering &l, int64_t axis) {
  int64_t n = 0;
  if (l.in(1) && !l.read(l.in(1), n))
    return l.status();
  return transform(l, l.in(0), axis, l.in(1) && n == 0 ? -1 : n, l.integer("inverse", 0) != 0,
                   l.integer("onesided", 0) != 0);
}
/// Until version 19 the axis was an attribute.
Status dftByAttributes(Lowering &l) { return dftAlong(l, l.integer("axis", 1)); }
Status dft(Lowering &l) {
  int64_t axis = -2;
  if (l.in(2) && !l.read(l.in(2), axis))
    return l.status();
  return dftAlong(l, axis);
}

/// The transforms of frames, which may overlap, times a window.
Status stft(Lowering &l) {
  Value *x = l.in(0), *window = l.in(2);
  int64_t step = 0, n = window ? count(window) : 0;
  if (!l.read(l.in(1), step) || (l.in(3) && !l.read(l.in(3), n)))
    return l.status();
  const int64_t parts = x->rank() == 3 ? x->shape[2] : 1;
  const int64_t length = x->rank() == 2 || x->rank() == 3 ? x->shape[1] : 0;
  if (step < 1 || n < 1 || n > length || (window && window->shape != Shape{n}))
    return misfit(l, "frames that lie in the signal, and a window as long");
  Value *frames = strided(l, x, {x->shape[0], (length - n) / step + 1, n, parts},
                          {length * parts, step * parts, parts, 1}, 0);
  if (window)
    frames = binary(l, KernelId::MulF32, frames, l.view(window, {n, 1}));
  return transform(l, frames, 2, n, false, l.integer("onesided", 1) != 0);
}

constexpr Operator Table[] = {
    {"HannWindow", 17, "I", Fixed, 1, false, hannWindow, "output_datatype periodic", 1},
    {"HammingWindow", 17, "I", Fixed, 1, false, hammingWindow, "output_datatype periodic", 1},
    {"BlackmanWindow", 17, "I", Fixed, 1, false, blackmanWindow, "output_datatype periodic", 1},
    {"DFT", 17, "Ti", Reals, 1, true, dftByAttributes, "axis inverse onesided", 2},
    {"DFT", 20, "Tii", Reals, 1, true, dft, "inverse onesided", 6},
    {"STFT", 17, "TIti", Reals, 1, true, stft, "onesided", 10},
};

} // namespace

const Span<const Operator> SignalOperators = Table;

} // namespace mlbridge::native
