// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators that scale by means and deviations.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

/// [batch, channels, everything else]
bool channelsOf(Lowering &l, const Value *x, int64_t &batch, int64_t &channels, int64_t &inner) {
  if (x->rank() < 2)
    return l.invalid("it takes [N, C, ...], not " + toString(x->shape));
  batch = x->shape[0];
  channels = x->shape[1];
  inner = product(x->shape, 2, x->rank());
  return true;
}

bool haveCount(Lowering &l, std::initializer_list<const Value *> values, int64_t wanted) {
  for (const Value *value : values)
    if (value && count(value) != wanted)
      return l.invalid("a scale, bias, mean or variance has " + toString(value->shape) +
                       " instead of " + std::to_string(wanted) + " elements");
  return true;
}

Status batchNormalization(Lowering &l) {
  Value *x = l.in(0);
  int64_t batch = 1, channels = 1, inner = 1;
  if (x->rank() == 1)
    channels = 1, inner = 1, batch = count(x);
  else if (!channelsOf(l, x, batch, channels, inner))
    return l.status();
  if (l.integer("training_mode", 0) != 0)
    return l.unsupported("BatchNormalization in training");
  Value *scale = l.in(1), *bias = l.in(2), *mean = l.in(3), *variance = l.in(4);
  if (!haveCount(l, {scale, bias, mean, variance}, channels))
    return l.status();
  const auto same = [&](Value *value) { return cast(l, value, x->type); };
  Value *y = l.output(0, x->type, x->shape);
  return l.emit(pick(KernelId::BatchNormF32, x->type), {y},
                {x, same(scale), same(bias), same(mean), same(variance)},
                {batch, channels, inner, real(l.real("epsilon", 1e-5F))});
}

Status instanceNormalization(Lowering &l) {
  Value *x = l.in(0);
  int64_t batch = 0, channels = 0, inner = 0;
  if (!channelsOf(l, x, batch, channels, inner) || !haveCount(l, {l.in(1), l.in(2)}, channels))
    return l.status();
  Value *y = l.output(0, x->type, x->shape);
  return l.emit(pick(KernelId::GroupNormF32, x->type), {y}, {x, l.in(1), l.in(2)},
                {batch, channels, 1, inner, real(l.real("epsilon", 1e-5F))});
}

Status groupNormalization(Lowering &l) {
  Value *x = l.in(0), *scale = l.in(1), *bias = l.in(2);
  int64_t batch = 0, channels = 0, inner = 0;
  const int64_t groups = l.integer("num_groups", 0);
  if (!channelsOf(l, x, batch, channels, inner))
    return l.status();
  if (groups < 1 || channels % groups)
    return l.invalid(std::to_string(groups) + " groups of " + std::to_string(channels) +
                     " channels");
  if (l.version < 21) { // one for each group
    if (!haveCount(l, {scale, bias}, groups))
      return l.status();
    const auto spread = [&](Value *value) {
      return l.view(expand(l, l.view(value, {groups, 1}), {groups, channels / groups}), {channels});
    };
    scale = spread(scale);
    bias = spread(bias);
  }
  if (!haveCount(l, {scale, bias}, channels))
    return l.status();
  Value *y = l.output(0, x->type, x->shape);
  return l.emit(pick(KernelId::GroupNormF32, x->type), {y}, {x, scale, bias},
                {batch, groups, channels / groups, inner, real(l.real("epsilon", 1e-5F))});
}

/// What is normalized: all from `axis` on.
template <bool IsRms> Status layerNormalization(Lowering &l) {
  Value *x = l.in(0), *scale = l.in(1), *bias = IsRms ? nullptr : l.in(2);
  Along at;
  if (!readAxis(l, x, -1, at))
    return l.status();
  const int64_t rows = at.outer, n = at.n * at.inner;
  const double epsilon = l.real("epsilon", 1e-5F);
  const bool fits = count(scale) == n && (!bias || count(bias) == n);
  Value *kernelScale = fits ? scale : nullptr, *kernelBias = fits ? bias : nullptr;
  Value *y = l.make(x->type, x->shape);
  if (IsRms) {
    l.emit(pick(KernelId::RmsNormF32, x->type), {y}, {x, kernelScale}, {rows, n, real(epsilon)});
  } else {
    Shape reduced = x->shape;
    std::fill(reduced.begin() + static_cast<ptrdiff_t>(at.axis), reduced.end(), 1);
    Value *mean = l.wants(1) ? l.output(1, x->type, reduced) : nullptr;
    Value *deviation = l.wants(2) ? l.output(2, x->type, reduced) : nullptr;
    l.emit(pick(KernelId::LayerNormF32, x->type), {y, mean, deviation},
           {x, kernelScale, kernelBias}, {rows, n, real(epsilon)});
  }
  if (!fits) {
    y = binary(l, KernelId::MulF32, y, scale);
    if (bias)
      y = binary(l, KernelId::AddF32, y, bias);
    if (l.status() && y->shape != x->shape)
      return l.invalid("a scale of " + toString(scale->shape) + " for " + toString(x->shape));
  }
  return l.give(y);
}

Status meanVarianceNormalization(Lowering &l) {
  Value *x = l.in(0);
  std::vector<int64_t> axes{0, 2, 3};
  if (const std::vector<int64_t> *attribute = l.integers("axes"))
    axes = *attribute;
  if (!l.axes(axes, x->rank()))
    return l.status();
  std::sort(axes.begin(), axes.end());
  Value *mean = reduce(l, KernelId::ReduceMeanF32, ReduceOp::Mean, x, axes, true);
  Value *centered = binary(l, KernelId::SubF32, x, mean);
  Value *variance = reduce(l, KernelId::ReduceMeanF32, ReduceOp::Mean,
                           unary(l, KernelId::SquareF32, centered), axes, true);
  Value *deviation = binary(l, KernelId::AddF32, unary(l, KernelId::SqrtF32, variance),
                            l.constantReal(x->type, 1e-9));
  return l.give(binary(l, KernelId::DivF32, centered, deviation));
}

Status lpNormalization(Lowering &l) {
  Value *x = l.in(0);
  int64_t axis = l.integer("axis", -1);
  const int64_t p = l.integer("p", 2);
  if (!l.axis(axis, x->rank()))
    return l.status();
  if (p != 1 && p != 2)
    return l.invalid("p is " + std::to_string(p));
  Value *norm = reduce(l, p == 1 ? KernelId::ReduceL1F32 : KernelId::ReduceL2F32, ReduceOp::L1, x,
                       {axis}, true);
  // Nothing divided by nothing is nothing.
  Value *zero = l.constantReal(x->type, 0);
  Value *isZero = compare(l, CompareOp::Equal, norm, zero);
  return l.give(where(l, isZero, zero, binary(l, KernelId::DivF32, x, norm)));
}

constexpr Operator Table[] = {
    {"BatchNormalization", 7, "TUUUU", Reals, 5, true, batchNormalization},
    {"InstanceNormalization", 6, "TTT", Reals, 1, true, instanceNormalization},
    {"GroupNormalization", 18, "TTT", Reals, 1, true, groupNormalization},
    {"LayerNormalization", 17, "TTt", Reals, 3, true, layerNormalization<false>},
    {"RMSNormalization", 23, "TT", Reals, 1, true, layerNormalization<true>},
    {"MeanVarianceNormalization", 9, "T", Reals, 1, true, meanVarianceNormalization},
    {"LpNormalization", 1, "T", Reals, 1, true, lpNormalization},
};

} // namespace

const Span<const Operator> NormalizationOperators = Table;

} // namespace mlbridge::native
