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
    return l.invalid("a window of ", n, " elements, or 'output_datatype' is no type of numbers");
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

/// The transform of length `n` along an axis of x [..., 1 or 2], real or complex numbers. The
/// inverse of one side is real.
Status transform(Lowering &l, Value *x, int64_t axis, int64_t n, bool isInverse, bool oneSided) {
  constexpr int64_t Longest = 1 << 12;
  const int64_t parts = x->rank() < 2 ? 0 : x->shape.back();
  if (parts != 1 && parts != 2)
    return l.invalid("it takes [..., 1] or [..., 2], not ", x->shape);
  if (!l.axis(axis, x->rank() - 1))
    return l.status();
  if (n < 1 || (oneSided && parts == 2 && !isInverse))
    return l.invalid("a length of ", n, ", or one side of complex numbers");
  if (n > Longest)
    return l.unsupported("a transform of more than ", Longest, " elements");
  const bool isReal = oneSided && isInverse;
  const auto along = static_cast<size_t>(axis);
  Shape shape = x->shape;
  shape[along] = std::min(shape[along], isReal ? n / 2 + 1 : n);
  x = slice(l, x, shape, Integers(x->rank()), Integers(x->rank(), 1));
  // Row j of the matrix has e^(∓2πi jk / n), for real and imaginary part a row and a column each.
  const int64_t used = shape[along], wanted = oneSided && !isReal ? n / 2 + 1 : n;
  const int64_t results = isReal ? 1 : 2, entries = used * parts * wanted * results;
  if (!l.planner.hasTimeFor(8 * static_cast<uint64_t>(entries)))
    return l.status();
  std::vector<double> angles; // whose cosines are cos, sin and −sin
  for (const double before : {0.0, -Turn / 4, Turn / 4})
    for (int64_t i = 0; i < n; ++i)
      angles.push_back(Turn * static_cast<double>(i) / static_cast<double>(n) + before);
  Integers numbers;
  for (int64_t j = 0; j < used; ++j)
    for (int64_t a = 0; a < parts; ++a)
      for (int64_t k = 0; k < wanted; ++k)
        for (int64_t b = 0; b < results; ++b)
          numbers.push_back(j * k % n + (a == b ? 0 : (a == 1) != isInverse ? n : 2 * n));
  Value *table = cast(l, cosines(l, angles), x->type);
  Value *matrix = l.make(x->type, {used * parts, wanted * results});
  l.emit(KernelId::Gather, {matrix}, {table, l.constantOf<int64_t>({entries}, numbers), l.fault()},
         {1, 3 * n, width(x), entries});
  if (isReal) { // what isn't there is the conjugate of what is
    std::vector<double> times;
    for (int64_t i = 0; i < used * parts; ++i)
      times.push_back(i / parts == 0 || i / parts * 2 == n ? 1 : 2);
    Value *factors = l.constantOf<double>({used * parts, 1}, times);
    matrix = binary(l, KernelId::MulF32, matrix, cast(l, factors, x->type));
  }
  l.planner.foldNode();
  Integers order = allAxes(x->rank()), back = order;
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end() - 1);
  std::rotate(back.begin() + axis, back.end() - 2, back.end() - 1);
  const int64_t rows = product(shape, 0, along) * product(shape, along + 1, shape.size() - 1);
  Value *y = matmul(l, l.view(transpose(l, x, order), {rows, used * parts}), matrix, false,
                    isInverse ? 1.0 / static_cast<double>(n) : 1);
  shape = {};
  for (const int64_t from : order)
    shape.push_back(x->shape[static_cast<size_t>(from)]);
  shape[shape.size() - 2] = wanted;
  shape.back() = results;
  return l.give(transpose(l, l.view(y, shape), back));
}

Status dftAlong(Lowering &l, int64_t axis) {
  Value *x = l.in(0);
  if (!l.axis(axis, x->rank()))
    return l.status();
  const bool isInverse = l.integer("inverse", 0) != 0, oneSided = l.integer("onesided", 0) != 0;
  int64_t n = x->shape[static_cast<size_t>(axis)];
  if (isInverse && oneSided)
    n = 2 * (n - 1);
  if (l.in(1) && !l.read(l.in(1), n))
    return l.status();
  return transform(l, x, axis, n, isInverse, oneSided);
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
    return l.invalid("frames of ", n, " at a distance of ", step, " in ", x->shape);
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
