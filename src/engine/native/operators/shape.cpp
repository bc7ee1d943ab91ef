// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators on shapes, which cost nothing when the network runs, and makers of constants.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

Status reshape(Lowering &l) {
  Value *x = l.in(0);
  Integers shape;
  if (!l.read(1, "shape", shape))
    return l.status();
  const bool zeroIsZero = l.integer("allowzero", 0) != 0;
  const std::string wanted = toString(shape);
  size_t open = SIZE_MAX;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !zeroIsZero && i < x->rank())
      shape[i] = x->shape[i];
    if (shape[i] != -1)
      continue;
    if (open != SIZE_MAX)
      return l.invalid("the shape ", wanted, " has two lengths of -1");
    open = i;
    shape[i] = 1;
  }
  const std::optional<size_t> others = elementCount(shape);
  if (open != SIZE_MAX && others && *others) {
    shape[open] = count(x) / static_cast<int64_t>(*others);
  } else if (open != SIZE_MAX && x->count == 0) {
    // The length is what it would be with elements: [n, 6] for [0, -1] becomes [0, 6] for n = 0.
    const auto extent = [](Shape lengths) {
      std::replace(lengths.begin(), lengths.end(), int64_t(0), int64_t(1));
      return elementCount(lengths).value_or(0);
    };
    const size_t all = extent(x->shape), rest = extent(shape);
    shape[open] = rest && all % rest == 0 ? static_cast<int64_t>(all / rest) : 1;
  }
  if (elementCount(shape) != x->count)
    return l.invalid("the shape ", wanted, " does not have as many elements as ",
                     toString(x->shape));
  return l.give(l.view(x, shape));
}

Status flatten(Lowering &l) {
  Value *x = l.in(0);
  int64_t axis = l.integer("axis", 1);
  if (axis != static_cast<int64_t>(x->rank()) && !l.axis(axis, x->rank()))
    return l.status();
  const auto at = static_cast<size_t>(axis);
  return l.give(l.view(x, {product(x->shape, 0, at), product(x->shape, at, x->rank())}));
}

