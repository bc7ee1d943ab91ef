// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators that look elements up by index: what graph networks are made of.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

Value *asIndices(Lowering &l, Value *value) { return cast(l, value, ElementType::Int64); }

Status gather(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1);
  Along at;
  if (!readAxis(l, x, 0, at))
    return l.status();
  Shape shape = x->shape;
  const auto place = shape.erase(shape.begin() + static_cast<ptrdiff_t>(at.axis));
  shape.insert(place, indices->shape.begin(), indices->shape.end());
  const int64_t n = at.n, block = at.inner * width(x);
  // One constant index is a part of x.
  if (indices->isConstant() && indices->count == 1 && at.outer == 1) {
    int64_t index = 0;
    if (!l.read(indices, index))
      return l.status();
    if (index < -n || index >= n)
      return l.invalid("index " + std::to_string(index) + " of " + std::to_string(n));
    return l.give(l.view(x, shape, static_cast<uint64_t>((index < 0 ? index + n : index) * block)));
  }
  Value *y = l.output(0, x->type, shape);
  return l.emit(KernelId::Gather, {y}, {x, asIndices(l, indices), l.fault()},
                {at.outer, n, block, count(indices)});
}

/// Whether indices for each element fit x but along the axis.
bool coversAll(Lowering &l, const Value *x, const Value *indices, size_t axis) {
  bool fits = indices->rank() == x->rank();
  for (size_t i = 0; fits && i < x->rank(); ++i)
    fits = i == axis || indices->shape[i] <= x->shape[i];
  if (!fits)
    l.invalid("indices " + toString(indices->shape) + " for " + toString(x->shape));
  return fits;
}

Status gatherElements(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1);
  Along at;
  if (!readAxis(l, x, 0, at) || !coversAll(l, x, indices, at.axis))
    return l.status();
  const std::vector<int64_t> strides = denseStrides(x->shape);
  std::vector<int64_t> p{width(x), at.n, at.inner, static_cast<int64_t>(x->rank())};
  for (size_t i = 0; i < x->rank(); ++i)
    p.insert(p.end(), {indices->shape[i], i == at.axis ? 0 : strides[i]});
  Value *y = l.output(0, x->type, indices->shape);
  return l.emit(KernelId::GatherElements, {y}, {x, asIndices(l, indices), l.fault()}, p);
}

Status gatherNd(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1);
  const int64_t batchDimensions = l.integer("batch_dims", 0);
  if (indices->rank() == 0 || batchDimensions < 0 ||
      static_cast<size_t>(batchDimensions) >= std::min(x->rank(), indices->rank()))
    return l.invalid("batch_dims " + std::to_string(batchDimensions) + " for " +
                     toString(x->shape) + " and " + toString(indices->shape));
  const auto b = static_cast<size_t>(batchDimensions);
  const int64_t depth = indices->shape.back();
  if (depth < 1 || static_cast<size_t>(depth) > x->rank() - b ||
      !std::equal(x->shape.begin(), x->shape.begin() + batchDimensions, indices->shape.begin()))
    return l.invalid("indices " + toString(indices->shape) + " for " + toString(x->shape));
  const size_t end = b + static_cast<size_t>(depth);
  Shape shape(indices->shape.begin(), indices->shape.end() - 1);
  shape.insert(shape.end(), x->shape.begin() + static_cast<int64_t>(end), x->shape.end());
  const int64_t block = product(x->shape, end, x->rank()) * width(x);
  std::vector<int64_t> p{product(x->shape, 0, b), product(x->shape, b, x->rank()) * width(x),
                         product(indices->shape, b, indices->rank() - 1), block, depth};
  for (size_t i = b; i < end; ++i)
    p.insert(p.end(), {x->shape[i], product(x->shape, i + 1, x->rank()) * width(x)});
  Value *y = l.output(0, x->type, shape);
  return l.emit(KernelId::GatherNd, {y}, {x, asIndices(l, indices), l.fault()}, p);
}

bool reductionOf(Lowering &l, ScatterOp &op) {
  const std::string_view text = l.text("reduction", "none");
  constexpr std::pair<std::string_view, ScatterOp> Names[] = {{"none", ScatterOp::None},
                                                              {"add", ScatterOp::Add},
                                                              {"mul", ScatterOp::Mul},
                                                              {"max", ScatterOp::Max},
                                                              {"min", ScatterOp::Min}};
  for (const auto &[name, value] : Names)
    if (text == name) {
      op = value;
      return true;
    }
  return l.invalid("its attribute 'reduction' is '" + std::string(text) + "'");
}

bool canReduce(Lowering &l, const Value *x, ScatterOp op) {
  if (op == ScatterOp::None || (x->type != ElementType::Bool && x->type != ElementType::Float16))
    return true;
  return l.unsupported(std::string("a reduction of ") + name(x->type));
}

Status scatterElements(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1), *updates = l.in(2);
  Along at;
  ScatterOp op = ScatterOp::None;
  if (!readAxis(l, x, 0, at) || !reductionOf(l, op) || !canReduce(l, x, op) ||
      !coversAll(l, x, indices, at.axis))
    return l.status();
  if (indices->shape != updates->shape)
    return l.invalid("indices " + toString(indices->shape) + " and updates " +
                     toString(updates->shape) + " for " + toString(x->shape));
  const std::vector<int64_t> strides = denseStrides(x->shape);
  const std::vector<int64_t> from = denseStrides(updates->shape);
  std::vector<int64_t> p{code(x->type), number(op), at.n, at.inner,
                         static_cast<int64_t>(x->rank())};
  for (size_t i = 0; i < x->rank(); ++i)
    p.insert(p.end(), {indices->shape[i], i == at.axis ? 0 : strides[i], from[i]});
  Value *y = copy(l, x);
  l.emit(KernelId::ScatterElements, {y}, {updates, asIndices(l, indices), l.fault()}, p);
  return l.give(y);
}

