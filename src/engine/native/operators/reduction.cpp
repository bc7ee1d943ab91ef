// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators along axes: reductions, softmax, the greatest ones.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

/// Axes as an attribute, or as an input since `inputSince`; all if there are none.
bool reducedAxes(Lowering &l, std::vector<int64_t> &axes) {
  const size_t rank = l.in(0)->rank();
  if (l.in(1)) {
    if (!l.read(l.in(1), axes))
      return false;
  } else if (const std::vector<int64_t> *attribute = l.integers("axes")) {
    axes = *attribute;
  }
  if (axes.empty() && l.integer("noop_with_empty_axes", 0) == 0)
    for (size_t i = 0; i < rank; ++i)
      axes.push_back(static_cast<int64_t>(i));
  if (!l.axes(axes, rank))
    return false;
  std::sort(axes.begin(), axes.end());
  return true;
}

/// The sum of a comparison's results as float32, along the last axes: as policies make quantiles of
/// their features. Null if x is something else, or of use elsewhere.
Value *countCompared(Lowering &l, Value *x, const std::vector<int64_t> &axes, bool keep) {
  constexpr int64_t Exact = 1 << 24;
  Planner::Draft *step = l.planner.onlyProducer(x);
  if (x->type != ElementType::Float32 || !step || step->kernel != KernelId::Cast ||
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
  const std::vector<int64_t> &p = step->parameters;
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
  Value *x = l.in(0);
  std::vector<int64_t> axes;
  if (!reducedAxes(l, axes))
    return l.status();
  const bool keep = l.integer("keepdims", 1) != 0;
  if (axes.empty() && x->rank() > 0 &&
      (Op == ReduceOp::Sum || Op == ReduceOp::Mean || Op == ReduceOp::Max || Op == ReduceOp::Min) &&
      Kernel != KernelId::ReduceLogSumF32 && Kernel != KernelId::ReduceL2F32 &&
      Kernel != KernelId::ReduceLogSumExpF32) {
    l.setResult(0, x);
    return l.status();
  }
  const bool isReal = Kernel == KernelId::ReduceL2F32 || Kernel == KernelId::ReduceLogSumF32 ||
                      Kernel == KernelId::ReduceLogSumExpF32;
  if (!isFloat(x->type) && isReal) { // rounded towards zero in the end
    Value *wide = cast(l, x, ElementType::Float64);
    l.setResult(0, cast(l, reduce(l, Kernel, Op, wide, axes, keep), x->type));
    return l.status();
  }
  Value *counted = Kernel == KernelId::ReduceSumF32 ? countCompared(l, x, axes, keep) : nullptr;
  if (Op == ReduceOp::Mean && x->count == 0) // of nothing it is 0, as ONNX Runtime has it
    counted = reduce(l, KernelId::ReduceSumF32, ReduceOp::Sum, x, axes, keep);
  l.setResult(0, counted ? counted : reduce(l, Kernel, Op, x, axes, keep));
  return l.status();
}

/// ArgMax, ArgMin.
template <KernelId Kernel, bool Largest> Status arg(Lowering &l) {
  Value *x = l.in(0);
  int64_t axis = l.integer("axis", 0);
  if (!l.axis(axis, x->rank()))
    return l.status();
  const auto along = static_cast<size_t>(axis);
  if (x->shape[along] == 0)
    return l.invalid("there is nothing to choose from in " + toString(x->shape));
  Shape shape = x->shape;
  if (l.integer("keepdims", 1) != 0)
    shape[along] = 1;
  else
    shape.erase(shape.begin() + axis);
  const int64_t last = l.integer("select_last_index", 0) != 0;
  const int64_t outer = product(x->shape, 0, along), n = x->shape[along];
  const int64_t inner = product(x->shape, along + 1, x->rank());
  Value *y = l.output(0, ElementType::Int64, shape);
  if (isFloat(x->type))
    l.emit(pick(Kernel, x->type), {y}, {x}, {outer, n, inner, last});
  else
    l.emit(KernelId::IntegerArg, {y}, {x}, {code(x->type), outer, n, inner, last, Largest});
  return l.status();
}

Status topK(Lowering &l) {
  Value *x = l.in(0);
  int64_t axis = l.integer("axis", -1), k = 0;
  if (!l.axis(axis, x->rank()))
    return l.status();
  if (l.in(1)) {
    if (!l.read(l.in(1), k))
      return l.status();
  } else {
    k = l.integer("k", -1);
  }
  const auto along = static_cast<size_t>(axis);
  if (k < 0 || k > x->shape[along])
    return l.invalid("k is " + std::to_string(k) + " for a length of " +
                     std::to_string(x->shape[along]));
  Shape shape = x->shape;
  shape[along] = k;
  Value *values = l.output(0, x->type, shape);
  Value *indices = l.output(1, ElementType::Int64, shape);
  const int64_t outer = product(x->shape, 0, along), n = x->shape[along];
  const int64_t inner = product(x->shape, along + 1, x->rank());
  const int64_t largest = l.integer("largest", 1) != 0;
  if (isFloat(x->type))
    l.emit(pick(KernelId::TopKF32, x->type), {values, indices}, {x}, {outer, n, inner, k, largest});
  else
    l.emit(KernelId::IntegerTopK, {values, indices}, {x},
           {code(x->type), outer, n, inner, k, largest});
  return l.status();
}

/// Until version 12 the tensor was taken as a matrix.
bool softmaxAxis(Lowering &l, Value *&x, size_t &along) {
  int64_t axis = l.integer("axis", l.version < 13 ? 1 : -1);
  if (l.version < 13 && axis == static_cast<int64_t>(x->rank())) {
    x = l.view(x, {count(x), 1});
    along = 1;
    return true;
  }
  if (!l.axis(axis, x->rank()))
    return false;
  along = static_cast<size_t>(axis);
  if (l.version < 13) {
    x = l.view(x, {product(x->shape, 0, along), product(x->shape, along, x->rank())});
    along = 1;
  }
  return true;
}

template <KernelId Kernel> Status softmax(Lowering &l) {
  Value *x = l.in(0);
  const Shape shape = x->shape;
  size_t along = 0;
  if (!softmaxAxis(l, x, along))
    return l.status();
  Value *y = alongAxis(l, Kernel, x, along);
  l.setResult(0, y->shape == shape ? y : l.view(y, shape));
  return l.status();
}

Status hardmax(Lowering &l) {
  Value *x = l.in(0);
  const Shape shape = x->shape;
  size_t along = 0;
  if (!softmaxAxis(l, x, along))
    return l.status();
  const int64_t outer = product(x->shape, 0, along), n = x->shape[along];
  const int64_t inner = product(x->shape, along + 1, x->rank());
  Value *best = l.make(ElementType::Int64, {outer, inner});
  if (n)
    l.emit(pick(KernelId::ArgMaxF32, x->type), {best}, {x}, {outer, n, inner, 0});
  Value *choice = cast(l, l.constantOf<float>({2}, {0, 1}), x->type);
  Value *y = l.make(x->type, shape);
  l.emit(KernelId::OneHot, {y}, {best, choice}, {width(x), outer, n, inner});
  l.setResult(0, y);
  return l.status();
}

template <bool Product> Status accumulate(Lowering &l) {
  Value *x = l.in(0);
  int64_t axis = 0;
  if (!l.read(l.in(1), axis) || !l.axis(axis, x->rank()))
    return l.status();
  const auto along = static_cast<size_t>(axis);
  const int64_t exclusive = l.integer("exclusive", 0), reverse = l.integer("reverse", 0);
  const int64_t outer = product(x->shape, 0, along), n = x->shape[along];
  const int64_t inner = product(x->shape, along + 1, x->rank());
  Value *y = l.output(0, x->type, x->shape);
  if (isFloat(x->type) && !Product)
    l.emit(pick(KernelId::CumSumF32, x->type), {y}, {x}, {outer, n, inner, exclusive, reverse});
  else
    l.emit(KernelId::Accumulate, {y}, {x},
           {code(x->type), Product, outer, n, inner, exclusive, reverse});
  return l.status();
}

#define MLBRIDGE_REDUCE(name, op)                                                                  \
  {#name, 1, "Tl", Numbers, 1, true, reduceNode<KernelId::name##F32, ReduceOp::op>, 2}

constexpr Operator Table[] = {
    MLBRIDGE_REDUCE(ReduceSum, Sum),
    MLBRIDGE_REDUCE(ReduceMean, Mean),
    MLBRIDGE_REDUCE(ReduceMax, Max),
    MLBRIDGE_REDUCE(ReduceMin, Min),
    MLBRIDGE_REDUCE(ReduceProd, Prod),
    MLBRIDGE_REDUCE(ReduceL1, L1),
    MLBRIDGE_REDUCE(ReduceL2, Sum),
    MLBRIDGE_REDUCE(ReduceLogSum, Sum),
    MLBRIDGE_REDUCE(ReduceLogSumExp, Sum),
    MLBRIDGE_REDUCE(ReduceSumSquare, SumSquare),
    {"ArgMax", 1, "T", Numbers, 1, true, arg<KernelId::ArgMaxF32, true>},
    {"ArgMin", 1, "T", Numbers, 1, true, arg<KernelId::ArgMinF32, false>},
    {"TopK", 1, "Tl", Numbers, 2, true, topK, 2},
    {"Softmax", 1, "T", Reals, 1, true, softmax<KernelId::SoftmaxF32>},
    {"LogSoftmax", 1, "T", Reals, 1, true, softmax<KernelId::LogSoftmaxF32>},
    {"Hardmax", 1, "T", Reals, 1, true, hardmax},
    {"CumSum", 11, "TI", Numbers, 1, true, accumulate<false>, 2},
    {"CumProd", 26, "TI", Numbers, 1, true, accumulate<true>, 2},
};

} // namespace

const Span<const Operator> ReductionOperators = Table;

} // namespace mlbridge::native
