// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators that move elements to other places, or look them up by index: what graph networks are
// made of.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

Status transposeNode(Lowering &l) {
  Value *x = l.in(0);
  Integers order = allAxes(x->rank());
  if (const Integers *perm = l.integers("perm")) {
    order = *perm;
    if (order.size() != x->rank())
      return l.invalid("its attribute 'perm' has ", order.size(), " axes for a tensor of ",
                       x->rank());
    if (!l.axes(order, x->rank()))
      return l.status();
  } else {
    std::reverse(order.begin(), order.end());
  }
  return l.give(transpose(l, x, order));
}

Status expandNode(Lowering &l) {
  Value *x = l.in(0);
  Integers wanted;
  if (!l.read(l.in(1), wanted))
    return l.status();
  for (const int64_t length : wanted)
    if (length < 0)
      return l.invalid("the shape ", toString(wanted), " is invalid");
  Value *like = l.make(x->type, wanted);
  Shape shape;
  if (!l.status() || !l.broadcast({x, like}, shape))
    return l.status();
  return l.give(expand(l, x, shape));
}

Status tile(Lowering &l) {
  Value *x = l.in(0);
  Integers repeats;
  if (!l.read(l.in(1), repeats))
    return l.status();
  if (repeats.size() != x->rank())
    return l.invalid("it has ", repeats.size(), " repeats for a tensor of ", x->rank(),
                     " dimensions");
  // Each dimension becomes two, the first of which is broadcast.
  Shape wide, shape;
  Integers strides;
  const Integers dense = denseStrides(x->shape);
  for (size_t i = 0; i < x->rank(); ++i) {
    if (repeats[i] < 0)
      return l.invalid("it repeats a dimension ", repeats[i], " times");
    strides.insert(strides.end(), {0, dense[i]});
    wide.insert(wide.end(), {repeats[i], x->shape[i]});
    int64_t length = 0;
    if (__builtin_mul_overflow(x->shape[i], repeats[i], &length))
      return l.invalid("the result is too large");
    shape.push_back(length);
  }
  if (shape == x->shape)
    return l.give(x);
  Value *y = l.output(0, x->type, shape);
  if (y->count)
    l.emit(KernelId::CopyStrided, {y}, {x},
           joined({width(x), 0, 0}, mergedLoops(wide, {denseStrides(wide), strides})));
  return l.status();
}

Status concat(Lowering &l) {
  Value *first = l.in(0);
  Along at;
  if (!readAxis(l, first, 0, at))
    return l.status();
  const size_t along = at.axis;
  Shape shape = first->shape;
  shape[along] = 0;
  for (const Value *x : l.inputs) {
    if (!x)
      return l.invalid("an input is missing");
    Shape other = x->shape;
    if (other.size() == shape.size())
      other[along] = shape[along];
    if (other != shape)
      return l.invalid("the shapes ", toString(first->shape), " and ", toString(x->shape),
                       " don't fit each other");
    shape[along] += x->shape[along];
  }
  if (l.inputs.size() == 1)
    return l.give(first);
  Value *y = l.output(0, first->type, shape);
  Integers starts(shape.size());
  for (Value *x : l.inputs) {
    place(l, y, x, starts);
    starts[along] += x->shape[along];
  }
  return l.status();
}

/// `isEven`: without lengths, all parts have to be as long.
Status splitInto(Lowering &l, bool isEven) {
  Value *x = l.in(0);
  Along at;
  Integers lengths;
  if (!readAxis(l, x, 0, at) || !l.read(1, "split", lengths, true))
    return l.status();
  const int64_t whole = at.n;
  if (!l.in(1) && !l.integers("split")) {
    const auto parts = l.integer("num_outputs", static_cast<int64_t>(l.node.outputs.size()));
    if (parts < 1 || parts > (1 << 20) || (isEven && whole % parts != 0))
      return l.invalid("it can't split a length of ", whole, " into ", parts);
    const int64_t each = (whole + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      lengths.push_back(std::max<int64_t>(0, std::min(each, whole - i * each)));
  }
  int64_t start = 0;
  if (lengths.size() < l.node.outputs.size())
    return l.invalid("it has more outputs than parts");
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > whole - start)
      return l.invalid("the parts ", toString(lengths), " of a length of ", whole);
    Shape shape = x->shape;
    shape[at.axis] = lengths[i];
    Integers starts(x->rank());
    starts[at.axis] = start;
    start += lengths[i];
    if (l.wants(i))
      l.setResult(i, slice(l, x, shape, starts, Integers(x->rank(), 1)));
  }
  if (start != whole)
    return l.invalid("the parts ", toString(lengths), " of a length of ", whole);
  return l.status();
}

