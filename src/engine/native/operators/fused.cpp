// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of com.microsoft: what ONNX Runtime makes of several nodes when it optimizes a model.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

Status fusedGemm(Lowering &l) {
  struct Known {
    std::string_view name;
    Activation activation;
    float alpha, beta; ///< if the attributes are missing
  };
  constexpr Known Names[] = {
      {"Elu", Activation::Elu, 1, 0},
      {"HardSigmoid", Activation::HardSigmoid, 0.2F, 0.5F},
      {"LeakyRelu", Activation::LeakyRelu, 0.01F, 0},
      {"Relu", Activation::Relu, 0, 0},
      {"Selu", Activation::Selu, 1.67326319217681884765625F, 1.05070102214813232421875F},
      {"Sigmoid", Activation::Sigmoid, 0, 0},
      {"Softplus", Activation::Softplus, 0, 0},
      {"Softsign", Activation::Softsign, 0, 0},
      {"Tanh", Activation::Tanh, 0, 0},
      {"ThresholdedRelu", Activation::ThresholdedRelu, 1, 0}};
  const std::string_view name = l.text("activation", "");
  for (const Known &known : Names)
    if (known.name == name) {
      if (!gemm(l))
        return l.status();
      const bool isSelu = known.activation == Activation::Selu;
      l.results[0]->uses = 1; // by this node
      (void)fuseActivation(l, l.results[0], known.activation,
                           l.real("activation_alpha", known.alpha),
                           l.real(isSelu ? "activation_gamma" : "activation_beta", known.beta));
      return l.status();
    }
  return l.unsupported("the activation '", name, "'");
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