Status scatterNd(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1), *updates = l.in(2);
  ScatterOp op = ScatterOp::None;
  if (!reductionOf(l, op) || !canReduce(l, x, op))
    return l.status();
  const int64_t depth = indices->rank() ? indices->shape.back() : 0;
  if (depth < 1 || static_cast<size_t>(depth) > x->rank())
    return l.invalid("indices " + toString(indices->shape) + " for " + toString(x->shape));
  const auto d = static_cast<size_t>(depth);
  Shape wanted(indices->shape.begin(), indices->shape.end() - 1);
  wanted.insert(wanted.end(), x->shape.begin() + depth, x->shape.end());
  if (updates->shape != wanted)
    return l.invalid("updates " + toString(updates->shape) + " instead of " + toString(wanted));
  const int64_t rows = product(indices->shape, 0, indices->rank() - 1);
  const int64_t block = product(x->shape, d, x->rank());
  Value *y = copy(l, x);
  l.setResult(0, y);
  if (isFloat(x->type) && depth == 1 && op != ScatterOp::None) {
    const KernelId kernel = op == ScatterOp::Add   ? KernelId::ScatterAddRowsF32
                            : op == ScatterOp::Mul ? KernelId::ScatterMulRowsF32
                            : op == ScatterOp::Max ? KernelId::ScatterMaxRowsF32
                                                   : KernelId::ScatterMinRowsF32;
    return l.emit(pick(kernel, x->type), {y}, {updates, asIndices(l, indices), l.fault()},
                  {rows, x->shape[0], block, 1});
  }
  std::vector<int64_t> p{code(x->type), number(op), rows, block, depth};
  for (size_t i = 0; i < d; ++i)
    p.insert(p.end(), {x->shape[i], product(x->shape, i + 1, x->rank())});
  return l.emit(KernelId::ScatterNd, {y}, {updates, asIndices(l, indices), l.fault()}, p);
}

Status oneHot(Lowering &l) {
  Value *indices = l.in(0), *values = l.in(2);
  double wanted = 0;
  int64_t axis = l.integer("axis", -1);
  if (!l.read(l.in(1), wanted) || !l.axis(axis, indices->rank() + 1))
    return l.status();
  if (!(wanted >= 1) || !(wanted < 1e9) || values->count != 2)
    return l.invalid("a depth of " + std::to_string(wanted) + " and values " +
                     toString(values->shape));
  const auto depth = static_cast<int64_t>(wanted);
  Shape shape = indices->shape;
  shape.insert(shape.begin() + axis, depth);
  Value *y = l.output(0, values->type, shape);
  return l.emit(KernelId::OneHot, {y}, {asIndices(l, indices), values},
                {width(values), product(indices->shape, 0, static_cast<size_t>(axis)), depth,
                 product(indices->shape, static_cast<size_t>(axis), indices->rank())});
}

Status nonZero(Lowering &l) {
  Value *x = l.in(0);
  const int64_t isReal = isIn(x->type, Reals);
  Value *found = l.make(ElementType::Int64, {});
  l.emit(KernelId::CountNonZero, {found}, {x}, {width(x), count(x), isReal});
  int64_t n = 0;
  if (!l.read(found, n))
    return l.status();
  const int64_t rank = std::max<int64_t>(1, static_cast<int64_t>(x->rank()));
  std::vector<int64_t> p{width(x), n, isReal, rank};
  p.insert(p.end(), x->shape.begin(), x->shape.end());
  if (x->rank() == 0)
    p.push_back(1);
  Value *y = l.output(0, ElementType::Int64, {rank, n});
  return l.emit(KernelId::NonZero, {y}, {x}, p);
}

Status compress(Lowering &l) {
  Value *x = l.in(0), *condition = l.in(1);
  if (!l.attribute("axis"))
    x = l.view(x, {count(x)});
  Along at;
  if (!readAxis(l, x, 0, at))
    return l.status();
  const uint8_t *bytes = l.planner.bytesOf(condition);
  if (!bytes)
    return l.status();
  std::vector<int64_t> kept;
  for (size_t i = 0; i < condition->count; ++i)
    if (bytes[i])
      kept.push_back(static_cast<int64_t>(i));
  Shape shape = x->shape;
  const auto found = static_cast<int64_t>(kept.size());
  shape[at.axis] = found;
  Value *y = l.output(0, x->type, shape);
  return l.emit(KernelId::Gather, {y}, {x, l.constantOf<int64_t>({found}, kept), l.fault()},
                {at.outer, at.n, at.inner * width(x), found});
}

constexpr Operator Table[] = {
    {"Gather", 1, "TI", Fixed, 1, false, gather},
    {"GatherElements", 11, "TI", Fixed, 1, false, gatherElements},
    {"GatherND", 11, "TL", Fixed, 1, false, gatherNd},
    {"ScatterElements", 11, "TIT", Fixed, 1, true, scatterElements},
    {"Scatter", 9, "TIT", Fixed, 1, false, scatterElements},
    {"ScatterND", 11, "TLT", Fixed, 1, true, scatterNd},
    {"OneHot", 9, "TAA", Numbers, 1, false, oneHot, 2},
    {"NonZero", 9, "T", Fixed, 1, false, nonZero, SelfDeciding},
    {"Compress", 9, "TB", Fixed, 1, false, compress, 2},
};

} // namespace

const Span<const Operator> IndexingOperators = Table;

} // namespace mlbridge::native