template <bool IsEven> Status split(Lowering &l) { return splitInto(l, IsEven); }

Status sliceNode(Lowering &l) {
  Value *x = l.in(0);
  Integers begins, ends, axes, by;
  if (!l.read(1, "starts", begins) || !l.read(2, "ends", ends) || !l.read(3, "axes", axes, true) ||
      !l.read(4, "steps", by, true))
    return l.status();
  if (!l.in(3) && !l.integers("axes"))
    axes = allAxes(begins.size());
  if (by.empty())
    by.assign(begins.size(), 1);
  if (ends.size() != begins.size() || axes.size() != begins.size() || by.size() != begins.size())
    return l.invalid("starts, ends, axes and steps have different lengths");
  if (!l.axes(axes, x->rank()))
    return l.status();
  Shape lengths = x->shape;
  Integers starts(x->rank()), steps(x->rank(), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<size_t>(axes[i]);
    const int64_t n = x->shape[d];
    const int64_t step = by[i];
    if (step == 0)
      return l.invalid("its step is 0");
    const auto clamp = [&](int64_t at, int64_t least, int64_t most) {
      if (at < 0)
        at = at < -n ? -1 : at + n;
      return std::min(std::max(at, least), most);
    };
    const int64_t from = step > 0 ? clamp(begins[i], 0, n) : clamp(begins[i], -1, n - 1);
    const int64_t to = step > 0 ? clamp(ends[i], 0, n) : clamp(ends[i], -1, n - 1);
    const int64_t distance = step > 0 ? to - from : from - to;
    const uint64_t stride = step > 0 ? uint64_t(step) : 0 - uint64_t(step);
    lengths[d] = distance <= 0 ? 0 : int64_t((uint64_t(distance) - 1) / stride) + 1;
    starts[d] = lengths[d] ? from : 0;
    steps[d] = lengths[d] > 1 ? step : 1;
  }
  return l.give(slice(l, x, lengths, starts, steps));
}

/// `value`: a scalar, or null for 0.
Status padWith(Lowering &l, Value *value) {
  Value *x = l.in(0);
  Integers pads, axes;
  if (!l.read(1, "pads", pads))
    return l.status();
  if (!l.in(3))
    axes = allAxes(x->rank());
  else if (!l.read(l.in(3), axes) || !l.axes(axes, x->rank()))
    return l.status();
  if (pads.size() != 2 * axes.size())
    return l.invalid("it has ", pads.size(), " pads for ", axes.size(), " axes");
  const std::string_view mode = l.text("mode", "constant");
  Integers before(x->rank()), after(x->rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    before[static_cast<size_t>(axes[i])] = pads[i];
    after[static_cast<size_t>(axes[i])] = pads[axes.size() + i];
  }
  // Negative pads cut.
  Shape inner = x->shape, shape;
  Integers from(x->rank()), to(x->rank());
  constexpr int64_t Most = int64_t(1) << 40;
  for (size_t i = 0; i < x->rank(); ++i) {
    if (before[i] > Most || after[i] > Most || before[i] < -x->shape[i] || after[i] < -x->shape[i])
      return l.invalid("the pads ", toString(pads), " do not fit the shape ", toString(x->shape));
    from[i] = std::max<int64_t>(0, -before[i]);
    to[i] = std::max<int64_t>(0, before[i]);
    inner[i] = std::max<int64_t>(0, x->shape[i] - from[i] - std::max<int64_t>(0, -after[i]));
    shape.push_back(std::max<int64_t>(0, x->shape[i] + before[i] + after[i]));
  }
  x = slice(l, x, inner, from, Integers(x->rank(), 1));
  if (mode == "constant") {
    const int64_t zero = 0;
    if (!value)
      value = l.constant(x->type, {}, &zero);
    if (value->count != 1 || value->type != x->type)
      return l.invalid("it pads with ", toString(value->shape), " of ", name(value->type));
    Value *y = fill(l, x->type, shape, value);
    place(l, y, x, to);
    return l.give(y);
  }
  // Axis by axis: each entry of the result is one of x.
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t n = inner[i], length = shape[i];
    if (length == n)
      continue;
    Integers entries;
    const bool isEmpty = product(shape, 0, shape.size()) == 0;
    if (n == 0 || (mode == "reflect" && n == 1 && length > 1 && !isEmpty))
      return l.invalid("mode '", mode, "' needs more elements than it has to pad with");
    if (length > (1 << 24))
      return l.unsupported("a padded length of ", length);
    for (int64_t k = 0; k < length; ++k) {
      int64_t at = k - to[i];
      if (mode == "edge") {
        at = std::min(std::max<int64_t>(at, 0), n - 1);
      } else if (mode == "wrap") {
        at = ((at % n) + n) % n;
      } else if (mode == "reflect") {
        const int64_t period = 2 * (n - 1);
        at = period ? ((at % period) + period) % period : 0;
        at = at < n ? at : period - at;
      } else {
        return l.invalid("its attribute 'mode' is '", mode, "'");
      }
      entries.push_back(at);
    }
    Shape longer = x->shape;
    longer[i] = length;
    Value *y = l.make(x->type, longer);
    l.emit(KernelId::Gather, {y}, {x, l.constantOf<int64_t>({length}, entries), l.fault()},
           {product(x->shape, 0, i), n, product(x->shape, i + 1, x->rank()) * width(x), length});
    x = y;
  }
  return l.give(x);
}

