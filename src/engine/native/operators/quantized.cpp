// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantized networks: numbers of 8 to 32 bits with a scale and a zero, and products of bytes. A
// product of what DequantizeLinear gives is one of bytes too, and what turns the sums of
// MatMulInteger into floats becomes part of it.
#include "engine/native/operators/spatial.h"

#include "engine/native/kernels/quantized.h"

#include <cmath>

namespace mlbridge::native {
namespace {

/// Positions of IntegerGemm's operands and parameters.
enum : size_t { ScaleOperand = 5, BiasOperand = 6, IsFloat = 5, ScaleStride = 8, BiasStride = 9 };

bool isByte(const Value *v) { return sizeOf(v->type) == 1 && v->type != ElementType::Bool; }

/// How Quantize and Dequantize walk, from their parameters' second on.
bool readScaling(Lowering &l, const Value *x, Value *scale, Value *zero, Integers &p) {
  const auto misfit = [&](const auto &...why) {
    return l.invalid("its scale is ", toString(scale->shape), " for a tensor of ",
                     toString(x->shape), why...);
  };
  if (scale->type != ElementType::Float32)
    return l.unsupported("a scale of the type ", name(scale->type));
  if (zero && (zero->count != scale->count || (zero->rank() != scale->rank() && zero->count != 1)))
    return l.invalid("its scale is ", toString(scale->shape), " and its zero point ",
                     toString(zero->shape));
  const int64_t block = l.integer("block_size", 0);
  if (block < 0)
    return l.invalid("its attribute 'block_size' is ", block);
  p = {1, 1, count(x), 1, 0, 0, 0};
  if (scale->rank() == 0 || (scale->count == 1 && block == 0))
    return bool(l.status());
  Along a;
  if (!readAxis(l, x, 1, a))
    return false;
  if (block == 0) {
    if (scale->rank() != 1 || count(scale) != a.n)
      return misfit(", axis ", a.axis);
    if (a.inner == 1)
      p = {a.outer, 1, a.n, 1, 1, 0, 0};
    else
      p = {a.outer, a.n, a.inner, 1, 0, 1, 0};
    return true;
  }
  const int64_t blocks = a.n / block + (a.n % block != 0);
  Shape expected = x->shape;
  expected[a.axis] = blocks;
  if (scale->shape != expected)
    return misfit(", blocks of ", block, " along axis ", a.axis);
  if (a.inner == 1 && a.n % block == 0)
    p = {a.outer, blocks, block, 1, 0, 1, blocks};
  else
    p = {a.outer, a.n, a.inner, block, 1, a.inner, blocks * a.inner};
  return true;
}

Value *scaled(Lowering &l, KernelId kernel, ElementType to, Value *x, Value *scale, Value *zero,
              const Integers &walk) {
  Value *y = l.make(to, x->shape);
  const ElementType whole = kernel == KernelId::Quantize ? to : x->type;
  if (scale->type != ElementType::Float32 || (zero && zero->type != whole))
    misfit(l, "a scale of float32, and a zero point of the quantized type");
  l.emit(kernel, {y}, {x, scale, zero}, joined({code(whole)}, walk));
  return y;
}
Value *quantize(Lowering &l, Value *x, Value *scale, Value *zero, ElementType to) {
  return scaled(l, KernelId::Quantize, to, x, scale, zero, {1, 1, count(x), 1, 0, 0, 0});
}
Value *dequantize(Lowering &l, Value *x, Value *scale, Value *zero) {
  return scaled(l, KernelId::Dequantize, ElementType::Float32, x, scale, zero,
                {1, 1, count(x), 1, 0, 0, 0});
}

/// The type that the attribute names, or none on failure and without it.
std::optional<ElementType> namedType(Lowering &l, const char *attribute) {
  const int64_t named = l.integer(attribute, 0);
  const auto type = onnx::elementType(static_cast<onnx::DataType>(named));
  if (named != 0 && !type)
    (void)l.unsupported("to the type ", onnx::name(static_cast<onnx::DataType>(named)));
  return type;
}

Status quantizeLinear(Lowering &l) {
  Value *x = l.in(0), *scale = l.in(1), *zero = l.in(2);
  const auto named = namedType(l, "output_dtype");
  const ElementType to = zero ? zero->type : named.value_or(ElementType::UInt8);
  if (named && *named != to)
    return l.invalid("its zero point is ", name(to), ", and 'output_dtype' is ", name(*named));
  if (!isIn(to, Whole) || sizeOf(to) > 2)
    return l.unsupported("quantization to ", name(to));
  Integers walk;
  if (!readScaling(l, x, scale, zero, walk))
    return l.status();
  return l.give(
      scaled(l, KernelId::Quantize, to, cast(l, x, ElementType::Float32), scale, zero, walk));
}

Status dequantizeLinear(Lowering &l) {
  Value *x = l.in(0), *zero = l.in(2);
  const auto named = namedType(l, "output_dtype");
  const ElementType to = named.value_or(l.in(1)->type);
  if (!isIn(to, Real16 | Real32) || x->type == ElementType::UInt32 || sizeOf(x->type) > 4)
    return l.unsupported("from ", name(x->type), " to ", name(to));
  Value *scale = cast(l, l.in(1), ElementType::Float32);
  Integers walk;
  if (!readScaling(l, x, scale, zero, walk))
    return l.status();
  Value *y = scaled(l, KernelId::Dequantize, ElementType::Float32, x, scale, zero, walk);
  if (isByte(x) && to == y->type && l.integer("block_size", 0) == 0) {
    y->quantized = x;
    y->scale = scale;
    y->zero = zero;
    y->scaledAxis = l.integer("axis", 1);
    y->scaledAxis += y->scaledAxis < 0 ? static_cast<int64_t>(x->rank()) : 0;
  }
  return l.give(cast(l, y, to));
}

/// x as uint8 with a scale and a zero of its own.
struct Quantized {
  Value *x, *scale, *zero;
};
Quantized quantizeByRange(Lowering &l, Value *x) {
  const Integers all = allAxes(x->rank());
  Value *least = reduce(l, KernelId::ReduceMinF32, ReduceOp::Min, x, all, false);
  Value *greatest = reduce(l, KernelId::ReduceMaxF32, ReduceOp::Max, x, all, false);
  Value *scale = l.make(ElementType::Float32, {}), *zero = l.make(ElementType::UInt8, {});
  l.emit(KernelId::QuantizationOf, {scale, zero}, {least, greatest}, {});
  return {quantize(l, x, scale, zero, ElementType::UInt8), scale, zero};
}
Status dynamicQuantizeLinear(Lowering &l) {
  const Quantized q = quantizeByRange(l, l.in(0));
  l.setResult(1, q.scale);
  l.setResult(2, q.zero);
  return l.give(q.x);
}

/// A product of bytes as int32, or, with a scale, as float; null on failure.
Value *multiplyBytes(Lowering &l, Value *a, Value *b, Value *zeroA, Value *zeroB, Value *scale,
                     Value *bias, bool isTransposed = false) {
  for (const Value *v : {a, b})
    if (!isByte(v))
      return l.unsupported("a product of ", name(a->type), " and ", name(b->type)), nullptr;
  if ((zeroA && zeroA->type != a->type) || (zeroB && zeroB->type != b->type))
    return l.invalid("its zero points are of other types than its matrices"), nullptr;
  for (const Value *v : {scale, bias})
    if (v && v->type != ElementType::Float32)
      return l.unsupported("a scale or bias of ", name(v->type)), nullptr;
  for (Value **zero : {&zeroA, &zeroB})
    if (*zero && (*zero)->isConstant()) {
      const uint8_t *bytes = (*zero)->constantBytes();
      if (std::all_of(bytes, bytes + (*zero)->count, [](uint8_t byte) { return byte == 0; }))
        *zero = nullptr;
    }
  Factors f;
  Value *columns = isTransposed && b->rank() == 2 ? l.view(b, {b->shape[1], b->shape[0]}) : b;
  if (!readFactors(l, a, columns, f))
    return nullptr;
  const auto isOneOr = [&](const Value *v, int64_t n) {
    return !v || v->count == 1 || (count(v) == n && (v->rank() < 2 || v->shape.back() == n));
  };
  if (zeroA && zeroA->count != 1 &&
      (count(zeroA) != f.m || (zeroA->rank() > 1 && zeroA->shape[zeroA->rank() - 2] != f.m)))
    return l.unsupported("zero points of another shape than a scalar's or rows'"), nullptr;
  for (const Value *v : {zeroB, scale, bias})
    if (!isOneOr(v, f.n))
      return l.unsupported("scales or zero points of another shape than a scalar's or columns'"),
             nullptr;
  const auto isVector = [](const Value *v) { return int64_t{v && v->count != 1}; };
  const int64_t matrices = product(f.batchB->shape, 0, f.batchB->rank());
  const int64_t size = packedBytes(f.k, f.n);
  Value *packed = l.planner.packed(KernelId::PackBytes, {matrices, size}, b,
                                   {f.k, f.n, isTransposed ? 1 : f.n, isTransposed ? f.k : 1,
                                    code(b->type), matrices, f.k * f.n});
  Value *y = l.make(scale ? ElementType::Float32 : ElementType::Int32, f.result);
  const bool joins = matrices == 1 && !isVector(zeroA);
  Integers p{joins ? f.m * product(f.batch, 0, f.batch.size()) : f.m,
             f.k,
             f.n,
             code(a->type),
             code(b->type),
             scale != nullptr,
             isVector(zeroA),
             isVector(zeroB),
             isVector(scale),
             isVector(bias),
             0};
  if (!joins)
    for (size_t i = 0; i < f.batch.size(); ++i) {
      ++p[10];
      p.insert(p.end(), {f.batch[i], f.strideA(i), f.stride(i, f.batchB, size)});
    }
  l.emit(KernelId::IntegerGemm, {y}, {a, packed, zeroA, zeroB, scale, bias}, p);
  l.planner.countMultiplyAdds(y->count * static_cast<uint64_t>(f.k));
  return y;
}

/// The product of two scales, of which the second may be one for each column.
Value *scaleOf(Lowering &l, Value *a, Value *b) {
  for (const Value *v : {a, b})
    if (v->type != ElementType::Float32)
      return l.unsupported("a scale or bias of ", name(v->type)), a;
  if (!a->isConstant() || !b->isConstant() || a->count != 1)
    return binary(l, KernelId::MulF32, a, b);
  std::vector<float> scales(b->count);
  convert(*b, b->constantBytes(), ElementType::Float32, scales.data());
  float one = 0;
  convert(*a, a->constantBytes(), ElementType::Float32, &one);
  for (float &scale : scales)
    scale *= one;
  return l.constantOf<float>(b->shape, scales);
}

/// The sums of a convolution of bytes as int32; null on failure.
Value *convolveBytes(Lowering &l, Value *x, Value *w, Value *zeroX, Value *zeroW) {
  constexpr int64_t MostExact = (int64_t(1) << 24) / (255 * 255); // of a sum in float32
  Sliding s;
  int64_t groups = 0;
  if (!readConvolution(l, x, w, nullptr, s, groups))
    return nullptr;
  const int64_t batch = x->shape[0], channels = x->shape[1], outputs = w->shape[0], taps = s.taps(),
                k = channels / groups * taps, m = outputs / groups;
  if (!isByte(x) || !isByte(w) || (zeroX && (zeroX->type != x->type || zeroX->count != 1)) ||
      (zeroW && (zeroW->type != w->type || (zeroW->count != 1 && count(zeroW) != outputs))))
    return misfit(l, "bytes and zero points of their types, for all or for each output"), nullptr;
  const Shape shape = s.shape(batch, outputs);
  if (k <= MostExact) {
    const auto centered = [&](Value *v, Value *zero) {
      v = cast(l, v, ElementType::Float32);
      Shape each(zero ? v->rank() : 0, 1);
      if (zero)
        each[0] = count(zero);
      return zero ? binary(l, KernelId::SubF32, v, l.view(cast(l, zero, v->type), each)) : v;
    };
    Value *weights = centered(w, zeroW);
    l.planner.foldNode();
    return cast(l, convolve(l, centered(x, zeroX), weights, nullptr, s, groups),
                ElementType::Int32);
  }
  // The windows as rows of a matrix, of the input with its padding.
  Triple in;
  for (size_t i = 0; i < 3; ++i)
    in[i] = s.before[i] + s.in[i] + s.after[i];
  const int64_t zero = 0, plane = in[0] * in[1] * in[2];
  Value *padded = fill(l, x->type, {batch * channels, in[0], in[1], in[2]},
                       zeroX ? zeroX : l.constant(x->type, {}, &zero));
  place(l, padded, l.view(x, {batch * channels, s.in[0], s.in[1], s.in[2]}),
        {0, s.before[0], s.before[1], s.before[2]});
  const Triple apart = {in[1] * in[2], in[2], 1};
  Integers strides{channels * plane};
  Shape lengths{batch};
  for (size_t i = 0; i < 3; ++i) {
    lengths.push_back(s.out[i]);
    strides.push_back(s.strides[i] * apart[i]);
  }
  lengths.push_back(channels / groups);
  strides.push_back(plane);
  for (size_t i = 0; i < 3; ++i) {
    lengths.push_back(s.window[i]);
    strides.push_back(s.dilations[i] * apart[i]);
  }
  const int64_t rows = s.positions();
  Value *y = l.make(ElementType::Int32, {batch, outputs, rows});
  for (int64_t g = 0; g < groups && l.status(); ++g) {
    Value *columns = l.view(strided(l, padded, lengths, strides, g * (channels / groups) * plane),
                            {batch * rows, k});
    Value *zeros =
        zeroW && zeroW->count != 1 ? l.view(zeroW, {m}, static_cast<uint64_t>(g * m)) : zeroW;
    Value *sums = multiplyBytes(l, columns, l.view(w, {m, k}, static_cast<uint64_t>(g * m * k)),
                                zeroX, zeros, nullptr, nullptr, true);
    if (sums)
      place(l, y, transpose(l, l.view(sums, {batch, rows, m}), {0, 2, 1}), {0, g * m, 0});
  }
  return l.view(y, shape);
}

Status give(Lowering &l, Value *y) { return y ? l.give(y) : l.status(); }

Status matMulInteger(Lowering &l) {
  for (const size_t i : {size_t(0), size_t(1)})
    if (l.in(i)->rank() < 2)
      return l.invalid("its matrices are ", toString(l.in(0)->shape), " and ",
                       toString(l.in(1)->shape));
  return give(l, multiplyBytes(l, l.in(0), l.in(1), l.in(2), l.in(3), nullptr, nullptr));
}

Status qLinearMatMul(Lowering &l) {
  Value *scale = l.in(6), *zero = l.in(7);
  if (scale->count != 1 || zero->count != 1 || l.in(1)->count != 1)
    return l.unsupported("scales for each row");
  if (!isByte(zero))
    return l.unsupported("a product of the type ", name(zero->type));
  Value *y =
      multiplyBytes(l, l.in(0), l.in(3), l.in(2), l.in(5), scaleOf(l, l.in(1), l.in(4)), nullptr);
  return y ? l.give(quantize(l, y, scale, zero, zero->type)) : l.status();
}

Status convInteger(Lowering &l) {
  return give(l, convolveBytes(l, l.in(0), l.in(1), l.in(2), l.in(3)));
}

/// {X, scale, zero, W, scale, zero, scale of the result, zero of the result, bias?}
Status qLinearConv(Lowering &l) {
  Value *scale = l.in(6), *zero = l.in(7), *bias = l.in(8);
  Value *y = convolveBytes(l, l.in(0), l.in(3), l.in(2), l.in(5));
  if (!y)
    return l.status();
  const int64_t outputs = y->shape[1];
  if (scale->count != 1 || zero->count != 1 || l.in(1)->count != 1 || !isByte(zero) ||
      (l.in(4)->count != 1 && count(l.in(4)) != outputs) ||
      (bias && (bias->type != y->type || bias->shape != Shape{outputs})))
    return misfit(l, "scales and zero points of one number, those of weights for each output, too, "
                     "and an int32 bias for each");
  Shape each(y->rank(), 1);
  each[1] = outputs;
  if (bias)
    y = integerBinary(l, IntegerOp::Add, y, l.view(bias, each));
  each[1] = count(l.in(4));
  y = binary(l, KernelId::MulF32, cast(l, y, ElementType::Float32),
             l.view(scaleOf(l, l.in(1), l.in(4)), each));
  return l.give(quantize(l, y, scale, zero, zero->type));
}

// ---- of ONNX Runtime ----------------------------------------------------------------------------

Status matMulIntegerToFloat(Lowering &l) {
  return give(l, multiplyBytes(l, l.in(0), l.in(1), l.in(4), l.in(5), scaleOf(l, l.in(2), l.in(3)),
                               l.in(6)));
}

Status dynamicQuantizeMatMul(Lowering &l) {
  const Quantized a = quantizeByRange(l, l.in(0));
  return give(
      l, multiplyBytes(l, a.x, l.in(1), a.zero, l.in(3), scaleOf(l, a.scale, l.in(2)), l.in(4)));
}

Status qGemm(Lowering &l) {
  Value *c = l.in(6), *scale = l.in(7), *zero = l.in(8);
  if (l.integer("transA", 0) != 0 || l.real("alpha", 1) != 1)
    return l.unsupported("transA, or alpha other than 1");
  Value *factor = scaleOf(l, l.in(1), l.in(4)), *bias = nullptr;
  if (c) // it has the scale of the sums
    bias = binary(l, KernelId::MulF32, cast(l, c, ElementType::Float32), factor);
  Value *y = multiplyBytes(l, l.in(0), l.in(3), l.in(2), l.in(5), factor, bias,
                           l.integer("transB", 0) != 0);
  if (y && scale && (scale->count != 1 || (zero && !isByte(zero))))
    return l.unsupported("a scale for each row, or a zero point that is no byte");
  if (y && scale)
    y = quantize(l, y, scale, zero, zero ? zero->type : ElementType::UInt8);
  return give(l, y);
}

/// The operator that has this name without "QLinear", on the floats that bytes stand for. Each
/// operand has a scale and a zero; those of the result come last, or first.
template <bool IsFirst> Status qLinear(Lowering &l) {
  const Values given = l.inputs;
  const size_t result = IsFirst ? 0 : (given.size() - 1) / 3 * 3, from = IsFirst ? 2 : 0;
  const size_t end = IsFirst ? given.size() : result;
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] && given[i]->count != 1 && (i < from || i >= end || (i - from) % 3))
      return l.unsupported("scales that aren't scalars");
  const std::string_view name = l.node.op.substr(std::string_view("QLinear").size());
  const Operator *op = findOperator("", name, l.integer("opset", 13));
  if (!op || l.integer("channels_last", 0) != 0 || (end - from) % 3)
    return l.unsupported("this way of it");
  l.inputs.clear();
  for (size_t i = from; i < end; i += 3)
    l.inputs.push_back(dequantize(l, given[i], given[i + 1], given[i + 2]));
  if (!l.status() || !op->lower(l))
    return l.status();
  Value *zero = result + 1 < given.size() ? given[result + 1] : nullptr;
  return l.give(quantize(l, l.results[0], given[result], zero, (zero ? zero : given[from])->type));
}

