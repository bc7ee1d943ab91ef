// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/operators/common.h"

#include <numeric>

namespace mlbridge::native {

Refused misfit(Lowering &l, const char *expected) {
  std::string shapes;
  for (const Value *input : l.inputs)
    shapes += (shapes.empty() ? "" : ", ") + (input ? toString(input->shape) : "none");
  return l.invalid("its inputs ", shapes, " don't fit; expected ", expected);
}
Refused wrong(Lowering &l, const char *attribute, int64_t value) {
  return l.invalid("its attribute '", attribute, "' is ", value);
}
Refused wrong(Lowering &l, const char *attribute, std::string_view value) {
  return l.invalid("its attribute '", attribute, "' is '", value, "'");
}

bool readAxis(Lowering &l, const Value *x, int64_t fallback, Along &out) {
  int64_t axis = l.integer("axis", fallback);
  if (!l.axis(axis, x->rank()))
    return false;
  out = {x, axis};
  return true;
}

std::vector<size_t> sortedBy(size_t size, bool (*isBefore)(const void *, size_t, size_t),
                             const void *context) {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto isEarlier = [&](size_t a, size_t b) {
    return isBefore(context, a, b) || (a < b && !isBefore(context, b, a));
  };
  if (!std::is_sorted(order.begin(), order.end(), isEarlier))
    std::sort(order.begin(), order.end(), isEarlier);
  return order;
}

Integers joined(Integers a, const Integers &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void sort(Integers &numbers) {
  const Integers given = numbers;
  numbers.clear();
  for (const size_t i :
       sorted(given.size(), [&](size_t a, size_t b) { return given[a] < given[b]; }))
    numbers.push_back(given[i]);
}

Integers allAxes(size_t rank) {
  Integers axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Integers denseStrides(const Shape &shape) {
  Integers strides(shape.size());
  int64_t apart = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = apart;
    apart *= shape[i];
  }
  return strides;
}

Integers mergedLoops(const Shape &lengths, const std::vector<Integers> &strides) {
  const size_t operands = strides.size();
  Integers loops{0};
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 1)
      continue;
    bool merges = loops[0] > 0;
    size_t k = 0;
    for (const Integers &stride : strides) {
      merges = merges && loops[loops.size() - operands + k] == lengths[i] * stride[i];
      ++k;
    }
    if (merges) {
      loops[loops.size() - operands - 1] *= lengths[i];
    } else {
      ++loops[0];
      loops.push_back(lengths[i]);
      loops.resize(loops.size() + operands);
    }
    k = 0;
    for (const Integers &stride : strides)
      loops[loops.size() - operands + k++] = stride[i];
  }
  if (loops[0] == 0) {
    loops = {1, 1};
    loops.resize(2 + operands, 1);
  }
  return loops;
}

static Integers broadcastStrides(const Shape &out, const Value *value) {
  Integers strides(out.size());
  const Integers dense = denseStrides(value->shape);
  const size_t lead = out.size() - value->rank();
  for (size_t i = 0; i < value->rank(); ++i)
    strides[lead + i] = value->shape[i] == 1 ? 0 : dense[i];
  return strides;
}

Integers broadcastLoops(const Shape &out, const std::vector<const Value *> &operands) {
  std::vector<Integers> strides;
  for (const Value *operand : operands)
    strides.push_back(broadcastStrides(out, operand));
  return mergedLoops(out, strides);
}

Value *unary(Lowering &l, KernelId kernel, Value *x, double alpha, double beta) {
  Value *y = l.make(x->type, x->shape);
  l.emit(pick(kernel, x->type), {y}, {x}, {count(x), real(alpha), real(beta)});
  return y;
}

int64_t bitsOf(const Value *x) { return width(x) == 2 ? UInt16 : width(x) == 4 ? UInt32 : UInt64; }

static Value *changeSign(Lowering &l, Value *x, IntegerOp op) {
  const uint64_t sign = uint64_t(1) << (8 * width(x) - 1),
                 mask = op == IntegerOp::And ? ~sign : sign;
  return broadcasted(l, KernelId::IntegerBinary, x->type, {x, l.constant(x->type, {}, &mask)},
                     {number(op), bitsOf(x)});
}
Value *absolute(Lowering &l, Value *x) { return changeSign(l, x, IntegerOp::And); }
Value *negate(Lowering &l, Value *x) { return changeSign(l, x, IntegerOp::Xor); }

Value *infinity(Lowering &l, ElementType type, bool isNegative) {
  const bool isHalf = type == ElementType::Float16, isSingle = type == ElementType::Float32;
  const uint64_t bits = (isHalf     ? uint64_t(0x7c00)
                         : isSingle ? uint64_t(0x7f800000)
                                    : uint64_t(0x7ff) << 52) |
                        uint64_t(isNegative) << (8 * sizeOf(type) - 1);
  return l.constant(type, {}, &bits);
}

Value *broadcasted(Lowering &l, KernelId kernel, ElementType type,
                   std::initializer_list<Value *> reads, Integers first) {
  Shape shape;
  const std::vector<const Value *> values(reads.begin(), reads.end());
  (void)l.broadcast(values, shape);
  Value *y = l.make(type, l.status() ? shape : Shape{0});
  if (l.status())
    l.emit(kernel, {y}, reads, joined(std::move(first), broadcastLoops(shape, values)));
  return y;
}

