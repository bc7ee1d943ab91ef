// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of com.microsoft: what ONNX Runtime makes of several nodes when it optimizes a model.
#include "engine/native/operators/spatial.h"

#include <limits>

namespace mlbridge::native {
namespace {

/// As in the enumeration, and the parameters if the attributes are missing.
constexpr const char *Activations =
    "None Affine Clip Elu HardSigmoid LeakyRelu Relu Selu Sigmoid Softplus Softsign Tanh "
    "ThresholdedRelu";
constexpr float Most = std::numeric_limits<float>::max();
constexpr float Fallback[][2] = {
    {0, 0},        {1, 0},
    {-Most, Most}, {1, 0},
    {0.2F, 0.5F},  {0.01F, 0},
    {0, 0},        {1.67326319217681884765625F, 1.05070102214813232421875F},
    {0, 0},        {0, 0},
    {0, 0},        {0, 0},
    {1, 0}};

Status activated(Lowering &l, Value *y, int which, double alpha, double beta) {
  const auto activation = static_cast<Activation>(which);
  if (activation == Activation::None)
    return l.give(y);
  y->uses = 1; // by this node
  const bool isFused = fuseActivation(l, y, activation, alpha, beta);
  return l.give(isFused ? y : unary(l, kernelOf(activation), y, alpha, beta));
}

Status fusedGemm(Lowering &l) {
  const int which = choice(l, "activation", Activations);
  if (!gemm(l))
    return l.status();
  const bool isSelu = which == number(Activation::Selu);
  return activated(l, l.results[0], which, l.real("activation_alpha", Fallback[which][0]),
                   l.real(isSelu ? "activation_gamma" : "activation_beta", Fallback[which][1]));
}

/// A convolution, plus a tensor, in an activation.
Status fusedConv(Lowering &l) {
  Sliding s;
  int64_t groups = 0;
  if (!readConvolution(l, l.in(0), l.in(1), l.in(2), s, groups))
    return l.status();
  Value *y = convolve(l, l.in(0), l.in(1), l.in(2), s, groups);
  if (l.in(3))
    y = binary(l, KernelId::AddF32, y, l.in(3));
  const int which = choice(l, "activation", Activations);
  const std::vector<float> &given = l.reals("activation_params");
  const float *parameters = given.size() == 2 ? given.data() : Fallback[which];
  return activated(l, y, which, given.size() == 1 ? given[0] : parameters[0], parameters[1]);
}

/// The dimension before all matrices goes among their own; then the matrices are transposed.
Value *transposed(Lowering &l, Value *x, bool ofBatch, bool ofMatrix) {
  Integers order = allAxes(x->rank());
  if (ofBatch && x->rank() > 2)
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (ofMatrix && x->rank() > 1)
    std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(l, x, order);
}

Status fusedMatMul(Lowering &l) {
  const auto has = [&](const char *name) { return l.integer(name, 0) != 0; };
  Value *a = transposed(l, l.in(0), has("transBatchA"), has("transA"));
  Value *b = transposed(l, l.in(1), has("transBatchB"), false);
  return l.give(matmul(l, a, b, has("transB"), l.real("alpha", 1)));
}

/// x plus a bias, which may be null.
Value *biased(Lowering &l, Value *x, Value *bias) {
  return !bias || fuseBias(l, x, bias) ? x : binary(l, KernelId::AddF32, x, bias);
}
template <KernelId Kernel> Status gelu(Lowering &l) {
  return l.give(unary(l, Kernel, biased(l, l.in(0), l.in(1))));
}
Status quickGelu(Lowering &l) {
  return l.give(unary(l, KernelId::SwishF32, l.in(0), l.real("alpha", 1.702F)));
}

template <bool IsRms> Status skipNormalization(Lowering &l) {
  Value *x = l.in(0), *scale = l.in(2), *beta = IsRms ? nullptr : l.in(3);
  Value *bias = l.in(IsRms ? 3 : 4);
  Value *sum = binary(l, KernelId::AddF32, x, l.in(1));
  if (bias)
    sum = binary(l, KernelId::AddF32, sum, bias);
  const int64_t n = x->rank() ? x->shape.back() : -1;
  if (!l.status())
    return l.status();
  if (sum->shape != x->shape || count(scale) != n || (beta && count(beta) != n))
    return misfit(l, "a skip like the input, and a scale, beta and bias of its last dimension");
  const int64_t rows = n ? count(x) / n : 0, epsilon = real(l.real("epsilon", 1e-12F));
  Value *y = l.output(0, x->type, x->shape);
  l.setResult(3, sum);
  if (IsRms)
    return l.emit(pick(KernelId::RmsNormF32, x->type), {y}, {sum, scale}, {rows, n, epsilon});
  Shape one = x->shape;
  one.back() = 1;
  Value *mean = l.wants(1) ? l.output(1, x->type, one) : nullptr;
  Value *inverse = l.wants(2) ? l.output(2, x->type, one) : nullptr;
  return l.emit(pick(KernelId::LayerNormF32, x->type), {y, mean, inverse}, {sum, scale, beta},
                {rows, n, epsilon});
}

constexpr Operator Table[] = {
    {"FusedGemm", 1, "TTt", Reals, 1, true, fusedGemm,
     "activation activation_alpha activation_beta activation_gamma alpha beta transA transB"},
    {"FusedConv", 1, "TTtt", Real16 | Real32, 1, true, fusedConv,
     MLBRIDGE_WINDOW " activation activation_params group"},
    {"FusedMatMul", 1, "TT", Reals, 1, true, fusedMatMul,
     "alpha transA transB transBatchA transBatchB"},
    {"Gelu", 1, "T", Reals, 1, true, gelu<KernelId::GeluF32>},
    {"BiasGelu", 1, "TT", Reals, 1, true, gelu<KernelId::GeluF32>},
    {"FastGelu", 1, "Tt", Reals, 1, true, gelu<KernelId::GeluTanhF32>},
    {"QuickGelu", 1, "T", Reals, 1, true, quickGelu, "alpha"},
    {"SkipLayerNormalization", 1, "TTTtt", Reals, 4, true, skipNormalization<false>, "epsilon"},
    {"SkipSimplifiedLayerNormalization", 1, "TTTt", Reals, 4, true, skipNormalization<true>,
     "epsilon"},
};

} // namespace

const Span<const Operator> FusedOperators = Table;

} // namespace mlbridge::native
