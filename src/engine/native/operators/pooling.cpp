// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pooling, which is made of sums or greatest elements of windows, and what is like it.
#include "engine/native/operators/spatial.h"

namespace mlbridge::native {
namespace {

bool readPool(Lowering &l, const Value *x, Sliding &s) {
  if (l.list("kernel_shape").empty())
    return l.invalid("its attribute 'kernel_shape' is missing");
  return readSliding(l, x, l.list("kernel_shape"), s) &&
         readPads(l, s, l.integer("ceil_mode", 0) != 0);
}

Status averagePool(Lowering &l) {
  Value *x = l.in(0);
  Sliding s;
  if (!readPool(l, x, s))
    return l.status();
  const bool countsPads = l.integer("count_include_pad", 0) != 0;
  Value *sums = windowSums(l, x, s, s.shape(x->shape[0], x->shape[1]));
  // How many elements each window has: a product over the dimensions.
  std::array<Integers, 3> counts;
  bool isSame = true;
  for (size_t d = 0; d < 3; ++d) {
    if (!l.status() || !l.planner.hasTimeFor(4 * static_cast<uint64_t>(s.out[d])))
      return l.status();
    const int64_t least = countsPads ? 0 : s.before[d];
    const int64_t end = s.before[d] + s.in[d] + (countsPads ? s.after[d] : 0);
    // The result is how many of start, start + dilation, … lie before a bound.
    const auto before = [&](int64_t start, int64_t bound) {
      const int64_t n = (bound - start + s.dilations[d] - 1) / s.dilations[d];
      return std::min(std::max<int64_t>(bound > start ? n : 0, 0), s.window[d]);
    };
    for (int64_t i = 0; i < s.out[d]; ++i) {
      const int64_t start = i * s.strides[d];
      counts[d].push_back(before(start, end) - before(start, least));
      isSame = isSame && counts[d].back() == counts[d].front();
    }
  }
  std::vector<double> all;
  for (const int64_t a : counts[0])
    for (const int64_t b : counts[1])
      for (const int64_t c : counts[2])
        if (!isSame || all.empty())
          all.push_back(static_cast<double>(std::max<int64_t>(a * b * c, 1)));
  Shape shape = s.shape(1, 1);
  if (isSame)
    shape.assign(all.size(), 1);
  Value *divisor = cast(l, l.constantOf<double>(shape, all), x->type);
  return l.give(all.empty() ? sums : binary(l, KernelId::DivF32, sums, divisor));
}

Status maxPool(Lowering &l) {
  Value *x = l.in(0);
  Sliding s;
  const int64_t byColumns = l.integer("storage_order", 0);
  if (byColumns != 0 && byColumns != 1)
    return l.invalid("its attribute 'storage_order' is ", byColumns);
  if (!readPool(l, x, s))
    return l.status();
  const Shape shape = s.shape(x->shape[0], x->shape[1]);
  const ElementType type = x->type;
  if (sizeOf(type) != 1 && !isFloat(type))
    return l.unsupported("a pool of ", name(type));
  if (!isFloat(type))
    x = cast(l, x, ElementType::Float32);
  Value *indices = l.wants(1) ? l.output(1, ElementType::Int64, shape) : nullptr;
  Value *y = windows(l, x, s, shape, nullptr, nullptr, 1, indices, byColumns != 0);
  if (indices) { // which are found by y as it is, so that no activation may become part of it
    y = l.view(y, shape);
    l.planner.countMultiplyAdds(y->count * static_cast<uint64_t>(s.taps()));
  }
  l.setResult(0, cast(l, y, type));
  return l.status();
}

/// Puts elements back to where MaxPool found them.
Status maxUnpool(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1);
  Sliding s;
  if (!readSliding(l, x, l.list("kernel_shape"), s) || !readPadList(l, s))
    return l.status();
  for (size_t i = s.first; i < 3; ++i)
    s.out[i] = (s.in[i] - 1) * s.strides[i] + s.window[i] - s.before[i] - s.after[i];
  const Shape inner = s.shape(x->shape[0], x->shape[1]);
  Shape shape = inner;
  if (l.in(2) && !l.read(l.in(2), shape))
    return l.status();
  bool fits = indices->shape == x->shape && shape.size() == inner.size();
  for (size_t i = 0; fits && i < inner.size(); ++i)
    fits = inner[i] >= 0 && inner[i] <= shape[i];
  if (!fits)
    return misfit(l, "as many indices as elements, and an output that has room for the windows");
  Value *zero = l.constantReal(x->type, 0), *y = fill(l, x->type, inner, zero);
  l.emit(KernelId::ScatterNd, {y}, {x, indices, l.fault()},
         {code(x->type), number(ScatterOp::None), count(x), 1, 1, count(y), 1});
  if (shape == inner)
    return l.give(y);
  Value *whole = fill(l, x->type, shape, zero);
  place(l, whole, y, Integers(shape.size()));
  return l.give(whole);
}

Status nonMaxSuppression(Lowering &l) {
  const Value *boxes = l.in(0), *scores = l.in(1);
  const int64_t isCentred = l.integer("center_point_box", 0) != 0;
  bool fits = boxes->rank() == 3 && scores->rank() == 3 && boxes->shape[2] == 4 &&
              scores->shape[0] == boxes->shape[0] && scores->shape[2] == boxes->shape[1];
  for (size_t i = 2; i < 5; ++i)
    fits = fits && (!l.in(i) || (l.in(i)->count == 1 &&
                                 l.in(i)->type == (i == 2 ? ElementType::Int64 : boxes->type)));
  if (!fits)
    return misfit(l, "boxes [batch, n, 4], scores [batch, classes, n] and numbers");
  const int64_t n = boxes->shape[1];
  Value *number = l.make(ElementType::Int64, {});
  Value *selected = l.make(ElementType::Int64, {count(scores), 3});
  l.emit(KernelId::SuppressOverlaps, {number, selected},
         {l.in(0), l.in(1), l.in(2), l.in(3), l.in(4), l.make(ElementType::Int64, {n})},
         {scores->shape[0], scores->shape[1], n, isCentred});
  l.planner.countMultiplyAdds(scores->count * static_cast<uint64_t>(n));
  int64_t found = 0;
  return l.read(number, found) ? l.give(l.view(selected, {found, 3})) : l.status();
}

/// The power and root around a sum: of absolute values, to the p.
struct Norm {
  double p;
  Value *raised(Lowering &l, Value *x) const {
    if (p == 2)
      return unary(l, KernelId::SquareF32, x);
    x = absolute(l, x);
    return p == 1 ? x : binary(l, KernelId::PowF32, x, l.constantReal(x->type, p));
  }
  Value *root(Lowering &l, Value *sum) const {
    if (p == 2)
      return unary(l, KernelId::SqrtF32, sum);
    return p == 1 ? sum : binary(l, KernelId::PowF32, sum, l.constantReal(sum->type, 1 / p));
  }
};
/// Until version 1 'p' was a float.
bool readNorm(Lowering &l, Norm &norm) {
  const onnx::Attribute *p = l.attribute("p");
  const bool isReal = p && p->type == 1; // AttributeProto.FLOAT
  norm.p = isReal ? l.real("p", 2) : static_cast<double>(l.integer("p", 2));
  return norm.p > 0 ? bool(l.status()) : l.invalid("its attribute 'p' is ", norm.p);
}

Status lpPool(Lowering &l) {
  Value *x = l.in(0);
  Sliding s;
  Norm norm = {};
  if (!readNorm(l, norm) || !readPool(l, x, s))
    return l.status();
  Value *raised = norm.raised(l, x);
  return l.give(norm.root(l, windowSums(l, raised, s, s.shape(x->shape[0], x->shape[1]))));
}

/// Reduces all that comes after the channels.
Value *global(Lowering &l, Value *x, KernelId kernel, ReduceOp op) {
  Integers axes = allAxes(x->rank());
  axes.erase(axes.begin(), axes.begin() + 2);
  return reduce(l, kernel, op, x, axes, true);
}
template <KernelId Kernel, ReduceOp Op> Status globalPool(Lowering &l) {
  Value *x = l.in(0);
  Norm norm = {1};
  const bool isNorm = Op == ReduceOp::Sum;
  if (x->rank() < 3)
    return l.invalid("it takes [N, C, lengths], not ", x->shape);
  if (isNorm && !readNorm(l, norm))
    return l.status();
  Value *y = global(l, isNorm ? norm.raised(l, x) : x, Kernel, Op);
  return l.give(isNorm ? norm.root(l, y) : y);
}

/// x / (bias + alpha · the mean of neighbouring channels' squares) ^ beta
Status lrn(Lowering &l) {
  Value *x = l.in(0);
  const int64_t size = l.integer("size", 0);
  if (size < 1 || size > (1 << 24) || x->rank() < 2)
    return l.invalid("its attribute 'size' is ", size, " for ", x->shape);
  const int64_t channels = x->shape[1], inner = product(x->shape, 2, x->rank());
  Sliding s;
  s.in = s.out = {1, channels, inner};
  s.window[1] = size;
  s.before[1] = (size - 1) / 2;
  s.after[1] = size - 1 - s.before[1];
  Value *squares = unary(l, KernelId::SquareF32, x);
  Value *sums = windowSums(l, squares, s, x->shape);
  Value *scale = unary(l, KernelId::AffineF32, sums,
                       l.real("alpha", 1e-4F) / static_cast<double>(size), l.real("bias", 1));
  Value *power = binary(l, KernelId::PowF32, scale, l.constantReal(x->type, l.real("beta", 0.75)));
  return l.give(binary(l, KernelId::DivF32, x, power));
}

#define MLBRIDGE_POOL MLBRIDGE_WINDOW " ceil_mode"
constexpr Operator Table[] = {
    {"AveragePool", 1, "T", Reals, 1, true, averagePool, MLBRIDGE_POOL " count_include_pad"},
    {"MaxPool", 1, "T", Numbers, 2, true, maxPool, MLBRIDGE_POOL " storage_order"},
    {"MaxUnpool", 9, "TLl", Reals, 1, true, maxUnpool, "kernel_shape pads strides", 4},
    {"NonMaxSuppression", 10, "TTlaa", Real32, 1, false, nonMaxSuppression, "center_point_box",
     SelfDeciding},
    {"LpPool", 1, "T", Reals, 1, true, lpPool, MLBRIDGE_POOL " p"},
    {"GlobalAveragePool", 1, "T", Reals, 1, true,
     globalPool<KernelId::ReduceMeanF32, ReduceOp::Mean>},
    {"GlobalMaxPool", 1, "T", Reals, 1, true, globalPool<KernelId::ReduceMaxF32, ReduceOp::Max>},
    {"GlobalLpPool", 1, "T", Reals, 1, true, globalPool<KernelId::ReduceSumF32, ReduceOp::Sum>,
     "p"},
    {"LRN", 1, "T", Reals, 1, true, lrn, "alpha beta bias size"},
};

} // namespace

const Span<const Operator> PoolingOperators = Table;

} // namespace mlbridge::native