Value *binary(Lowering &l, KernelId kernel, Value *a, Value *b) {
  return broadcasted(l, pick(kernel, a->type), a->type, {a, b}, {});
}

Value *integerBinary(Lowering &l, IntegerOp op, Value *a, Value *b) {
  if (op >= IntegerOp::Div && width(a) < 4) { // which int32 holds, and wraps as
    constexpr ElementType Wide = ElementType::Int32;
    return cast(l, integerBinary(l, op, cast(l, a, Wide), cast(l, b, Wide)), a->type);
  }
  const bool isRow =
      op < IntegerOp::Div || (op <= IntegerOp::ShiftRight && a->type == ElementType::Int32);
  return broadcasted(l, isRow ? KernelId::IntegerBinary : KernelId::IntegerFunction, a->type,
                     {a, b}, {number(op), code(a->type)});
}

Value *arithmetic(Lowering &l, KernelId kernel, IntegerOp op, Value *a, Value *b) {
  return isFloat(a->type) ? binary(l, kernel, a, b) : integerBinary(l, op, a, b);
}

Value *logicalNot(Lowering &l, Value *x) {
  const uint8_t one = 1;
  return integerBinary(l, IntegerOp::Xor, x, l.constant(ElementType::Bool, {}, &one));
}

Value *cast(Lowering &l, Value *x, ElementType type) {
  if (x->type == type)
    return x;
  if (type == ElementType::Bool) {
    const int64_t zero = 0;
    return logicalNot(l, compare(l, CompareOp::Equal, x, l.constant(x->type, {}, &zero)));
  }
  if (isHalf(x->type) && type != ElementType::Float32) // which is exact
    x = cast(l, x, ElementType::Float32);
  // From double a float16 is rounded once, as in ONNX Runtime, and a bfloat16 twice. Integers that
  // aren't exact in float32 become an infinite float16.
  if ((type == ElementType::Float16 && !isFloat(x->type)) ||
      (type == BFloat16 && x->type != ElementType::Float32))
    x = cast(l, x, ElementType::Float32);
  Value *y = l.make(type, x->shape);
  if (isHalf(x->type) || type == BFloat16 ||
      (x->type == ElementType::Float32 && type == ElementType::Float16))
    l.emit(halfKernel(isHalf(x->type) ? x->type : type, isHalf(x->type)), {y}, {x}, {count(x)});
  else if (!isFloat(x->type) && !isFloat(type) && width(x) == width(y))
    l.emit(KernelId::Copy, {y}, {x}, {count(x) * width(x)});
  else
    l.emit(KernelId::Convert, {y}, {x}, {code(x->type), code(type), count(x)});
  return y;
}

Value *copy(Lowering &l, Value *x) {
  Value *y = l.make(x->type, x->shape);
  l.emit(KernelId::Copy, {y}, {x}, {count(x) * width(x)});
  return y;
}

Value *strided(Lowering &l, Value *x, const Shape &shape, const Integers &strides, int64_t first) {
  Value *y = l.make(x->type, shape);
  if (y->count)
    l.emit(KernelId::CopyStrided, {y}, {x},
           joined({width(x), 0, first}, mergedLoops(shape, {denseStrides(shape), strides})));
  return y;
}

Value *transpose(Lowering &l, Value *x, const Integers &order) {
  const Integers dense = denseStrides(x->shape);
  Shape shape;
  Integers strides;
  int64_t before = -1;
  bool moves = false;
  for (const int64_t from : order) {
    const auto i = static_cast<size_t>(from);
    shape.push_back(x->shape[i]);
    strides.push_back(dense[i]);
    if (x->shape[i] != 1) {
      moves |= from < before;
      before = from;
    }
  }
  return moves ? strided(l, x, shape, strides, 0) : l.view(x, shape);
}

Value *expand(Lowering &l, Value *x, const Shape &shape) {
  if (elementCount(shape) == x->count)
    return x->shape == shape ? x : l.view(x, shape);
  return strided(l, x, shape, broadcastStrides(shape, x), 0);
}

Value *slice(Lowering &l, Value *x, const Shape &lengths, const Integers &starts,
             const Integers &steps) {
  Integers strides = denseStrides(x->shape);
  int64_t first = 0;
  bool isRun = true; // of consecutive elements
  for (size_t i = 0; i < lengths.size(); ++i) {
    first += starts[i] * strides[i];
    strides[i] *= steps[i];
    if (lengths[i] > 1 && steps[i] != 1)
      isRun = false;
    // All dimensions after one that is cut must be whole, unless those before have one entry.
    if (lengths[i] != x->shape[i] && product(lengths, 0, i) != 1)
      isRun = false;
  }
  if (product(lengths, 0, lengths.size()) == 0)
    return l.make(x->type, lengths);
  if (isRun)
    return l.view(x, lengths, static_cast<uint64_t>(first * width(x)));
  return strided(l, x, lengths, strides, first);
}