Status squeeze(Lowering &l) {
  Value *x = l.in(0);
  Integers axes;
  const bool areThere = l.in(1) || l.integers("axes");
  if (!l.read(1, "axes", axes, true) || !l.axes(axes, x->rank()))
    return l.status();
  Shape shape;
  for (size_t i = 0; i < x->rank(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (named && x->shape[i] != 1)
      return l.invalid("axis ", i, " of ", toString(x->shape), " is not 1");
    if (areThere ? !named : x->shape[i] != 1)
      shape.push_back(x->shape[i]);
  }
  return l.give(l.view(x, shape));
}

Status unsqueeze(Lowering &l) {
  Value *x = l.in(0);
  Integers axes;
  if (!l.read(1, "axes", axes))
    return l.status();
  const size_t rank = x->rank() + axes.size();
  if (!l.axes(axes, rank))
    return l.status();
  Shape shape;
  for (size_t i = 0, from = 0; i < rank; ++i)
    shape.push_back(std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()
                        ? 1
                        : x->shape[from++]);
  return l.give(l.view(x, shape));
}

Status shape(Lowering &l) {
  const Value *x = l.in(0);
  const auto rank = static_cast<int64_t>(x->rank());
  const auto clamp = [&](int64_t at) {
    at += at < 0 ? rank : 0;
    return std::min(std::max<int64_t>(at, 0), rank);
  };
  const int64_t start = clamp(l.integer("start", 0)), end = clamp(l.integer("end", rank));
  Shape part;
  for (int64_t i = start; i < end; ++i)
    part.push_back(x->shape[static_cast<size_t>(i)]);
  return l.give(l.constantOf<int64_t>({static_cast<int64_t>(part.size())}, part));
}

Status size(Lowering &l) { return l.give(l.constantOf<int64_t>({}, {count(l.in(0))})); }

Status constant(Lowering &l) {
  if (Value *value = l.tensor("value"))
    return l.give(value);
  if (!l.status())
    return l.status();
  if (const onnx::Attribute *a = l.attribute("value_float"))
    return l.give(l.constantOf<float>({}, {a->real}));
  if (const onnx::Attribute *a = l.attribute("value_int"))
    return l.give(l.constantOf<int64_t>({}, {a->integer}));
  if (const onnx::Attribute *a = l.attribute("value_floats"))
    return l.give(l.constantOf<float>({static_cast<int64_t>(a->reals.size())}, a->reals));
  if (const onnx::Attribute *a = l.attribute("value_ints"))
    return l.give(l.constantOf<int64_t>({static_cast<int64_t>(a->integers.size())}, a->integers));
  return l.unsupported("a constant that is no tensor of numbers");
}

Status constantOfShape(Lowering &l) {
  Integers shape;
  if (!l.read(l.in(0), shape))
    return l.status();
  Value *value = l.tensor("value");
  if (!value)
    value = l.constantOf<float>({}, {0});
  if (value->count != 1)
    return l.invalid("its value has ", value->count, " elements");
  return l.give(fill(l, value->type, shape, value));
}

// Integers are counted exactly: as doubles, 2^63 - 3 and 2^63 - 1 are one number.
bool countOfRange(Lowering &l, Value *start, Value *limit, Value *delta, double &steps) {
  double from = 0, to = 0, by = 0;
  if (!l.read(start, from) || !l.read(limit, to) || !l.read(delta, by))
    return false;
  if (by == 0)
    return l.invalid("its step is 0");
  steps = std::max((to - from) / by, 0.0);
  if (start->type != ElementType::Int64 && start->type != ElementType::Int32)
    return true;
  int64_t first = 0, last = 0, step = 0;
  if (!l.read(start, first) || !l.read(limit, last) || !l.read(delta, step))
    return false;
  if (step < 0)
    std::swap(first, last);
  if (first >= last) {
    steps = 0;
    return true;
  }
  const uint64_t distance = static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
  const uint64_t stride = step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
  const uint64_t whole = distance / stride;
  steps = static_cast<double>(whole + (distance % stride != 0));
  return true;
}

Status range(Lowering &l) {
  Value *start = l.in(0), *limit = l.in(1), *delta = l.in(2);
  double steps = 0;
  if (!countOfRange(l, start, limit, delta, steps))
    return l.status();
  if (!(steps < 1e9))
    return l.invalid("it has too many elements");
  auto n = static_cast<int64_t>(steps);
  n += static_cast<double>(n) < steps;
  Value *y = l.output(0, start->type, {n});
  return l.emit(KernelId::Range, {y}, {start, delta}, {code(start->type), n});
}

Status eyeLike(Lowering &l) {
  const Value *x = l.in(0);
  if (x->rank() != 2)
    return l.invalid("it takes a matrix, not ", toString(x->shape));
  ElementType type = x->type;
  if (l.attribute("dtype")) {
    const auto wanted = onnx::elementType(static_cast<onnx::DataType>(l.integer("dtype", 0)));
    if (!wanted)
      return l.unsupported("its attribute 'dtype' is ", l.integer("dtype", 0));
    type = *wanted;
  }
  const int64_t k = l.integer("k", 0), rows = x->shape[0], columns = x->shape[1];
  const auto filled = [&](const Shape &shape, int64_t with) {
    return cast(l, fill(l, ElementType::Int64, shape, l.constantOf<int64_t>({}, {with})), type);
  };
  Value *y = filled(x->shape, 0);
  const int64_t row = std::max<int64_t>(0, -std::max(k, -rows));
  const int64_t column = std::max<int64_t>(0, std::min(k, columns));
  const int64_t n = std::min(rows - row, columns - column);
  if (n > 0 && l.status())
    l.emit(KernelId::CopyStrided, {y}, {filled({n}, 1)},
           {width(y), row * columns + column, 0, 1, n, columns + 1, 1});
  return l.give(y);
}

constexpr Operator Table[] = {
    {"Reshape", 1, "Tl", Fixed, 1, false, reshape, "allowzero shape", 2},
    {"Flatten", 1, "T", Fixed, 1, false, flatten, "axis"},
    {"Squeeze", 1, "Tl", Fixed, 1, false, squeeze, "axes", 2},
    {"Unsqueeze", 1, "Tl", Fixed, 1, false, unsqueeze, "axes", 2},
    {"Shape", 1, "T", Fixed, 1, false, shape, "start end"},
    {"Size", 1, "T", Fixed, 1, false, size},
    {"Constant", 1, "", Fixed, 1, false, constant,
     "value value_float value_floats value_int value_ints value_string value_strings sparse_value"},
    {"ConstantOfShape", 9, "L", Fixed, 1, false, constantOfShape, "value", 1},
    {"Range", 11, "TTT", Numbers, 1, true, range, "stash_type", 7},
    {"EyeLike", 9, "T", Fixed, 1, false, eyeLike, "dtype k"},
};

} // namespace

const Span<const Operator> ShapeOperators = Table;

} // namespace mlbridge::native
