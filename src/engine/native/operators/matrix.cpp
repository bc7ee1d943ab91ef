// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of matrices, and LSTM, GRU and RNN: one kernel call for each direction. Constant
// matrices are packed once for all plans and runners.
#include "engine/native/operators/common.h"

#include "engine/native/kernels/sizes.h"

#include <cmath>
#include <cstring>

namespace mlbridge::native {
namespace {

/// Positions of Gemm's parameters; Conv and Windows have Applied at the same one.
enum GemmParameter : size_t { CRow = 6, CColumn = 7, Alpha = 8, Beta = 9, Applied = 10 };

/// The right side of a product as Gemm takes it: matrices [k, n] and their strides.
struct RightSide {
  Value *value;
  int64_t stride; ///< as Gemm's parameter
  int64_t apart;  ///< from one matrix to the next
};

/// The right side of `batch` matrices one after the other, for m rows of the left one. Constant
/// ones are packed once and for all; others where that takes less time than it saves. (Of few rows
/// by a transposed matrix the sums are added in another order than of many.)
RightSide rightSide(Lowering &l, Value *b, int64_t m, int64_t k, int64_t n, bool isTransposed,
                    int64_t batch) {
  constexpr int64_t FewDots = 4, FewRowBytes = 256, FewBytes = 1 << 16;
  const bool byColumns = packedByColumns(k, n);
  if (!b->isConstant()) {
    if (byColumns ? isTransposed || n == 1 : isTransposed && m <= FewDots)
      return {b, -k, k * n};
    if (!byColumns && !isTransposed &&
        (m * width(b) <= FewRowBytes || k * n * width(b) <= FewBytes))
      return {b, n, k * n};
  }
  const int64_t size = packedSize(b, k, n);
  return {l.planner.packed(pick(KernelId::PackGemmF32, b->type), {batch, size}, b,
                           {k, n, isTransposed ? 1 : n, isTransposed ? k : 1, batch, k * n}),
          0, size};
}

Refused misfit(Lowering &l, const Value *a, const Value *b) {
  return l.invalid("its matrices ", toString(a->shape), " and ", toString(b->shape),
                   " don't fit each other");
}

/// True if float64 is exact: sums of k products stay below 2^53.
bool isExactAsReal(const Value *a, const Value *b, int64_t k) {
  const auto most = [](const Value *v) {
    double greatest = std::ldexp(1.0, static_cast<int>(8 * sizeOf(v->type)));
    if (sizeOf(v->type) != 4 || !v->isConstant())
      return greatest;
    greatest = 0;
    std::vector<double> numbers(v->count);
    convert(*v, v->constantBytes(), ElementType::Float64, numbers.data());
    for (const double number : numbers)
      greatest = std::max(greatest, std::fabs(number));
    return greatest;
  };
  return most(a) * most(b) * static_cast<double>(k) <= 0x1p53;
}

/// Wraps, as all sums and products of integers do.
Value *integerProduct(Lowering &l, Value *a, Value *b) {
  const int64_t k = a->rank() ? a->shape.back() : 0;
  if (sizeOf(a->type) < 4 || (sizeOf(a->type) == 4 && isExactAsReal(a, b, k))) {
    constexpr ElementType Wide = ElementType::Float64;
    Value *wideB =
        l.planner.packed(KernelId::Cast, Wide, b->shape, b, {code(b->type), code(Wide), count(b)});
    return cast(l, matmul(l, cast(l, a, Wide), wideB), a->type);
  }
  return matmul(l, a, b);
}

Status integerGemm(Lowering &l, Value *a, Value *b, double alpha, double beta) {
  constexpr double Most = 0x1p53;
  for (const double factor : {alpha, beta})
    if (factor != std::floor(factor) || !(std::fabs(factor) <= Most))
      return l.unsupported("a product of integers times ", factor);
  const auto times = [&](Value *x, double factor) {
    const auto whole = static_cast<int64_t>(factor);
    return factor == 1 ? x : integerBinary(l, IntegerOp::Mul, x, l.constant(x->type, {}, &whole));
  };
  Value *y = times(integerProduct(l, a, b), alpha);
  if (Value *c = l.in(2); c && beta != 0)
    y = integerBinary(l, IntegerOp::Add, y, times(c, beta));
  return l.give(y);
}

} // namespace

int64_t packedSize(const Value *b, int64_t k, int64_t n) {
  return b->type == ElementType::Float64 ? packedGemmSize<double>(k, n)
                                         : packedGemmSize<float>(k, n);
}

Status gemm(Lowering &l) {
  Value *a = l.in(0), *b = l.in(1), *c = l.in(2);
  if (a->rank() != 2 || b->rank() != 2)
    return l.invalid("its matrices are ", toString(a->shape), " and ", toString(b->shape));
  const bool transA = l.integer("transA", 0) != 0, transB = l.integer("transB", 0) != 0;
  const int64_t m = a->shape[transA], k = a->shape[!transA];
  const int64_t n = b->shape[!transB];
  if (b->shape[transB] != k)
    return misfit(l, a, b);
  int64_t cRow = 0, cColumn = 0;
  if (c) {
    const int64_t rows = c->rank() > 1 ? c->shape[c->rank() - 2] : 1;
    const int64_t columns = c->rank() > 0 ? c->shape[c->rank() - 1] : 1;
    if (c->rank() > 2 || (rows != 1 && rows != m) || (columns != 1 && columns != n))
      return l.invalid("C is ", toString(c->shape), " for a result of [", m, ", ", n, "]");
    cRow = rows == 1 ? 0 : columns;
    cColumn = columns == 1 ? 0 : 1;
  }
  const double alpha = l.real("alpha", 1), beta = l.real("beta", 1);
  if (beta == 0)
    c = nullptr; // even where it is NaN
  if (!isFloat(a->type))
    return integerGemm(l, transA ? transpose(l, a, {1, 0}) : a,
                       transB ? transpose(l, b, {1, 0}) : b, alpha, beta);
  if (!transA && alpha == 1 && (!c || (beta == 1 && cRow == 0)))
    if (Value *y = quantizedProduct(l, a, b, transB, c))
      return l.give(y);
  if (transA && m > 1 && k > 1)
    a = transpose(l, a, {1, 0});
  const RightSide right = rightSide(l, b, m, k, n, transB, 1);
  Value *y = l.output(0, a->type, {m, n});
  l.emit(pick(KernelId::GemmF32, a->type), {y}, {a, right.value, c},
         {m, k, n, k, right.stride, n, cRow, cColumn, real(alpha), real(c ? beta : 0),
          number(Activation::None), 0, 0, 0});
  l.planner.countMultiplyAdds(static_cast<uint64_t>(m * k * n));
  return l.status();
}

namespace {

Status matmulNode(Lowering &l) {
  Value *a = l.in(0), *b = l.in(1);
  if (Value *y = quantizedProduct(l, a, b, false, nullptr))
    return l.give(y);
  return l.give(isFloat(a->type) ? matmul(l, a, b) : integerProduct(l, a, b));
}

void multiplyIntegers(Lowering &l, Value *y, Value *a, Value *b, const Factors &f) {
  Integers loops{code(a->type), f.m, f.k, f.n, static_cast<int64_t>(f.batch.size())};
  for (size_t i = 0; i < f.batch.size(); ++i)
    loops.insert(loops.end(), {f.batch[i], f.strideA(i), f.strideB(i)});
  l.emit(KernelId::IntegerMatMul, {y}, {a, b}, loops);
  l.planner.countMultiplyAdds(y->count * static_cast<uint64_t>(f.k));
}

struct AppliedActivation {
  Activation activation;
  double alpha, beta;
};

struct KnownActivation {
  std::string_view name;
  AppliedActivation applied; ///< with the defaults of its parameters
  int parameters;
};
constexpr KnownActivation Activations[] = {
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

bool readActivations(Lowering &l, size_t wanted, std::string_view fallback,
                     std::string_view fallbackLater, std::vector<AppliedActivation> &out) {
  std::vector<std::string> names;
  if (const onnx::Attribute *attribute = l.attribute("activations"))
    for (const std::string_view text : attribute->texts)
      names.emplace_back(text);
  if (names.empty())
    for (size_t i = 0; i < wanted; ++i)
      names.emplace_back(i == 0 ? fallback : fallbackLater);
  if (names.size() < wanted)
    return l.invalid("it has ", names.size(), " activations instead of ", wanted);
  const onnx::Attribute *alphas = l.attribute("activation_alpha");
  const onnx::Attribute *betas = l.attribute("activation_beta");
  size_t alpha = 0, beta = 0;
  for (std::string name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const auto *known = std::find_if(std::begin(Activations), std::end(Activations),
                                     [&](const KnownActivation &n) { return n.name == name; });
    if (known == std::end(Activations))
      return l.unsupported("the activation ", name);
    AppliedActivation applied = known->applied;
    if (known->parameters > 0 && alphas && alpha < alphas->reals.size())
      applied.alpha = static_cast<double>(alphas->reals[alpha++]);
    if (known->parameters > 1 && betas && beta < betas->reals.size())
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
    return l.invalid("its attribute 'direction' is '", direction, "'");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const bool batchFirst = l.integer("layout", 0) != 0;
  if (x->rank() != 3 || w->rank() != 3 || r->rank() != 3)
    return l.invalid("X, W, R are ", toString(x->shape), ", ", toString(w->shape), ", ",
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
    return l.invalid("its weights and states don't fit X, W and R of ", toString(x->shape), ", ",
                     toString(w->shape), " and ", toString(r->shape));
  if (l.attribute("hidden_size") && l.integer("hidden_size", 0) != hidden)
    return l.invalid("its attribute 'hidden_size' is not ", hidden);
  std::vector<AppliedActivation> applied;
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
    Values results{l.wants(0) ? part(y, apart) : nullptr,
                   l.wants(1) ? part(lastH, apart) : nullptr};
    Values reads{x, packedW, packedR, part(bias, 2 * gates * hidden), lengths, part(h0, apart)};
    if (layer.hasCell) {
      results.push_back(l.wants(2) ? part(lastC, apart) : nullptr);
      reads.insert(reads.end(), {part(c0, apart), part(peepholes, 3 * hidden)});
    }
    reads.push_back(workspace);
    Integers p{steps,
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
      const AppliedActivation &a = applied[static_cast<size_t>(d) * each + i];
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

#define MLBRIDGE_RECURRENT                                                                         \
  "activations activation_alpha activation_beta clip direction hidden_size layout"
Status det(Lowering &l) {
  Value *x = l.in(0);
  const int64_t n = x->rank() < 2 ? -1 : x->shape.back();
  if (n < 0 || x->shape[x->rank() - 2] != n)
    return l.invalid("it takes square matrices, not ", x->shape);
  const Shape shape(x->shape.begin(), x->shape.end() - 2);
  Value *y = l.make(ElementType::Float64, shape);
  l.emit(KernelId::Det, {y}, {cast(l, x, y->type), l.make(y->type, {n, n})}, {count(y), n});
  l.planner.countMultiplyAdds(x->count * static_cast<uint64_t>(n));
  return l.give(cast(l, y, x->type));
}

constexpr Operator Table[] = {
    {"Gemm", 7, "TTt", Numbers, 1, true, gemm, "alpha beta transA transB"},
    {"MatMul", 1, "TT", Numbers, 1, true, matmulNode},
    {"Det", 11, "T", Reals, 1, true, det},
    {"LSTM", 7, "TTTtattt", Reals, 3, true, lstm, MLBRIDGE_RECURRENT " input_forget"},
    {"GRU", 7, "TTTtat", Reals, 2, true, gru, MLBRIDGE_RECURRENT " linear_before_reset"},
    {"RNN", 7, "TTTtat", Reals, 2, true, rnn, MLBRIDGE_RECURRENT},
};

} // namespace

int64_t Factors::stride(size_t i, const Value *v, int64_t matrix) const {
  const size_t lead = batch.size() - v->rank();
  if (i < lead || v->shape[i - lead] == 1)
    return 0;
  return matrix * product(v->shape, i - lead + 1, v->rank());
}

bool readFactors(Lowering &l, Value *a, Value *b, Factors &f, bool transB) {
  if (a->rank() == 0 || b->rank() == 0)
    return l.invalid("a scalar is no matrix");
  const bool isRow = a->rank() == 1, isColumn = b->rank() == 1;
  Shape shapeA = a->shape, shapeB = b->shape;
  if (isRow)
    shapeA.insert(shapeA.begin(), 1);
  if (isColumn)
    shapeB.push_back(1);
  else if (transB)
    std::swap(shapeB[shapeB.size() - 2], shapeB.back());
  f.m = shapeA[shapeA.size() - 2], f.k = shapeA.back(), f.n = shapeB.back();
  if (shapeB[shapeB.size() - 2] != f.k)
    return misfit(l, a, b);
  f.batchA = l.view(a, Shape(shapeA.begin(), shapeA.end() - 2));
  f.batchB = l.view(b, Shape(shapeB.begin(), shapeB.end() - 2));
  if (!l.broadcast({f.batchA, f.batchB}, f.batch))
    return false;
  f.result = f.batch;
  if (!isRow)
    f.result.push_back(f.m);
  if (!isColumn)
    f.result.push_back(f.n);
  return true;
}

Value *matmul(Lowering &l, Value *a, Value *b, bool transB, double alpha) {
  Factors f;
  transB = transB && b->rank() > 1;
  if (!readFactors(l, a, b, f, transB))
    return a;
  if (!isFloat(a->type)) {
    Value *y = l.make(a->type, f.result);
    multiplyIntegers(l, y, a, b, f);
    return y;
  }
  const int64_t matrices = product(f.batchB->shape, 0, f.batchB->rank());
  // One matrix b for the whole batch of a is one product of many rows.
  const bool joins = matrices == 1;
  const int64_t rows = joins ? f.m * product(f.batch, 0, f.batch.size()) : f.m;
  const RightSide right = rightSide(l, b, rows, f.k, f.n, transB, matrices);
  Value *y = l.make(a->type, f.result);
  Integers p{
      rows, f.k, f.n, f.k, right.stride, f.n, 0, 0, real(alpha), real(0), number(Activation::None),
      0,    0,   0};
  if (!joins)
    for (size_t i = 0; i < f.batch.size(); ++i) {
      ++p[13];
      p.insert(p.end(), {f.batch[i], f.strideA(i), f.stride(i, f.batchB, right.apart), 0,
                         f.m * f.n * product(f.batch, i + 1, f.batch.size())});
    }
  l.emit(pick(KernelId::GemmF32, a->type), {y}, {a, right.value, nullptr}, p);
  l.planner.countMultiplyAdds(y->count * static_cast<uint64_t>(f.k));
  return y;
}

/// The product or convolution that makes x, for here only, and applies nothing to it yet; or null.
static Planner::Draft *producer(Lowering &l, Value *x) {
  Planner::Draft *step = l.planner.onlyProducer(x);
  constexpr KernelId Producers[] = {KernelId::GemmF32, KernelId::GemmF64,    KernelId::ConvF32,
                                    KernelId::ConvF64, KernelId::WindowsF32, KernelId::WindowsF64};
  return step &&
                 std::find(std::begin(Producers), std::end(Producers), step->kernel) !=
                     std::end(Producers) &&
                 step->parameters[Applied] == number(Activation::None)
             ? step
             : nullptr;
}

bool fuseActivation(Lowering &l, Value *x, Activation activation, double alpha, double beta) {
  Planner::Draft *step = producer(l, x);
  if (!step)
    return false;
  step->parameters[Applied] = number(activation);
  step->parameters[Applied + 1] = real(alpha);
  step->parameters[Applied + 2] = real(beta);
  x->uses = 0; // it becomes the result of the node at hand
  return true;
}

bool fuseBias(Lowering &l, Value *x, Value *bias) {
  Planner::Draft *step = producer(l, x);
  if (!step || step->operands[3] || step->kernel > KernelId::GemmF64)
    return false;
  const int64_t n = step->parameters[2];
  const int64_t last = bias->rank() ? bias->shape.back() : 1;
  if (count(bias) != last || (last != 1 && last != n) || bias->rank() > x->rank() ||
      x->rank() == 0 || x->shape.back() != n || bias->root->producer >= x->producer)
    return false;
  step->operands[3] = bias;
  step->parameters[CRow] = 0;
  step->parameters[CColumn] = last == 1 ? 0 : 1;
  step->parameters[Beta] = real(1);
  x->uses = 0;
  return true;
}

const Span<const Operator> MatrixOperators = Table;

} // namespace mlbridge::native