Status pad(Lowering &l) { return padWith(l, l.in(2)); }
/// Until version 10 the value was an attribute.
Status padByAttributes(Lowering &l) {
  return padWith(l, l.attribute("value") ? l.constantReal(l.in(0)->type, l.real("value", 0))
                                         : nullptr);
}

Status trilu(Lowering &l) {
  Value *x = l.in(0);
  int64_t diagonal = 0;
  if (l.in(1) && !l.read(l.in(1), diagonal))
    return l.status();
  if (x->rank() < 2)
    return l.invalid("it takes matrices, not ", toString(x->shape));
  Value *y = l.output(0, x->type, x->shape);
  return l.emit(KernelId::Trilu, {y}, {x},
                {width(x), product(x->shape, 0, x->rank() - 2), x->shape[x->rank() - 2],
                 x->shape.back(), diagonal, l.integer("upper", 1) != 0});
}

Status depthToSpace(Lowering &l) {
  Value *x = l.in(0);
  const int64_t b = l.integer("blocksize", 0);
  if (x->rank() != 4 || b < 1 || b > 4096 || x->shape[1] % (b * b))
    return l.invalid("a block size of ", b, " for ", toString(x->shape));
  const int64_t n = x->shape[0], c = x->shape[1] / (b * b), h = x->shape[2], w = x->shape[3];
  const std::string_view mode = l.text("mode", "DCR");
  Value *y = mode == "CRD" ? transpose(l, l.view(x, {n, c, b, b, h, w}), {0, 1, 4, 2, 5, 3})
                           : transpose(l, l.view(x, {n, b, b, c, h, w}), {0, 3, 4, 1, 5, 2});
  return l.give(l.view(y, {n, c, h * b, w * b}));
}

Status spaceToDepth(Lowering &l) {
  Value *x = l.in(0);
  const int64_t b = l.integer("blocksize", 0);
  if (x->rank() != 4 || b < 1 || b > 4096 || x->shape[2] % b || x->shape[3] % b)
    return l.invalid("a block size of ", b, " for ", toString(x->shape));
  const int64_t n = x->shape[0], c = x->shape[1], h = x->shape[2] / b, w = x->shape[3] / b;
  Value *y = l.text("mode", "DCR") == "CRD"
                 ? transpose(l, l.view(x, {n, c, h, b, w, b}), {0, 1, 3, 5, 2, 4})
                 : transpose(l, l.view(x, {n, c, h, b, w, b}), {0, 3, 5, 1, 2, 4});
  return l.give(l.view(y, {n, c * b * b, h, w}));
}

