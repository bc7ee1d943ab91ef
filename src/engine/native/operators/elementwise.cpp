// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators that compute each element from those at the same place.
#include "engine/native/operators/common.h"

#include <cmath>

namespace mlbridge::native {
namespace {

/// The activation that Gemm can apply itself, or None.
constexpr Activation activationOf(KernelId kernel) {
  switch (kernel) {
#define MLBRIDGE_CASE(Name)                                                                        \
  case KernelId::Name##F32:                                                                        \
    return Activation::Name;
    MLBRIDGE_NATIVE_ACTIVATIONS(MLBRIDGE_CASE)
#undef MLBRIDGE_CASE
  default:
    return Activation::None;
  }
}

Status activate(Lowering &l, KernelId kernel, double alpha = 0, double beta = 0) {
  Value *x = l.in(0);
  const Activation activation = activationOf(kernel);
  if (activation != Activation::None && fuseActivation(l, x, activation, alpha, beta))
    return l.give(x);
  return l.give(unary(l, kernel, x, alpha, beta));
}

template <KernelId Kernel> Status simple(Lowering &l) { return activate(l, Kernel); }

Status celu(Lowering &l) { return activate(l, KernelId::CeluF32, l.real("alpha", 1)); }
Status elu(Lowering &l) { return activate(l, KernelId::EluF32, l.real("alpha", 1)); }
Status hardSigmoid(Lowering &l) {
  return activate(l, KernelId::HardSigmoidF32, l.real("alpha", 0.2F), l.real("beta", 0.5F));
}
Status leakyRelu(Lowering &l) {
  return activate(l, KernelId::LeakyReluF32, l.real("alpha", 0.01F));
}
Status selu(Lowering &l) {
  return activate(l, KernelId::SeluF32, l.real("alpha", 1.67326319217681884765625F),
                  l.real("gamma", 1.05070102214813232421875F));
}
Status shrink(Lowering &l) {
  return activate(l, KernelId::ShrinkF32, l.real("lambd", 0.5F), l.real("bias", 0));
}
Status swish(Lowering &l) { return activate(l, KernelId::SwishF32, l.real("alpha", 1)); }
Status thresholdedRelu(Lowering &l) {
  return activate(l, KernelId::ThresholdedReluF32, l.real("alpha", 1));
}

/// The operator takes an integer alone.
Value *integerUnary(Lowering &l, IntegerOp op, Value *x) {
  if (isIn(x->type, UInts)) {
    const int64_t one = 1;
    return op == IntegerOp::Abs
               ? x
               : integerBinary(l, IntegerOp::Min, x, l.constant(x->type, {}, &one));
  }
  return integerBinary(l, op, x, x);
}
Status abs(Lowering &l) {
  Value *x = l.in(0);
  return l.give(isIn(x->type, Reals) ? absolute(l, x) : integerUnary(l, IntegerOp::Abs, x));
}
Status sign(Lowering &l) {
  Value *x = l.in(0);
  return l.give(isFloat(x->type) ? unary(l, KernelId::SignF32, x)
                                 : integerUnary(l, IntegerOp::Sign, x));
}
Status neg(Lowering &l) {
  Value *x = l.in(0);
  const int64_t zero = 0;
  return l.give(isIn(x->type, Reals)
                    ? negate(l, x)
                    : integerBinary(l, IntegerOp::Sub, l.constant(x->type, {}, &zero), x));
}
Status invert(Lowering &l) {
  Value *x = l.in(0);
  const int64_t all = -1;
  return l.give(integerBinary(l, IntegerOp::Xor, x, l.constant(x->type, {}, &all)));
}
Status notNode(Lowering &l) { return l.give(logicalNot(l, l.in(0))); }

Status isNan(Lowering &l) {
  Value *x = l.in(0);
  if (x->type == ElementType::Float16)
    return l.give(broadcasted(l, KernelId::Compare, ElementType::Bool,
                              {absolute(l, x), infinity(l, x->type)},
                              {number(CompareOp::Greater), bitsOf(x)}));
  return l.give(logicalNot(l, compare(l, CompareOp::Equal, x, x)));
}

/// A tensor of the first input's shape.
Value *allOf(Lowering &l, uint8_t truth) {
  return fill(l, ElementType::Bool, l.in(0)->shape, l.constant(ElementType::Bool, {}, &truth));
}

Status isInf(Lowering &l) {
  const bool negative = l.integer("detect_negative", 1) != 0;
  const bool positive = l.integer("detect_positive", 1) != 0;
  if (!negative && !positive)
    return l.give(allOf(l, 0));
  Value *x = l.in(0);
  if (x->type == BFloat16)
    x = cast(l, x, ElementType::Float32);
  if (negative && positive)
    x = absolute(l, x);
  return l.give(broadcasted(l, KernelId::Compare, ElementType::Bool,
                            {x, infinity(l, x->type, !positive)},
                            {number(CompareOp::Equal), bitsOf(x)}));
}

Status relu(Lowering &l) {
  Value *x = l.in(0);
  if (isFloat(x->type))
    return activate(l, KernelId::ReluF32);
  const int64_t zero = 0;
  return l.give(integerBinary(l, IntegerOp::Max, x, l.constant(x->type, {}, &zero)));
}

Status gelu(Lowering &l) {
  const std::string_view approximate = l.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return l.invalid("its attribute 'approximate' is '", approximate, "'");
  return activate(l, approximate == "tanh" ? KernelId::GeluTanhF32 : KernelId::GeluF32);
}

template <KernelId Kernel, IntegerOp Op> Status arithmeticNode(Lowering &l) {
  return l.give(arithmetic(l, Kernel, Op, l.in(0), l.in(1)));
}

Status add(Lowering &l) {
  Value *a = l.in(0), *b = l.in(1);
  Value *sum = fuseIntoBytes(l, a, nullptr, b);
  if (!sum)
    sum = fuseIntoBytes(l, b, nullptr, a);
  if (sum)
    return l.give(sum);
  if (isFloat(a->type) && fuseBias(l, a, b))
    return l.give(a);
  if (isFloat(a->type) && fuseBias(l, b, a))
    return l.give(b);
  return arithmeticNode<KernelId::AddF32, IntegerOp::Add>(l);
}

Status mul(Lowering &l) {
  Value *a = l.in(0), *b = l.in(1);
  Value *product = fuseIntoBytes(l, a, b, nullptr);
  if (!product)
    product = fuseIntoBytes(l, b, a, nullptr);
  if (product)
    return l.give(product);
  return arithmeticNode<KernelId::MulF32, IntegerOp::Mul>(l);
}

Status pow(Lowering &l) {
  Value *x = l.in(0), *exponent = l.in(1);
  if (!isFloat(x->type) && !isFloat(exponent->type))
    return l.give(integerBinary(l, IntegerOp::Pow, x, cast(l, exponent, x->type)));
  if (isFloat(x->type) && exponent->isConstant() && exponent->count == 1 &&
      exponent->rank() <= x->rank()) {
    double e = 0;
    // x^0.5 is no square root: of -inf and -0 that would be NaN and -0 instead of inf and 0.
    if (l.read(exponent, e) && e == 2)
      return l.give(unary(l, KernelId::SquareF32, x));
  }
  const ElementType type = isFloat(x->type) ? x->type : ElementType::Float64;
  Value *power = binary(l, KernelId::PowF32, cast(l, x, type), cast(l, exponent, type));
  return l.give(cast(l, power, x->type));
}

Status mod(Lowering &l) {
  Value *a = l.in(0), *b = l.in(1);
  const bool signOfA = l.integer("fmod", 0) != 0;
  if (!isFloat(a->type)) {
    return l.give(integerBinary(l, signOfA ? IntegerOp::Rem : IntegerOp::Mod, a, b));
  }
  return l.give(broadcasted(l, KernelId::Fmod, a->type, {a, b}, {code(a->type), !signOfA}));
}

Status bitShift(Lowering &l) {
  const std::string_view direction = l.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return l.invalid("its attribute 'direction' is '", direction, "'");
  return l.give(integerBinary(l, direction == "LEFT" ? IntegerOp::ShiftLeft : IntegerOp::ShiftRight,
                              l.in(0), l.in(1)));
}

template <IntegerOp Op> Status wholeBinary(Lowering &l) {
  return l.give(integerBinary(l, Op, l.in(0), l.in(1)));
}

template <CompareOp Op> Status compareNode(Lowering &l) {
  return l.give(compare(l, Op, l.in(0), l.in(1)));
}

/// Max, Min, Sum, Mean of any number of inputs.
template <KernelId Kernel, IntegerOp Op> Value *folded(Lowering &l) {
  Value *y = l.in(0);
  for (size_t i = 1; i < l.inputs.size() && l.planner.status(); ++i)
    y = arithmetic(l, Kernel, Op, y, l.in(i));
  return y;
}
template <KernelId Kernel, IntegerOp Op> Status variadic(Lowering &l) {
  return l.give(folded<Kernel, Op>(l));
}
Status mean(Lowering &l) {
  Value *sum = folded<KernelId::AddF32, IntegerOp::Add>(l);
  return l.give(binary(l, KernelId::DivF32, sum,
                       l.constantReal(sum->type, static_cast<double>(l.inputs.size()))));
}

Status clipTo(Lowering &l, Value *least, Value *greatest) {
  Value *x = l.in(0);
  for (const Value *bound : {least, greatest})
    if (bound && bound->count != 1)
      return l.invalid("a bound has ", bound->count, " elements instead of 1");
  double from = -HUGE_VAL, to = HUGE_VAL;
  const auto isKnown = [&](Value *bound, double &number) {
    return !bound || (bound->isConstant() && l.read(bound, number) && !std::isnan(number));
  };
  if (isFloat(x->type) && isKnown(least, from) && isKnown(greatest, to))
    return activate(l, KernelId::ClampF32, from, to);
  if (least)
    x = arithmetic(l, KernelId::MaxF32, IntegerOp::Max, x, l.view(least, {}));
  if (greatest)
    x = arithmetic(l, KernelId::MinF32, IntegerOp::Min, x, l.view(greatest, {}));
  return l.give(x);
}
Status clip(Lowering &l) { return clipTo(l, l.in(1), l.in(2)); }
/// Until version 10 the bounds were attributes.
Status clipByAttributes(Lowering &l) {
  const auto bound = [&](const char *name) {
    return l.attribute(name) ? l.constantReal(l.in(0)->type, l.real(name, 0)) : nullptr;
  };
  return clipTo(l, bound("min"), bound("max"));
}

Status whereNode(Lowering &l) {
  if (l.in(1)->type != l.in(2)->type)
    return l.invalid("it chooses between different types");
  return l.give(where(l, l.in(0), l.in(1), l.in(2)));
}

Status castNode(Lowering &l) {
  const auto to = onnx::elementType(static_cast<onnx::DataType>(l.integer("to", 0)));
  if (!to)
    return l.unsupported("to the type ",
                         onnx::name(static_cast<onnx::DataType>(l.integer("to", 0))));
  if (*to == ElementType::Float32)
    if (Value *product = fuseIntoBytes(l, l.in(0), nullptr, nullptr))
      return l.give(product);
  return l.give(cast(l, l.in(0), *to));
}

Status castLike(Lowering &l) { return l.give(cast(l, l.in(0), l.in(1)->type)); }

/// The bytes stay. As a bool, which is 0 or 1, any other byte is 1.
Status bitCast(Lowering &l) {
  Value *x = l.in(0);
  const auto wanted = static_cast<onnx::DataType>(l.integer("to", 0));
  const auto to = onnx::elementType(wanted);
  if (!to || !isIn(*to, Fixed))
    return l.unsupported("to the type ", onnx::name(wanted));
  if (sizeOf(*to) != sizeOf(x->type))
    return l.invalid(name(x->type), " and ", name(*to), " don't have the same size");
  if (*to == ElementType::Bool) {
    l.setResult(0, cast(l, x, *to));
    return l.status();
  }
  Value *y = l.output(0, *to, x->shape);
  l.emit(KernelId::Copy, {y}, {x}, {count(x) * width(x)});
  return l.status();
}

/// The identity, outside of training.
Status dropout(Lowering &l) {
  if (l.in(2)) {
    double training = 1;
    if (l.in(2)->isConstant() && !l.read(l.in(2), training))
      return l.status();
    if (training != 0)
      return l.unsupported("Dropout in training mode, which is random (export the model in "
                           "evaluation mode, after model.eval())");
  }
  if (l.wants(1))
    l.setResult(1, allOf(l, 1));
  return l.give(l.in(0));
}

Status identity(Lowering &l) { return l.give(l.in(0)); }

Status prelu(Lowering &l) {
  Value *x = l.in(0), *slope = l.in(1);
  if (isFloat(x->type))
    return l.give(binary(l, KernelId::PReluF32, x, slope));
  const int64_t zero = 0;
  Value *negative = compare(l, CompareOp::Less, x, l.constant(x->type, {}, &zero));
  return l.give(where(l, negative, integerBinary(l, IntegerOp::Mul, x, slope), x));
}

#define MLBRIDGE_SIMPLE(name, since)                                                               \
  {#name, since, "T", Reals, 1, true, simple<KernelId::name##F32>}

constexpr Operator Table[] = {
    MLBRIDGE_SIMPLE(Acos, 7),
    MLBRIDGE_SIMPLE(Acosh, 9),
    MLBRIDGE_SIMPLE(Asin, 7),
    MLBRIDGE_SIMPLE(Asinh, 9),
    MLBRIDGE_SIMPLE(Atan, 7),
    MLBRIDGE_SIMPLE(Atanh, 9),
    MLBRIDGE_SIMPLE(Ceil, 1),
    MLBRIDGE_SIMPLE(Cos, 7),
    MLBRIDGE_SIMPLE(Cosh, 9),
    MLBRIDGE_SIMPLE(Erf, 9),
    MLBRIDGE_SIMPLE(Exp, 1),
    MLBRIDGE_SIMPLE(Floor, 1),
    MLBRIDGE_SIMPLE(HardSwish, 14),
    MLBRIDGE_SIMPLE(Log, 1),
    MLBRIDGE_SIMPLE(Mish, 18),
    MLBRIDGE_SIMPLE(Reciprocal, 1),
    MLBRIDGE_SIMPLE(Round, 11),
    MLBRIDGE_SIMPLE(Sigmoid, 1),
    MLBRIDGE_SIMPLE(Sin, 7),
    MLBRIDGE_SIMPLE(Sinh, 9),
    MLBRIDGE_SIMPLE(Softplus, 1),
    MLBRIDGE_SIMPLE(Softsign, 1),
    MLBRIDGE_SIMPLE(Sqrt, 1),
    MLBRIDGE_SIMPLE(Tan, 7),
    MLBRIDGE_SIMPLE(Tanh, 1),
    {"Celu", 1, "T", Reals, 1, true, celu, "alpha"},
    {"Elu", 1, "T", Reals, 1, true, elu, "alpha"},
    {"HardSigmoid", 1, "T", Reals, 1, true, hardSigmoid, "alpha beta"},
    {"LeakyRelu", 1, "T", Reals, 1, true, leakyRelu, "alpha"},
    {"Selu", 1, "T", Reals, 1, true, selu, "alpha gamma"},
    {"Shrink", 1, "T", Reals, 1, true, shrink, "lambd bias"},
    {"Swish", 1, "T", Reals, 1, true, swish, "alpha"},
    {"ThresholdedRelu", 1, "T", Reals, 1, true, thresholdedRelu, "alpha"},
    {"Abs", 1, "T", Numbers, 1, false, abs},
    {"Neg", 1, "T", Signed, 1, false, neg},
    {"Sign", 9, "T", Numbers, 1, true, sign},
    {"Relu", 1, "T", Signed, 1, true, relu},
    {"Gelu", 20, "T", Reals, 1, true, gelu, "approximate"},
    {"PRelu", 7, "TT", Numbers, 1, true, prelu},
    {"Not", 1, "T", Bools, 1, false, notNode},
    {"BitwiseNot", 18, "T", Whole, 1, false, invert},
    {"IsNaN", 9, "T", Reals, 1, false, isNan},
    {"IsInf", 10, "T", Reals, 1, false, isInf, "detect_negative detect_positive"},

    {"Add", 7, "TT", Numbers, 1, true, add},
    {"Sub", 7, "TT", Numbers, 1, true, arithmeticNode<KernelId::SubF32, IntegerOp::Sub>},
    {"Mul", 7, "TT", Numbers, 1, true, mul},
    {"Div", 7, "TT", Numbers, 1, true, arithmeticNode<KernelId::DivF32, IntegerOp::Div>},
    {"Pow", 7, "TU", Numbers, 1, true, pow},
    {"Mod", 10, "TT", Numbers, 1, true, mod, "fmod"},
    {"BitShift", 11, "TT", UInts, 1, false, bitShift, "direction"},
    {"BitShift", 28, "TT", Whole, 1, false, bitShift, "direction"},
    {"BitwiseAnd", 18, "TT", Whole, 1, false, wholeBinary<IntegerOp::And>},
    {"BitwiseOr", 18, "TT", Whole, 1, false, wholeBinary<IntegerOp::Or>},
    {"BitwiseXor", 18, "TT", Whole, 1, false, wholeBinary<IntegerOp::Xor>},
    {"And", 7, "TT", Bools, 1, false, wholeBinary<IntegerOp::And>},
    {"Or", 7, "TT", Bools, 1, false, wholeBinary<IntegerOp::Or>},
    {"Xor", 7, "TT", Bools, 1, false, wholeBinary<IntegerOp::Xor>},
    {"Equal", 7, "TT", Fixed, 1, false, compareNode<CompareOp::Equal>},
    {"Less", 7, "TT", Numbers, 1, false, compareNode<CompareOp::Less>},
    {"LessOrEqual", 12, "TT", Numbers, 1, false, compareNode<CompareOp::LessOrEqual>},
    {"Greater", 7, "TT", Numbers, 1, false, compareNode<CompareOp::Greater>},
    {"GreaterOrEqual", 12, "TT", Numbers, 1, false, compareNode<CompareOp::GreaterOrEqual>},
    {"Max", 8, "T*", Numbers, 1, true, variadic<KernelId::MaxF32, IntegerOp::Max>},
    {"Min", 8, "T*", Numbers, 1, true, variadic<KernelId::MinF32, IntegerOp::Min>},
    {"Sum", 8, "T*", Reals, 1, true, variadic<KernelId::AddF32, IntegerOp::Add>},
    {"Mean", 8, "T*", Reals, 1, true, mean},
    {"Clip", 6, "T", Reals, 1, true, clipByAttributes, "min max"},
    {"Clip", 11, "Ttt", Numbers, 1, true, clip},
    {"Where", 9, "BUU", Fixed, 1, false, whereNode},
    {"Cast", 6, "A", Fixed, 1, false, castNode, "to saturate round_mode"},
    {"CastLike", 15, "AA", Fixed, 1, false, castLike, "saturate round_mode"},
    {"BitCast", 26, "A", Fixed, 1, false, bitCast, "to"},
    {"Dropout", 7, "Taa", Reals, 2, false, dropout, "ratio seed"},
    {"Identity", 1, "T", Fixed, 1, false, identity},
};

} // namespace

const Span<const Operator> ElementwiseOperators = Table;

} // namespace mlbridge::native
