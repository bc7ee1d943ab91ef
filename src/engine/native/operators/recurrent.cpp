// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LSTM, GRU and RNN: one kernel call for each direction.
#include "engine/native/operators/common.h"

#include "engine/native/kernels/sizes.h"

namespace mlbridge::native {
namespace {

struct Applied {
  Activation activation;
  double alpha, beta;
};

struct Named {
  std::string_view name;
  Applied applied; ///< with the defaults of its parameters
  int parameters;
};
constexpr Named Activations[] = {
    {"relu", {Activation::Relu, 0, 0}, 0},
    {"tanh", {Activation::Tanh, 0, 0}, 0},
    {"sigmoid", {Activation::Sigmoid, 0, 0}, 0},
    {"softsign", {Activation::Softsign, 0, 0}, 0},
    {"softplus", {Activation::Softplus, 0, 0}, 0},
    {"affine", {Activation::Affine, 1, 0}, 2},
    {"hardsigmoid", {Activation::HardSigmoid, 0.2F, 0.5F}, 2},
    {"leakyrelu", {Activation::LeakyRelu, 0.01F, 0}, 1},
    {"thresholdedrelu", {Activation::ThresholdedRelu, 1, 0}, 1},
    {"elu", {Activation::Elu, 1, 0}, 1},
};

bool readActivations(Lowering &l, size_t wanted, std::string_view otherwise,
                     std::string_view otherwiseLater, std::vector<Applied> &out) {
  std::vector<std::string> names;
  if (const onnx::Attribute *attribute = l.attribute("activations"))
    for (const std::string_view text : attribute->texts)
      names.emplace_back(text);
  if (names.empty())
    for (size_t i = 0; i < wanted; ++i)
      names.emplace_back(i == 0 ? otherwise : otherwiseLater);
  if (names.size() < wanted)
    return l.invalid("it has " + std::to_string(names.size()) + " activations");
  const onnx::Attribute *alphas = l.attribute("activation_alpha");
  const onnx::Attribute *betas = l.attribute("activation_beta");
  size_t alpha = 0, beta = 0;
  for (std::string name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const auto *found = std::find_if(std::begin(Activations), std::end(Activations),
                                     [&](const Named &n) { return n.name == name; });
    if (found == std::end(Activations))
      return l.unsupported("the activation " + name);
    Applied applied = found->applied;
    if (found->parameters > 0 && alphas && alpha < alphas->reals.size())
      applied.alpha = static_cast<double>(alphas->reals[alpha++]);
    if (found->parameters > 1 && betas && beta < betas->reals.size())
      applied.beta = static_cast<double>(betas->reals[beta++]);
    out.push_back(applied);
  }
  return true;
}

struct Layer {
  KernelId kernel;
  int64_t gates;
  size_t activations;
  std::string_view first, later;
  bool hasCell;
};

Status recurrent(Lowering &l, const Layer &layer) {
  Value *x = l.in(0), *w = l.in(1), *r = l.in(2), *bias = l.in(3), *lengths = l.in(4);
  Value *h0 = l.in(5), *c0 = layer.hasCell ? l.in(6) : nullptr;
  Value *peepholes = layer.hasCell ? l.in(7) : nullptr;
  const std::string_view direction = l.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return l.invalid("its attribute 'direction' is '" + std::string(direction) + "'");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const bool batchFirst = l.integer("layout", 0) != 0;
  if (x->rank() != 3 || w->rank() != 3 || r->rank() != 3)
    return l.invalid("X, W, R are " + toString(x->shape) + ", " + toString(w->shape) + ", " +
                     toString(r->shape));
  const int64_t steps = x->shape[batchFirst], batch = x->shape[!batchFirst], input = x->shape[2];
  const int64_t hidden = r->shape[2], gates = layer.gates;
  const Shape state =
      batchFirst ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  if (hidden < 1 || hidden > (1 << 24) || w->shape != Shape{directions, gates * hidden, input} ||
      r->shape != Shape{directions, gates * hidden, hidden} ||
      (bias && bias->shape != Shape{directions, 2 * gates * hidden}) ||
      (lengths && (lengths->shape != Shape{batch} || lengths->type != ElementType::Int32)) ||
      (h0 && h0->shape != state) || (c0 && c0->shape != state) ||
      (peepholes && peepholes->shape != Shape{directions, 3 * hidden}))
    return l.invalid("its weights and states don't fit X, W and R of " + toString(x->shape) + ", " +
                     toString(w->shape) + " and " + toString(r->shape));
  if (l.attribute("hidden_size") && l.integer("hidden_size", 0) != hidden)
    return l.invalid("its attribute 'hidden_size' is not " + std::to_string(hidden));
  std::vector<Applied> applied;
  const size_t each = layer.activations;
  for (int64_t d = 0; d < (l.attribute("activations") ? 1 : directions); ++d)
    if (!readActivations(l,
                         l.attribute("activations") ? each * static_cast<size_t>(directions) : each,
                         layer.first, layer.later, applied))
      return l.status();
  const double clip = l.real("clip", 0);
  const int64_t flag =
      l.integer(layer.hasCell ? "input_forget" : "linear_before_reset", 0) != 0 && gates > 1;
  const bool isDouble = x->type == ElementType::Float64;
  const uint64_t size = isDouble ? 8 : 4;

  Value *y = l.output(0, x->type,
                      batchFirst ? Shape{batch, steps, directions, hidden}
                                 : Shape{steps, directions, batch, hidden});
  Value *lastH = l.output(1, x->type, state);
  Value *lastC = layer.hasCell ? l.output(2, x->type, state) : nullptr;
  for (int64_t d = 0; d < directions; ++d) {
    const auto part = [&](Value *value, int64_t elements) {
      return value ? l.view(value, {}, static_cast<uint64_t>(d * elements) * size) : nullptr;
    };
    const int64_t apart = batchFirst ? hidden : batch * hidden;
    const auto packed = [&](Value *weights, int64_t columns) {
      const int64_t elements = isDouble ? packedRecurrentSize<double>(gates, hidden, columns)
                                        : packedRecurrentSize<float>(gates, hidden, columns);
      return l.planner.packed(KernelId::PackRecurrent, {elements},
                              part(weights, gates * hidden * columns),
                              {code(x->type), gates, hidden, columns});
    };
    Value *packedW = packed(w, input), *packedR = packed(r, hidden);
    const int64_t scratch = isDouble ? recurrentWorkspace<double>(gates, steps, batch, hidden)
                                     : recurrentWorkspace<float>(gates, steps, batch, hidden);
    Value *workspace = l.make(x->type, {scratch});
    std::vector<Value *> results{l.wants(0) ? part(y, apart) : nullptr,
                                 l.wants(1) ? part(lastH, apart) : nullptr};
    std::vector<Value *> reads{x,       packedW,        packedR, part(bias, 2 * gates * hidden),
                               lengths, part(h0, apart)};
    if (layer.hasCell) {
      results.push_back(l.wants(2) ? part(lastC, apart) : nullptr);
      reads.insert(reads.end(), {part(c0, apart), part(peepholes, 3 * hidden)});
    }
    reads.push_back(workspace);
    std::vector<int64_t> p{steps,
                           batch,
                           input,
                           hidden,
                           direction == "reverse" || d == 1,
                           batchFirst ? input : batch * input,
                           batchFirst ? steps * input : input,
                           batchFirst ? directions * hidden : directions * batch * hidden,
                           batchFirst ? steps * directions * hidden : hidden,
                           batchFirst ? directions * hidden : hidden,
                           real(clip),
                           flag};
    for (size_t i = 0; i < each; ++i) {
      const Applied &a = applied[static_cast<size_t>(d) * each + i];
      p.insert(p.end(), {number(a.activation), real(a.alpha), real(a.beta)});
    }
    l.emit(pick(layer.kernel, x->type), results, reads, p);
    l.planner.countMultiplyAdds(
        static_cast<uint64_t>(steps * batch * gates * hidden * (input + hidden)));
  }
  return l.status();
}

Status lstm(Lowering &l) {
  return recurrent(l, {KernelId::LstmF32, 4, 3, "sigmoid", "tanh", true});
}
Status gru(Lowering &l) { return recurrent(l, {KernelId::GruF32, 3, 2, "sigmoid", "tanh", false}); }
Status rnn(Lowering &l) { return recurrent(l, {KernelId::RnnF32, 1, 1, "tanh", "tanh", false}); }

constexpr Operator Table[] = {
    {"LSTM", 7, "TTTtattt", Reals, 3, true, lstm},
    {"GRU", 7, "TTTtat", Reals, 2, true, gru},
    {"RNN", 7, "TTTtat", Reals, 2, true, rnn},
};

} // namespace

const Span<const Operator> RecurrentOperators = Table;

} // namespace mlbridge::native