constexpr Operator Table[] = {
    {"QuantizeLinear", 10, "TAa", Real16 | Real32 | Ints, 1, true, quantizeLinear,
     "axis block_size output_dtype precision saturate"},
    {"DequantizeLinear", 10, "TAt", Whole, 1, false, dequantizeLinear,
     "axis block_size output_dtype"},
    {"DynamicQuantizeLinear", 11, "T", Real32, 3, false, dynamicQuantizeLinear},
    {"MatMulInteger", 10, "AAaa", Fixed, 1, false, matMulInteger},
    {"ConvInteger", 10, "AAaa", Fixed, 1, false, convInteger, MLBRIDGE_WINDOW " group"},
    {"QLinearConv", 10, "AAAAAAAAa", Fixed, 1, false, qLinearConv, MLBRIDGE_WINDOW " group"},
    {"QLinearMatMul", 10, "AAAAAAAA", Fixed, 1, true, qLinearMatMul},
};
constexpr Operator RuntimeTable[] = {
    {"QuantizeLinear", 1, "TAa", Real16 | Real32, 1, true, quantizeLinear, "axis"},
    {"DequantizeLinear", 1, "TAt", Whole, 1, false, dequantizeLinear, "axis"},
    {"MatMulIntegerToFloat", 1, "AAAAaaa", Fixed, 1, false, matMulIntegerToFloat},
    {"DynamicQuantizeMatMul", 1, "TATat", Real32, 1, false, dynamicQuantizeMatMul},
    {"QGemm", 1, "AAAAAAaaa", Fixed, 1, false, qGemm, "alpha transA transB"},
    {"QLinearAdd", 1, "AAaAAaAa", Fixed, 1, false, qLinear<false>},
    {"QLinearMul", 1, "AAaAAaAa", Fixed, 1, false, qLinear<false>},
    {"QLinearSigmoid", 1, "AAaAa", Fixed, 1, false, qLinear<false>},
    {"QLinearLeakyRelu", 1, "AAaAa", Fixed, 1, false, qLinear<false>, "alpha"},
    {"QLinearSoftmax", 1, "AAaAa", Fixed, 1, false, qLinear<false>, "axis opset"},
    {"QLinearAveragePool", 1, "AAaAa", Fixed, 1, false, qLinear<false>,
     MLBRIDGE_WINDOW " ceil_mode channels_last count_include_pad"},
    {"QLinearGlobalAveragePool", 1, "AAaAa", Fixed, 1, false, qLinear<false>, "channels_last"},
    {"QLinearConcat", 1, "AAAAA*", Fixed, 1, false, qLinear<true>, "axis"},
};

} // namespace