Status reverseSequence(Lowering &l) {
  Value *x = l.in(0), *lengths = l.in(1);
  int64_t time = l.integer("time_axis", 0), batch = l.integer("batch_axis", 1);
  if (!l.axis(time, x->rank()) || !l.axis(batch, x->rank()))
    return l.status();
  const auto t = static_cast<size_t>(time), b = static_cast<size_t>(batch);
  if (t == b || lengths->rank() != 1 || lengths->shape[0] != x->shape[b])
    return l.invalid("lengths ", toString(lengths->shape), " for ", toString(x->shape));
  const size_t first = std::min(t, b), second = std::max(t, b);
  Value *y = l.output(0, x->type, x->shape);
  return l.emit(KernelId::ReverseSequence, {y}, {x, lengths, l.fault()},
                {product(x->shape, 0, first), x->shape[t], product(x->shape, first + 1, second),
                 x->shape[b], product(x->shape, second + 1, x->rank()) * width(x), t < b});
}

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
  if (indices->isConstant() && indices->count == 1) {
    int64_t index = 0;
    if (!l.read(indices, index))
      return l.status();
    if (index < -n || index >= n)
      return l.invalid("index ", index, " is out of range for a length of ", n);
    Shape lengths = x->shape;
    lengths[at.axis] = 1;
    Integers starts(x->rank());
    starts[at.axis] = index < 0 ? index + n : index;
    const Integers steps(x->rank(), 1);
    return l.give(l.view(slice(l, x, lengths, starts, steps), shape));
  }
  Value *y = l.output(0, x->type, shape);
  return l.emit(KernelId::Gather, {y}, {x, asIndices(l, indices), l.fault()},
                {at.outer, n, block, count(indices)});
}

/// Checks that indices for each element fit x but along the axis.
bool coversAll(Lowering &l, const Value *x, const Value *indices, size_t axis) {
  bool fits = indices->rank() == x->rank();
  for (size_t i = 0; fits && i < x->rank(); ++i)
    fits = i == axis || indices->shape[i] <= x->shape[i];
  if (!fits)
    l.invalid("indices ", toString(indices->shape), " for ", toString(x->shape));
  return fits;
}

Status gatherElements(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1);
  Along at;
  if (!readAxis(l, x, 0, at) || !coversAll(l, x, indices, at.axis))
    return l.status();
  const Integers strides = denseStrides(x->shape);
  Integers p{width(x), at.n, at.inner, static_cast<int64_t>(x->rank())};
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
    return l.invalid("batch_dims ", batchDimensions, " for ", toString(x->shape), " and ",
                     toString(indices->shape));
  const auto b = static_cast<size_t>(batchDimensions);
  const int64_t depth = indices->shape.back();
  if (depth < 1 || static_cast<size_t>(depth) > x->rank() - b ||
      !std::equal(x->shape.begin(), x->shape.begin() + batchDimensions, indices->shape.begin()))
    return l.invalid("indices ", toString(indices->shape), " for ", toString(x->shape));
  const size_t end = b + static_cast<size_t>(depth);
  Shape shape(indices->shape.begin(), indices->shape.end() - 1);
  shape.insert(shape.end(), x->shape.begin() + static_cast<int64_t>(end), x->shape.end());
  const int64_t block = product(x->shape, end, x->rank()) * width(x);
  Integers p{product(x->shape, 0, b), product(x->shape, b, x->rank()) * width(x),
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
  return l.invalid("its attribute 'reduction' is '", text, "'");
}

bool canReduce(Lowering &l, const Value *x, ScatterOp op) {
  if (op == ScatterOp::None || (x->type != ElementType::Bool && !isHalf(x->type)))
    return true;
  return l.unsupported("a reduction of ", name(x->type));
}

Status scatterElements(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1), *updates = l.in(2);
  Along at;
  ScatterOp op = ScatterOp::None;
  if (!readAxis(l, x, 0, at) || !reductionOf(l, op) || !canReduce(l, x, op) ||
      !coversAll(l, x, indices, at.axis))
    return l.status();
  if (indices->shape != updates->shape)
    return l.invalid("indices ", toString(indices->shape), " and updates ",
                     toString(updates->shape), " for ", toString(x->shape));
  const Integers strides = denseStrides(x->shape);
  const Integers from = denseStrides(updates->shape);
  Integers p{code(x->type), number(op), at.n, at.inner, static_cast<int64_t>(x->rank())};
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
    return l.invalid("indices ", toString(indices->shape), " for ", toString(x->shape));
  const auto d = static_cast<size_t>(depth);
  Shape wanted(indices->shape.begin(), indices->shape.end() - 1);
  wanted.insert(wanted.end(), x->shape.begin() + depth, x->shape.end());
  if (updates->shape != wanted)
    return l.invalid("updates ", toString(updates->shape), " instead of ", toString(wanted));
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
  Integers p{code(x->type), number(op), rows, block, depth};
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
    return l.invalid("a depth of ", wanted, " does not go with values of shape ",
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
  Value *counted = l.make(ElementType::Int64, {});
  l.emit(KernelId::CountNonZero, {counted}, {x}, {width(x), count(x), isReal});
  int64_t n = 0;
  if (!l.read(counted, n))
    return l.status();
  const int64_t rank = std::max<int64_t>(1, static_cast<int64_t>(x->rank()));
  Integers p{width(x), n, isReal, rank};
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
  Integers kept;
  for (size_t i = 0; i < condition->count; ++i)
    if (bytes[i])
      kept.push_back(static_cast<int64_t>(i));
  Shape shape = x->shape;
  const auto length = static_cast<int64_t>(kept.size());
  shape[at.axis] = length;
  Value *y = l.output(0, x->type, shape);
  return l.emit(KernelId::Gather, {y}, {x, l.constantOf<int64_t>({length}, kept), l.fault()},
                {at.outer, at.n, at.inner * width(x), length});
}

