// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators along axes: reductions, softmax, the greatest ones, and what scales by means and
// deviations.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

/// The axes to reduce: all of them if none are stated.
bool reducedAxes(Lowering &l, Integers &axes) {
  const size_t rank = l.in(0)->rank();
  if (!l.read(1, "axes", axes, true))
    return false;
  if (axes.empty() && l.integer("noop_with_empty_axes", 0) == 0)
    axes = allAxes(rank);
  if (!l.axes(axes, rank))
    return false;
  std::sort(axes.begin(), axes.end());
  return true;
}

/// The sum of a comparison's results as float32, along the last axes: as policies make quantiles of
/// their features. Null if x is something else, or of use elsewhere.
Value *countCompared(Lowering &l, Value *x, const Integers &axes, bool keep) {
  constexpr int64_t Exact = 1 << 24;
  Planner::Draft *step = l.planner.onlyProducer(x);
  if (x->type != ElementType::Float32 || !step || step->kernel != KernelId::Convert ||
      step->parameters[0] != code(ElementType::Bool))
    return nullptr;
  step = l.planner.onlyProducer(step->operands[1]);
  if (!step || step->kernel != KernelId::Compare ||
      step->parameters[0] == number(CompareOp::Equal) ||
      step->parameters[1] != code(ElementType::Float32))
    return nullptr;
  Shape shape = x->shape;
  int64_t n = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (axis + axes.size() - i != x->rank())
      return nullptr;
    n *= x->shape[axis];
    shape[axis] = 1;
  }
  if (!keep)
    shape.resize(x->rank() - axes.size());
  // The comparison's loops are rows and what is in them, or all at once.
  const Integers &p = step->parameters;
  const int64_t *last = p.data() + p.size() - 3;
  const int64_t rows = n ? count(x) / n : 0;
  if (n < 1 || n > Exact || last[1] > 1 || last[2] > 1)
    return nullptr;
  int64_t rowA = n * last[1], rowB = n * last[2];
  if (p[2] == 2 && last[-3] == rows && last[0] == n) {
    rowA = last[-2];
    rowB = last[-1];
  } else if (p[2] != 1) {
    return nullptr;
  }
  const auto op = static_cast<CompareOp>(p[0]);
  const int64_t orEqual = op == CompareOp::LessOrEqual || op == CompareOp::GreaterOrEqual;
  Value *a = step->operands[1], *b = step->operands[2];
  Value *y = l.make(x->type, shape);
  if (op == CompareOp::Less || op == CompareOp::LessOrEqual)
    l.emit(KernelId::CountLessF32, {y}, {a, b}, {orEqual, rows, n, rowA, last[1], rowB, last[2]});
  else
    l.emit(KernelId::CountLessF32, {y}, {b, a}, {orEqual, rows, n, rowB, last[2], rowA, last[1]});
  return y;
}

template <KernelId Kernel, ReduceOp Op> Status reduceNode(Lowering &l) {
  constexpr bool IsReal = Kernel == KernelId::ReduceL2F32 || Kernel == KernelId::ReduceLogSumF32 ||
                          Kernel == KernelId::ReduceLogSumExpF32;
  Value *x = l.in(0);
  Integers axes;
  if (!reducedAxes(l, axes))
    return l.status();
  const bool keep = l.integer("keepdims", 1) != 0;
  if (axes.empty() && x->rank() > 0 && !IsReal &&
      (Op == ReduceOp::Sum || Op == ReduceOp::Mean || Op == ReduceOp::Max || Op == ReduceOp::Min))
    return l.give(x);
  if (!isFloat(x->type) && IsReal) { // rounded towards zero in the end
    Value *wide = cast(l, x, ElementType::Float64);
    return l.give(cast(l, reduce(l, Kernel, Op, wide, axes, keep), x->type));
  }
  Value *counted = Kernel == KernelId::ReduceSumF32 ? countCompared(l, x, axes, keep) : nullptr;
  if (Op == ReduceOp::Mean && x->count == 0) // of nothing it is 0, as ONNX Runtime has it
    counted = reduce(l, KernelId::ReduceSumF32, ReduceOp::Sum, x, axes, keep);
  return l.give(counted ? counted : reduce(l, Kernel, Op, x, axes, keep));
}

/// ArgMax, ArgMin.
template <bool Largest> Status arg(Lowering &l) {
  Value *x = l.in(0);
  Along at;
  if (!readAxis(l, x, 0, at))
    return l.status();
  if (at.n == 0)
    return l.invalid("there is nothing to choose from in ", toString(x->shape));
  Shape shape = x->shape;
  if (l.integer("keepdims", 1) != 0)
    shape[at.axis] = 1;
  else
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(at.axis));
  const int64_t last = l.integer("select_last_index", 0) != 0;
  Value *y = l.output(0, ElementType::Int64, shape);
  return l.emit(KernelId::BestIndex, {y}, {x},
                {code(x->type), at.outer, at.n, at.inner, last, Largest});
}