void place(Lowering &l, Value *y, Value *x, const Integers &starts) {
  if (x->count == 0)
    return;
  const Integers strides = denseStrides(y->shape);
  const int64_t first =
      std::inner_product(starts.begin(), starts.end(), strides.begin(), int64_t(0));
  l.emit(KernelId::CopyStrided, {y}, {x},
         joined({width(x), first, 0}, mergedLoops(x->shape, {strides, denseStrides(x->shape)})));
}

Value *fill(Lowering &l, ElementType type, const Shape &shape, Value *one) {
  Value *y = l.make(type, shape);
  l.emit(KernelId::Fill, {y}, {one}, {width(y), count(y)});
  return y;
}

Value *where(Lowering &l, Value *condition, Value *a, Value *b) {
  return broadcasted(l, KernelId::Where, a->type, {condition, a, b}, {width(a)});
}

Value *compare(Lowering &l, CompareOp op, Value *a, Value *b) {
  if (isHalf(a->type) && b->type == a->type) {
    a = cast(l, a, ElementType::Float32);
    b = cast(l, b, ElementType::Float32);
  }
  const bool orLess = op == CompareOp::LessOrEqual;
  if (!isFloat(a->type) && (orLess || op == CompareOp::GreaterOrEqual)) // the order is total
    return logicalNot(l, compare(l, orLess ? CompareOp::Greater : CompareOp::Less, a, b));
  return broadcasted(l, KernelId::Compare, ElementType::Bool, {a, b}, {number(op), code(a->type)});
}

/// {outer, n, inner} of x, to y.
static void reduceIntegers(Lowering &l, ReduceOp op, Value *x, Value *y, const Integers &lengths) {
  const int64_t least = kernels::isUnsigned(code(x->type))
                            ? 0
                            : static_cast<int64_t>(~uint64_t(0) << (8 * width(x) - 1));
  int64_t nothing = 0;
  IntegerOp kernel = IntegerOp::Add;
  if (op == ReduceOp::Max || op == ReduceOp::Min) {
    kernel = op == ReduceOp::Max ? IntegerOp::Max : IntegerOp::Min;
    nothing = op == ReduceOp::Max ? least : x->type == ElementType::Bool ? 1 : ~least;
  } else if (op == ReduceOp::Prod) {
    kernel = IntegerOp::Mul;
    nothing = 1;
  } else if (op == ReduceOp::SumSquare || (op == ReduceOp::L1 && least)) {
    x = integerBinary(l, op == ReduceOp::L1 ? IntegerOp::Abs : IntegerOp::Mul, x, x);
  }
  l.emit(KernelId::IntegerReduce, {y}, {x},
         joined({number(kernel), code(x->type)}, joined(lengths, {nothing})));
}

Value *reduce(Lowering &l, KernelId kernel, ReduceOp op, Value *x, const Integers &axes,
              bool keep) {
  if (op == ReduceOp::Mean && !isFloat(x->type)) { // whose sum may not fit
    const ElementType type = x->type;
    x = type == ElementType::UInt64 ? x : cast(l, x, ElementType::Int64);
    int64_t n = 1;
    for (const int64_t axis : axes)
      n *= x->shape[static_cast<size_t>(axis)];
    Value *sum = reduce(l, kernel, ReduceOp::Sum, x, axes, keep);
    return cast(l, integerBinary(l, IntegerOp::Div, sum, l.constant(x->type, {}, &n)), type);
  }
  std::vector<bool> goes(x->rank());
  for (const int64_t axis : axes)
    goes[static_cast<size_t>(axis)] = true;
  Shape kept, shape;
  Integers order;
  for (size_t i = 0; i < x->rank(); ++i) {
    if (!goes[i]) {
      order.push_back(static_cast<int64_t>(i));
      kept.push_back(x->shape[i]);
    }
    if (!goes[i] || keep)
      shape.push_back(goes[i] ? 1 : x->shape[i]);
  }
  int64_t n = 1, inner = 1;
  // Neighbouring axes are one.
  size_t first = goes.size(), last = 0;
  for (size_t i = 0; i < goes.size(); ++i)
    if (goes[i] && x->shape[i] != 1) {
      first = std::min(first, i);
      last = i;
    }
  bool areNeighbours = true;
  for (size_t i = first; i < last; ++i)
    areNeighbours &= goes[i] || x->shape[i] == 1;
  for (size_t i = 0; i < goes.size(); ++i)
    if (goes[i])
      n *= x->shape[i];
  if (!areNeighbours) {
    for (const int64_t axis : axes)
      order.push_back(axis);
    x = transpose(l, x, order);
  } else if (first < goes.size()) {
    for (size_t i = last + 1; i < goes.size(); ++i)
      inner *= goes[i] ? 1 : x->shape[i];
  }
  Value *y = l.make(x->type, shape);
  const int64_t outer = inner == 0 ? 0 : count(y) / inner;
  if (isFloat(x->type))
    l.emit(pick(kernel, x->type), {y}, {x}, {outer, n, inner});
  else
    reduceIntegers(l, op, x, y, {outer, n, inner});
  return y;
}

} // namespace mlbridge::native