Status unique(Lowering &l) {
  Value *x = l.in(0);
  if (!l.attribute("axis"))
    x = l.view(x, {count(x)});
  Along at;
  if (!readAxis(l, x, 0, at))
    return l.status();
  Integers order = allAxes(x->rank());
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(at.axis),
              order.begin() + static_cast<ptrdiff_t>(at.axis) + 1);
  const auto integers = [&] { return l.make(ElementType::Int64, {at.n}); };
  Value *number = l.make(ElementType::Int64, {}), *first = integers(), *inverse = integers(),
        *counts = integers();
  l.emit(KernelId::Unique, {number, first, inverse, counts}, {transpose(l, x, order), integers()},
         {code(x->type), at.n, at.outer * at.inner, l.integer("sorted", 1) != 0});
  Shape shape = x->shape;
  if (!l.read(number, shape[at.axis]))
    return l.status();
  const int64_t n = shape[at.axis];
  Value *y = l.output(0, x->type, shape);
  l.setResult(1, l.view(first, {n}));
  l.setResult(2, inverse);
  l.setResult(3, l.view(counts, {n}));
  return l.emit(KernelId::Gather, {y}, {x, l.results[1], l.fault()},
                {at.outer, at.n, at.inner * width(x), n});
}

constexpr Operator Table[] = {
    {"Transpose", 1, "T", Fixed, 1, false, transposeNode, "perm"},
    {"Expand", 8, "TL", Fixed, 1, false, expandNode, "", 2},
    {"Tile", 6, "TL", Fixed, 1, false, tile, "", 2},
    {"Concat", 4, "T*", Fixed, 1, false, concat, "axis"},
    {"Split", 2, "Tl", Fixed, AnyNumber, false, split<true>, "axis split", 2},
    {"Split", 18, "Tl", Fixed, AnyNumber, false, split<false>, "axis num_outputs", 2},
    {"Slice", 1, "Tiiii", Fixed, 1, false, sliceNode, "starts ends axes", 30},
    {"Pad", 2, "T", Fixed, 1, false, padByAttributes, "mode pads value"},
    {"Pad", 11, "Tlti", Fixed, 1, false, pad, "mode", 10},
    {"Trilu", 14, "Tl", Fixed, 1, false, trilu, "upper", 2},
    {"DepthToSpace", 1, "T", Fixed, 1, false, depthToSpace, "blocksize mode"},
    {"SpaceToDepth", 1, "T", Fixed, 1, false, spaceToDepth, "blocksize mode"},
    {"ReverseSequence", 10, "TL", Fixed, 1, false, reverseSequence, "batch_axis time_axis"},
    {"Gather", 1, "TI", Fixed, 1, false, gather, "axis"},
    {"GatherElements", 11, "TI", Fixed, 1, false, gatherElements, "axis"},
    {"GatherND", 11, "TL", Fixed, 1, false, gatherNd, "batch_dims"},
    {"ScatterElements", 11, "TIT", Fixed, 1, true, scatterElements, "axis reduction"},
    {"Scatter", 9, "TIT", Fixed, 1, true, scatterElements, "axis"},
    {"ScatterND", 11, "TLT", Fixed, 1, true, scatterNd, "reduction"},
    {"OneHot", 9, "TAA", Numbers, 1, false, oneHot, "axis", 2},
    {"NonZero", 9, "T", Fixed, 1, false, nonZero, "", SelfDeciding},
    {"Unique", 11, "T", Fixed, 4, true, unique, "axis sorted", SelfDeciding},
    {"Compress", 9, "TB", Fixed, 1, false, compress, "axis", 2},
};

} // namespace

const Span<const Operator> MovementOperators = Table;

} // namespace mlbridge::native