Value *quantizedProduct(Lowering &l, Value *a, Value *b, bool isTransposed, Value *bias) {
  constexpr int64_t MostRows = 1 << 15; // whose sums don't wrap
  if (!a->quantized || !b->quantized || a->scale->count != 1 || !a->scale->isConstant() ||
      !b->scale->isConstant() || a->rank() == 0 || a->shape.back() > MostRows)
    return nullptr;
  const auto last = static_cast<int64_t>(b->rank()) - 1;
  if (b->scale->count != 1 && (b->rank() != 2 || b->scaledAxis != (isTransposed ? 0 : last)))
    return nullptr;
  const int64_t n = b->rank() == 0 ? 0 : b->shape[static_cast<size_t>(isTransposed ? 0 : last)];
  if (bias && bias->count != 1 && count(bias) != n)
    return nullptr;
  Value *scale = scaleOf(l, a->scale, b->scale);
  const auto *scales = reinterpret_cast<const float *>(scale->constantBytes());
  for (size_t i = 0; i < scale->count; ++i)
    if (!std::isfinite(scales[i])) // a zero times that is no zero
      return nullptr;
  return multiplyBytes(l, a->quantized, b->quantized, a->zero, b->zero, scale, bias, isTransposed);
}

Value *fuseIntoBytes(Lowering &l, Value *x, Value *scale, Value *bias) {
  const Planner::Draft *step = l.planner.onlyProducer(x);
  if (!step || step->kernel != KernelId::IntegerGemm)
    return nullptr;
  Value *other = scale ? scale : bias;
  Integers p = step->parameters;
  if (bool(p[IsFloat]) != bool(other))
    return nullptr;
  Values reads(step->operands.begin() + 1, step->operands.end());
  if (other) {
    const int64_t n = other->rank() ? other->shape.back() : 1;
    if (other->type != ElementType::Float32 || other->rank() > x->rank() || count(other) != n ||
        (n != 1 && n != p[2]) || step->operands[BiasOperand] ||
        (scale && step->operands[ScaleOperand]))
      return nullptr;
    reads[(scale ? ScaleOperand : BiasOperand) - 1] = other;
    p[scale ? ScaleStride : BiasStride] = n != 1;
  }
  p[IsFloat] = 1;
  Value *y = l.make(ElementType::Float32, x->shape); // of x nothing is read any more
  l.emit(KernelId::IntegerGemm, {y}, reads, p);
  return y;
}

const Span<const Operator> QuantizedOperators = Table;
const Span<const Operator> RuntimeQuantizedOperators = RuntimeTable;

} // namespace mlbridge::native