Status topK(Lowering &l) {
  Value *x = l.in(0);
  Along at;
  int64_t k = l.integer("k", -1);
  if (!readAxis(l, x, -1, at) || (l.in(1) && !l.read(l.in(1), k)))
    return l.status();
  if (k < 0 || k > at.n)
    return l.invalid("k is ", k, " for a length of ", at.n);
  Shape shape = x->shape;
  shape[at.axis] = k;
  Value *values = l.output(0, x->type, shape);
  Value *indices = l.output(1, ElementType::Int64, shape);
  const int64_t largest = l.integer("largest", 1) != 0;
  Value *workspace = k > MostInserted ? l.make(ElementType::Int64, {at.n}) : nullptr;
  return l.emit(KernelId::TopK, {values, indices}, {x, workspace},
                {code(x->type), at.outer, at.n, at.inner, k, largest});
}

/// Until version 12 the tensor was taken as a matrix.
bool softmaxAxis(Lowering &l, Value *x, bool isMatrix, Along &at) {
  if (!isMatrix)
    return readAxis(l, x, -1, at);
  int64_t axis = l.integer("axis", 1);
  if (axis != static_cast<int64_t>(x->rank()) && !l.axis(axis, x->rank()))
    return false;
  const auto split = static_cast<size_t>(axis);
  at.outer = product(x->shape, 0, split);
  at.n = product(x->shape, split, x->rank());
  return true;
}

Status softmaxBy(Lowering &l, KernelId kernel, bool isMatrix) {
  Value *x = l.in(0);
  Along at;
  if (!softmaxAxis(l, x, isMatrix, at))
    return l.status();
  Value *y = l.output(0, x->type, x->shape);
  return l.emit(pick(kernel, x->type), {y}, {x}, {at.outer, at.n, at.inner});
}
template <KernelId Kernel, bool IsMatrix> Status softmax(Lowering &l) {
  return softmaxBy(l, Kernel, IsMatrix);
}

Status hardmaxOf(Lowering &l, bool isMatrix) {
  Value *x = l.in(0);
  Along at;
  if (!softmaxAxis(l, x, isMatrix, at))
    return l.status();
  Value *best = l.make(ElementType::Int64, {at.outer, at.inner});
  if (at.n)
    l.emit(KernelId::BestIndex, {best}, {x}, {code(x->type), at.outer, at.n, at.inner, 0, 1});
  Value *choice = cast(l, l.constantOf<float>({2}, {0, 1}), x->type);
  Value *y = l.output(0, x->type, x->shape);
  return l.emit(KernelId::OneHot, {y}, {best, choice}, {width(x), at.outer, at.n, at.inner});
}

template <bool IsMatrix> Status hardmax(Lowering &l) { return hardmaxOf(l, IsMatrix); }

template <bool Product> Status accumulate(Lowering &l) {
  Value *x = l.in(0);
  int64_t axis = 0;
  if (!l.read(l.in(1), axis) || !l.axis(axis, x->rank()))
    return l.status();
  const Along at(x, axis);
  const int64_t exclusive = l.integer("exclusive", 0), reverse = l.integer("reverse", 0);
  Value *y = l.output(0, x->type, x->shape);
  if (isFloat(x->type) && !Product)
    return l.emit(pick(KernelId::CumSumF32, x->type), {y}, {x},
                  {at.outer, at.n, at.inner, exclusive, reverse});
  return l.emit(KernelId::Accumulate, {y}, {x},
                {code(x->type), Product, at.outer, at.n, at.inner, exclusive, reverse});
}

#define MLBRIDGE_REDUCE(name, op, types)                                                           \
  {#name,                                                                                          \
   1,                                                                                              \
   "Tl",                                                                                           \
   types,                                                                                          \
   1,                                                                                              \
   true,                                                                                           \
   reduceNode<KernelId::name##F32, ReduceOp::op>,                                                  \
   "axes keepdims noop_with_empty_axes",                                                           \
   2}

/// [batch, channels, everything else]
bool channelsOf(Lowering &l, const Value *x, int64_t &batch, int64_t &channels, int64_t &inner) {
  if (x->rank() < 2)
    return l.invalid("it takes [N, C, ...], not ", toString(x->shape));
  batch = x->shape[0];
  channels = x->shape[1];
  inner = product(x->shape, 2, x->rank());
  return true;
}

bool haveCount(Lowering &l, std::initializer_list<const Value *> values, int64_t wanted) {
  for (const Value *value : values)
    if (value && count(value) != wanted)
      return l.invalid("a scale, bias, mean or variance has ", toString(value->shape),
                       " instead of ", wanted, " elements");
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
    return l.unsupported("BatchNormalization in training mode (export the model in evaluation "
                         "mode, after model.eval())");
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

Status normalizeGroups(Lowering &l, bool isScaledByGroup) {
  Value *x = l.in(0), *scale = l.in(1), *bias = l.in(2);
  int64_t batch = 0, channels = 0, inner = 0;
  const int64_t groups = l.integer("num_groups", 0);
  if (!channelsOf(l, x, batch, channels, inner))
    return l.status();
  if (groups < 1 || channels % groups)
    return l.invalid(channels, " channels cannot be divided into ", groups, " groups");
  if (isScaledByGroup) {
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
template <bool IsScaledByGroup> Status groupNormalization(Lowering &l) {
  return normalizeGroups(l, IsScaledByGroup);
}

/// All dimensions from `axis` on are normalized.
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
      return l.invalid("a scale of shape ", toString(scale->shape),
                       " does not fit an input of shape ", toString(x->shape));
  }
  return l.give(y);
}

Status meanVarianceNormalization(Lowering &l) {
  Value *x = l.in(0);
  Integers axes{0, 2, 3};
  if (const Integers *attribute = l.integers("axes"))
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
    return l.invalid("p is ", p, "; expected 1 or 2");
  Value *norm = reduce(l, p == 1 ? KernelId::ReduceL1F32 : KernelId::ReduceL2F32, ReduceOp::L1, x,
                       {axis}, true);
  // Nothing divided by nothing is nothing.
  Value *zero = l.constantReal(x->type, 0);
  Value *isZero = compare(l, CompareOp::Equal, norm, zero);
  return l.give(where(l, isZero, zero, binary(l, KernelId::DivF32, x, norm)));
}

constexpr Operator Table[] = {
    MLBRIDGE_REDUCE(ReduceSum, Sum, Numbers),
    MLBRIDGE_REDUCE(ReduceMean, Mean, Numbers),
    MLBRIDGE_REDUCE(ReduceMax, Max, Fixed),
    MLBRIDGE_REDUCE(ReduceMin, Min, Fixed),
    MLBRIDGE_REDUCE(ReduceProd, Prod, Numbers),
    MLBRIDGE_REDUCE(ReduceL1, L1, Numbers),
    MLBRIDGE_REDUCE(ReduceL2, Sum, Numbers),
    MLBRIDGE_REDUCE(ReduceLogSum, Sum, Numbers),
    MLBRIDGE_REDUCE(ReduceLogSumExp, Sum, Numbers),
    MLBRIDGE_REDUCE(ReduceSumSquare, SumSquare, Numbers),
    {"ArgMax", 1, "T", Numbers, 1, true, arg<true>, "axis keepdims select_last_index"},
    {"ArgMin", 1, "T", Numbers, 1, true, arg<false>, "axis keepdims select_last_index"},
    {"TopK", 1, "Tl", Numbers, 2, true, topK, "axis k largest sorted", 2},
    {"Softmax", 1, "T", Reals, 1, true, softmax<KernelId::SoftmaxF32, true>, "axis"},
    {"Softmax", 13, "T", Reals, 1, true, softmax<KernelId::SoftmaxF32, false>, "axis"},
    {"LogSoftmax", 1, "T", Reals, 1, true, softmax<KernelId::LogSoftmaxF32, true>, "axis"},
    {"LogSoftmax", 13, "T", Reals, 1, true, softmax<KernelId::LogSoftmaxF32, false>, "axis"},
    {"Hardmax", 1, "T", Reals, 1, true, hardmax<true>, "axis"},
    {"Hardmax", 13, "T", Reals, 1, true, hardmax<false>, "axis"},
    {"CumSum", 11, "TI", Numbers, 1, true, accumulate<false>, "exclusive reverse", 2},
    {"CumProd", 26, "TI", Numbers, 1, true, accumulate<true>, "exclusive reverse", 2},
    {"BatchNormalization", 7, "TUUUU", Reals, 5, true, batchNormalization,
     "epsilon momentum spatial training_mode"},
    {"InstanceNormalization", 6, "TTT", Reals, 1, true, instanceNormalization, "epsilon"},
    {"GroupNormalization", 18, "TTT", Reals, 1, true, groupNormalization<true>,
     "epsilon num_groups"},
    {"GroupNormalization", 21, "TTT", Reals, 1, true, groupNormalization<false>,
     "epsilon num_groups stash_type"},
    {"LayerNormalization", 17, "TTt", Reals, 3, true, layerNormalization<false>,
     "axis epsilon stash_type"},
    {"RMSNormalization", 23, "TT", Reals, 1, true, layerNormalization<true>,
     "axis epsilon stash_type"},
    // ONNX Runtime's own, which it writes into ONNX's domain.
    {"SimplifiedLayerNormalization", 1, "TT", Reals, 1, true, layerNormalization<true>,
     "axis epsilon stash_type"},
    {"MeanVarianceNormalization", 9, "T", Reals, 1, true, meanVarianceNormalization, "axes"},
    {"LpNormalization", 1, "T", Reals, 1, true, lpNormalization, "axis p"},
};

} // namespace

const Span<const Operator> ReductionOperators = Table;

} // namespace mlbridge::native
