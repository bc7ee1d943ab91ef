// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operators of ai.onnx.ml, which exporters of scikit-learn write, but for trees.
#include "engine/native/operators/classical.h"

#include <cmath>
#include <numeric>

namespace mlbridge::native {

Value *matrixOf(Lowering &l, Value *x) {
  if (x->rank() == 1)
    return l.view(x, {1, x->shape[0]});
  if (x->rank() == 2)
    return x;
  l.invalid("it takes rows of features, not ", toString(x->shape));
  return l.make(x->type, {0, 0});
}

namespace {

/// A vector of the type of y.
Value *vectorLike(Lowering &l, const Value *y, const std::vector<double> &numbers) {
  const Shape shape{static_cast<int64_t>(numbers.size())};
  if (y->type == ElementType::Float64)
    return l.constantOf(shape, numbers);
  return l.constantOf(shape, std::vector<float>(numbers.begin(), numbers.end()));
}

std::vector<double> widened(const std::vector<float> &numbers) {
  return std::vector<double>(numbers.begin(), numbers.end());
}

/// Numbers of an attribute for the columns of x: one for all, or one for each.
bool fitsColumns(Lowering &l, const Value *x, const std::vector<double> &numbers,
                 std::string_view name) {
  const int64_t columns = x->rank() ? x->shape.back() : 1;
  if (numbers.size() == 1 || static_cast<int64_t>(numbers.size()) == columns)
    return true;
  return l.invalid("its ", name, " has ", numbers.size(), " numbers for ", columns, " columns");
}

Value *realOf(Lowering &l, Value *x) {
  return isFloat(x->type) ? x : cast(l, x, ElementType::Float32);
}

Value *affine(Lowering &l, Value *x, double factor, double summand) {
  return unary(l, KernelId::AffineF32, x, factor, summand);
}

Value *lastAxis(Lowering &l, KernelId kernel, ReduceOp op, Value *x) {
  return reduce(l, kernel, op, x, {static_cast<int64_t>(x->rank()) - 1}, true);
}

Value *softmax(Lowering &l, Value *x) {
  Value *y = l.make(x->type, x->shape);
  l.emit(pick(KernelId::SoftmaxF32, x->type), {y}, {x}, {x->shape[0], x->shape[1], 1});
  return y;
}

/// Softmax of what isn't zero; zeros stay, times exp(-greatest).
Value *softmaxZero(Lowering &l, Value *x) {
  constexpr double Zero = 1e-7;
  Value *most = lastAxis(l, KernelId::ReduceMaxF32, ReduceOp::Max, x);
  Value *isZero = compare(l, CompareOp::LessOrEqual, absolute(l, x), l.constantReal(x->type, Zero));
  Value *small = binary(l, KernelId::MulF32, x, unary(l, KernelId::ExpF32, negate(l, most)));
  Value *y =
      where(l, isZero, small, unary(l, KernelId::ExpF32, binary(l, KernelId::SubF32, x, most)));
  Value *sum = lastAxis(l, KernelId::ReduceSumF32, ReduceOp::Sum, y);
  Value *isNothing = compare(l, CompareOp::Equal, sum, l.constantReal(x->type, 0));
  return where(l, isNothing, l.constantReal(x->type, 0.5), binary(l, KernelId::DivF32, y, sum));
}

/// The approximation by Winitzki that ONNX uses.
Value *probit(Lowering &l, Value *p) {
  constexpr double Pi = 3.14159265358979323846, A = 0.147;
  Value *x = affine(l, p, 2, -1);
  Value *product = binary(l, KernelId::MulF32, affine(l, x, -1, 1), affine(l, x, 1, 1));
  Value *log = unary(l, KernelId::LogF32, product);
  Value *v = affine(l, log, 0.5, 2 / (Pi * A));
  Value *inner =
      binary(l, KernelId::SubF32, unary(l, KernelId::SquareF32, v), affine(l, log, 1 / A, 0));
  Value *root = unary(l, KernelId::SqrtF32,
                      binary(l, KernelId::SubF32, unary(l, KernelId::SqrtF32, inner), v));
  Value *zero = l.constantReal(p->type, 0);
  Value *y = where(l, compare(l, CompareOp::Less, x, zero), negate(l, root), root);
  y = where(l, compare(l, CompareOp::Equal, product, zero), zero, y);
  return affine(l, y, 1.41421356, 0);
}

} // namespace

Value *beside(Lowering &l, Value *first, Value *second) {
  Value *y = l.make(first->type, {first->shape[0], 2});
  place(l, y, first, {0, 0});
  place(l, y, second, {0, 1});
  return y;
}

Value *isAbove(Lowering &l, Value *column, double limit) {
  Value *above = compare(l, CompareOp::Greater, column, l.constantReal(column->type, limit));
  return l.view(cast(l, above, ElementType::Int64), {column->shape[0]});
}

Value *plus(Lowering &l, Value *y, const std::vector<double> &numbers) {
  if (numbers.empty() || !fitsColumns(l, y, numbers, "base values or intercepts"))
    return y;
  return binary(l, KernelId::AddF32, y, vectorLike(l, y, numbers));
}

Value *transformed(Lowering &l, Value *y, std::string_view transform) {
  if (transform == "LOGISTIC")
    return unary(l, KernelId::SigmoidF32, y);
  if (transform == "SOFTMAX")
    return softmax(l, y);
  if (transform == "SOFTMAX_ZERO")
    return softmaxZero(l, y);
  if (transform == "PROBIT")
    return probit(l, y);
  if (transform != "NONE")
    l.invalid("its post_transform is '", transform, "'");
  return y;
}

bool Labels::read(Lowering &l, const char *integers) {
  const size_t texts = l.texts("classlabels_strings").size();
  labels_ = l.list(integers);
  areTexts_ = labels_.empty() && texts != 0;
  count_ = static_cast<int64_t>(areTexts_ ? texts : labels_.size());
  if (count_ == 0)
    return l.invalid("it has no class labels");
  return true;
}

void Labels::giveLabels(Lowering &l, Value *indices) const {
  if (areTexts_)
    return;
  Integers numbered(labels_.size());
  std::iota(numbered.begin(), numbered.end(), 0);
  if (labels_ == numbered)
    return l.setResult(0, indices);
  Value *y = l.output(0, ElementType::Int64, indices->shape);
  l.emit(KernelId::Gather, {y}, {l.constantOf<int64_t>({count_}, labels_), indices, l.fault()},
         {1, count_, width(y), mlbridge::native::count(indices)});
}

Status Labels::give(Lowering &l, Value *scores, std::string_view transform) const {
  if (scores->shape[1] != count_)
    return l.invalid("it has ", count_, " labels for ", scores->shape[1], " scores");
  Value *best = l.make(ElementType::Int64, {scores->shape[0]});
  l.emit(KernelId::BestIndex, {best}, {scores},
         {code(scores->type), scores->shape[0], count_, 1, 0, 1});
  giveLabels(l, best);
  return giveScores(l, scores, transform);
}

Status Labels::giveBinary(Lowering &l, Value *score, double limit, bool isShare,
                          std::string_view transform) const {
  giveLabels(l, isAbove(l, score, limit));
  if (transform == "PROBIT")
    return l.unsupported("PROBIT of one score for two classes");
  const bool isLogistic = transform == "LOGISTIC";
  Value *other = isShare && !isLogistic ? affine(l, score, -1, 1) : negate(l, score);
  return giveScores(l, beside(l, other, score), isLogistic ? transform : "NONE");
}

Status Labels::giveScores(Lowering &l, Value *scores, std::string_view transform) {
  l.setResult(1, cast(l, transformed(l, scores, transform), ElementType::Float32));
  return l.status();
}

namespace {

// ---- linear models ------------------------------------------------------------------------------

/// x times the transposed matrix of an attribute, plus intercepts: [rows, outputs].
Value *linear(Lowering &l, Value *x, const std::vector<float> &coefficients, int64_t outputs) {
  const int64_t features = x->shape[1];
  if (outputs < 1 || static_cast<int64_t>(coefficients.size()) % outputs ||
      static_cast<int64_t>(coefficients.size()) / outputs != features) {
    l.invalid("it has ", coefficients.size(), " coefficients for ", outputs, " outputs of ",
              features, " features");
    return l.make(x->type, {x->shape[0], std::max<int64_t>(outputs, 0)});
  }
  std::vector<double> turned(coefficients.size());
  for (size_t i = 0; i < coefficients.size(); ++i)
    turned[i % static_cast<size_t>(features) * static_cast<size_t>(outputs) +
           i / static_cast<size_t>(features)] = static_cast<double>(coefficients[i]);
  Value *matrix = l.view(vectorLike(l, x, turned), {features, outputs});
  return matmul(l, x, matrix);
}

Status linearRegressor(Lowering &l) {
  Value *x = matrixOf(l, realOf(l, l.in(0)));
  Value *y = linear(l, x, l.reals("coefficients"), l.integer("targets", 1));
  y = plus(l, y, widened(l.reals("intercepts")));
  return l.give(cast(l, transformed(l, y, l.text("post_transform", "NONE")), ElementType::Float32));
}

Status linearClassifier(Lowering &l) {
  Value *x = matrixOf(l, realOf(l, l.in(0)));
  const std::vector<float> &coefficients = l.reals("coefficients");
  Labels labels;
  if (!labels.read(l, "classlabels_ints"))
    return l.status();
  const int64_t features = std::max<int64_t>(x->shape[1], 1);
  const int64_t outputs = static_cast<int64_t>(coefficients.size()) / features;
  Value *y = linear(l, x, coefficients, outputs);
  y = plus(l, y, widened(l.reals("intercepts")));
  const std::string_view transform = l.text("post_transform", "NONE");
  if (outputs == 1 && labels.count() == 2)
    return labels.giveBinary(l, y, 0, true, transform);
  return labels.give(l, y, transform);
}

// ---- support vector machines --------------------------------------------------------------------

/// The kernel of x [rows, features] and each of the support vectors: [rows, vectors].
Value *supportKernel(Lowering &l, Value *x, int64_t vectors) {
  const std::vector<float> &support = l.reals("support_vectors");
  const std::vector<float> &parameters = l.reals("kernel_params");
  const std::string_view kind = l.text("kernel_type", "LINEAR");
  const int64_t features = x->shape[1];
  if (static_cast<int64_t>(support.size()) / std::max<int64_t>(vectors, 1) != features ||
      static_cast<int64_t>(support.size()) % std::max<int64_t>(vectors, 1)) {
    l.invalid("it has ", support.size(), " numbers in ", vectors, " support vectors of ", features,
              " features");
    return l.make(x->type, {x->shape[0], vectors});
  }
  if (parameters.size() < 3 && kind != "LINEAR") {
    l.invalid("its kernel_params has ", parameters.size(), " numbers instead of 3");
    return l.make(x->type, {x->shape[0], vectors});
  }
  const auto parameter = [&](size_t i) { return static_cast<double>(parameters[i]); };
  if (kind == "RBF") {
    Value *matrix = l.view(vectorLike(l, x, widened(support)), {vectors, features});
    Value *apart = binary(l, KernelId::SubF32, l.view(x, {x->shape[0], 1, features}), matrix);
    Value *far = reduce(l, KernelId::ReduceSumSquareF32, ReduceOp::SumSquare, apart, {2}, false);
    return unary(l, KernelId::ExpF32, affine(l, far, -parameter(0), 0));
  }
  Value *y = linear(l, x, support, vectors);
  if (kind == "LINEAR")
    return y;
  y = affine(l, y, parameter(0), parameter(1));
  if (kind == "POLY")
    return binary(l, KernelId::PowF32, y, l.constantReal(x->type, parameter(2)));
  if (kind == "SIGMOID")
    return unary(l, KernelId::TanhF32, y);
  l.invalid("its kernel_type is '", kind, "'");
  return y;
}

Status svmRegressor(Lowering &l) {
  Value *x = matrixOf(l, realOf(l, l.in(0)));
  const std::vector<float> &coefficients = l.reals("coefficients"), &rho = l.reals("rho");
  const int64_t vectors = l.integer("n_supports", 0);
  if (rho.empty())
    return l.invalid("it has no rho");
  Value *y = vectors > 0 ? linear(l, supportKernel(l, x, vectors), coefficients, 1)
                         : linear(l, x, coefficients, 1);
  y = affine(l, y, 1, static_cast<double>(rho[0]));
  if (l.integer("one_class", 0) != 0)
    y = where(l, compare(l, CompareOp::Greater, y, l.constantReal(y->type, 0)),
              l.constantReal(y->type, 1), l.constantReal(y->type, -1));
  else
    y = transformed(l, y, l.text("post_transform", "NONE"));
  return l.give(cast(l, y, ElementType::Float32));
}

/// A model of pairs of classes, as libsvm has it.
Status pairClassifier(Lowering &l, Value *x, const Labels &labels, const Integers &perClass) {
  const std::vector<float> &coefficients = l.reals("coefficients"), &rho = l.reals("rho"),
                           &a = l.reals("prob_a"), &b = l.reals("prob_b");
  constexpr int64_t MostClasses = 1024, MostVectors = 1 << 24;
  const auto classes = static_cast<int64_t>(perClass.size());
  Integers first{0};
  for (const int64_t vectors : perClass) {
    if (vectors < 0 || vectors > MostVectors)
      return l.invalid("it has ", vectors, " support vectors of a class");
    first.push_back(first.back() + vectors);
  }
  const int64_t vectors = first.back(), pairs = classes * (classes - 1) / 2;
  if (classes > MostClasses || vectors > MostVectors)
    return l.unsupported("an SVM of ", classes, " classes and ", vectors, " support vectors");
  if (classes != labels.count() || classes < 2 || static_cast<int64_t>(rho.size()) != pairs ||
      static_cast<int64_t>(coefficients.size()) != vectors * (classes - 1) ||
      a.size() != b.size() || (!a.empty() && static_cast<int64_t>(a.size()) != pairs))
    return l.invalid("its lists don't fit ", classes, " classes and ", vectors, " support vectors");
  // A column for each pair: its coefficients of the vectors of both.
  std::vector<double> matrix(static_cast<size_t>(vectors * pairs)), turn, offsets;
  std::vector<double> votes(static_cast<size_t>(pairs * classes)), lost(perClass.size());
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      const auto set = [&](int64_t of, int64_t row) {
        for (int64_t v = first[static_cast<size_t>(of)]; v < first[static_cast<size_t>(of) + 1];
             ++v)
          matrix[static_cast<size_t>(v * pairs + pair)] =
              static_cast<double>(coefficients[static_cast<size_t>(row * vectors + v)]);
      };
      set(i, j - 1);
      set(j, i);
      votes[static_cast<size_t>(pair * classes + i)] = 1;
      votes[static_cast<size_t>(pair * classes + j)] = -1;
      ++lost[static_cast<size_t>(j)];
    }
  Value *kernels = supportKernel(l, x, vectors);
  Value *scores = matmul(l, kernels, l.view(vectorLike(l, x, matrix), {vectors, pairs}));
  scores = plus(l, scores, widened(rho));
  Value *isFirst =
      cast(l, compare(l, CompareOp::Greater, scores, l.constantReal(x->type, 0)), x->type);
  Value *counted = matmul(l, isFirst, l.view(vectorLike(l, x, votes), {pairs, classes}));
  counted = plus(l, counted, lost);
  const std::string_view transform = l.text("post_transform", "NONE");
  if (Status s = labels.give(l, counted, "NONE"); !s)
    return s;
  if (a.empty() && classes == 2 && transform != "LOGISTIC")
    return Labels::giveScores(l, beside(l, negate(l, scores), scores), "NONE");
  if (a.empty() && classes == 2)
    scores = beside(l, negate(l, scores), scores);
  if (a.empty())
    return Labels::giveScores(l, scores, transform);
  constexpr double Least = 1e-7;
  Value *p = binary(l, KernelId::MulF32, scores, vectorLike(l, x, widened(a)));
  p = unary(l, KernelId::SigmoidF32, negate(l, plus(l, p, widened(b))));
  p = unary(l, KernelId::ClampF32, p, Least, 1 - Least);
  Value *y = l.make(x->type, {x->shape[0], classes});
  l.emit(KernelId::CoupledProbabilities, {y}, {p}, {code(x->type), x->shape[0], classes});
  return Labels::giveScores(l, y, transform);
}

Status svmClassifier(Lowering &l) {
  Value *x = matrixOf(l, realOf(l, l.in(0)));
  const std::vector<float> &coefficients = l.reals("coefficients"), &rho = l.reals("rho");
  const Integers &perClass = l.list("vectors_per_class");
  Labels labels;
  if (!labels.read(l, "classlabels_ints"))
    return l.status();
  if (rho.empty() || coefficients.empty())
    return l.invalid("it has no coefficients or no rho");
  if (std::accumulate(perClass.begin(), perClass.end(), int64_t(0)) > 0)
    return pairClassifier(l, x, labels, perClass);
  Value *y = linear(l, x, coefficients, labels.count());
  y = affine(l, y, 1, static_cast<double>(rho[0]));
  return labels.give(l, y, l.text("post_transform", "NONE"));
}

// ---- features -----------------------------------------------------------------------------------

Status scaler(Lowering &l) {
  Value *x = realOf(l, l.in(0));
  const std::vector<double> offset = widened(l.reals("offset")), scale = widened(l.reals("scale"));
  if (!offset.empty() && fitsColumns(l, x, offset, "offset"))
    x = binary(l, KernelId::SubF32, x, vectorLike(l, x, offset));
  if (!scale.empty() && fitsColumns(l, x, scale, "scale"))
    x = binary(l, KernelId::MulF32, x, vectorLike(l, x, scale));
  return l.give(cast(l, x, ElementType::Float32));
}

Status normalizer(Lowering &l) {
  Value *x = realOf(l, l.in(0));
  const std::string_view norm = l.text("norm", "MAX");
  if (x->rank() != 1 && x->rank() != 2)
    return l.invalid("it takes rows of features, not ", toString(x->shape));
  Value *length = nullptr;
  if (norm == "L1")
    length = lastAxis(l, KernelId::ReduceL1F32, ReduceOp::L1, x);
  else if (norm == "L2")
    length = lastAxis(l, KernelId::ReduceL2F32, ReduceOp::SumSquare, x);
  else if (norm == "MAX")
    length = lastAxis(l, KernelId::ReduceMaxF32, ReduceOp::Max, x);
  else
    return l.invalid("its norm is '", norm, "'");
  Value *isZero = compare(l, CompareOp::Equal, length, l.constantReal(x->type, 0));
  length = where(l, isZero, l.constantReal(x->type, 1), length);
  return l.give(cast(l, binary(l, KernelId::DivF32, x, length), ElementType::Float32));
}

Status binarizer(Lowering &l) {
  Value *x = l.in(0);
  const double limit = l.real("threshold", 0);
  Value *wide = isFloat(x->type) ? x : cast(l, x, ElementType::Float64);
  return l.give(
      cast(l, compare(l, CompareOp::Greater, wide, l.constantReal(wide->type, limit)), x->type));
}

Status imputer(Lowering &l) {
  Value *x = l.in(0);
  const bool isReal = isFloat(x->type);
  std::vector<double> imputed;
  Value *values = nullptr, *isMissing = nullptr;
  if (isReal) {
    imputed = widened(l.reals("imputed_value_floats"));
    const double replaced = l.real("replaced_value_float", 0);
    values = vectorLike(l, x, imputed);
    if (replaced != replaced) {
      isMissing = logicalNot(l, compare(l, CompareOp::Equal, x, x));
    } else {
      isMissing = compare(l, CompareOp::Equal, x, l.constantReal(x->type, replaced));
    }
  } else {
    const Integers &integers = l.list("imputed_value_int64s");
    imputed.assign(integers.size(), 0);
    values =
        cast(l, l.constantOf<int64_t>({static_cast<int64_t>(integers.size())}, integers), x->type);
    isMissing = compare(
        l, CompareOp::Equal, x,
        cast(l, l.constantOf<int64_t>({}, {l.integer("replaced_value_int64", 0)}), x->type));
  }
  if (imputed.empty())
    return l.invalid("it has no values to impute");
  if (!fitsColumns(l, x, imputed, "list of imputed values"))
    return l.status();
  return l.give(where(l, isMissing, values, x));
}

Status oneHotEncoder(Lowering &l) {
  Value *x = l.in(0);
  const Integers &categories = l.list("cats_int64s");
  if (categories.empty() && !l.texts("cats_strings").empty())
    return l.unsupported("categories that are texts");
  if (categories.empty())
    return l.invalid("it has no categories");
  Shape shape = x->shape;
  shape.push_back(1);
  Value *wanted = l.constantOf<int64_t>({static_cast<int64_t>(categories.size())}, categories);
  Value *which =
      compare(l, CompareOp::Equal, l.view(cast(l, x, ElementType::Int64), shape), wanted);
  Value *y = cast(l, which, ElementType::Float32);
  if (l.integer("zeros", 1) != 0)
    return l.give(y);
  // A row without a one is a fault: index 1 of the one factor.
  Value *sum = lastAxis(l, KernelId::ReduceSumF32, ReduceOp::Sum, y);
  Value *missing =
      cast(l, compare(l, CompareOp::Equal, sum, l.constantReal(sum->type, 0)), ElementType::Int64);
  Value *factor = l.make(ElementType::Float32, shape);
  l.emit(KernelId::Gather, {factor}, {l.constantOf<float>({1}, {1}), missing, l.fault()},
         {1, 1, width(factor), count(missing)});
  return l.give(binary(l, KernelId::MulF32, y, factor));
}

/// A list of keys or values: floats, integers or, since version 4, a tensor; null for texts.
Value *column(Lowering &l, const std::string &name) {
  if (Value *tensor = l.tensor((name + "_tensor").c_str()))
    return tensor;
  if (const Integers &integers = l.list((name + "_int64s").c_str()); !integers.empty())
    return l.constantOf<int64_t>({static_cast<int64_t>(integers.size())}, integers);
  if (const std::vector<float> &reals = l.reals((name + "_floats").c_str()); !reals.empty())
    return l.constantOf<float>({static_cast<int64_t>(reals.size())}, reals);
  if (!l.texts((name + "_strings").c_str()).empty())
    l.unsupported(name, " that are texts");
  else
    l.invalid("it has no ", name);
  return nullptr;
}

Status labelEncoder(Lowering &l) {
  Value *x = l.in(0), *keys = column(l, "keys"), *values = column(l, "values");
  if (!keys || !values)
    return l.status();
  const int64_t n = count(keys);
  if (count(values) != n)
    return l.invalid("it has ", n, " keys and ", count(values), " values");
  Value *other = l.tensor("default_tensor");
  if (!l.status())
    return l.status();
  if (other && (other->count != 1 || other->type != values->type))
    return l.invalid("its default is ", name(other->type), toString(other->shape));
  if (!other && isFloat(values->type))
    other =
        cast(l, l.constantReal(ElementType::Float32, l.real("default_float", -0.0)), values->type);
  else if (!other)
    other = cast(l, l.constantOf<int64_t>({}, {l.integer("default_int64", -1)}), values->type);
  // The last of equal keys counts.
  const ElementType type = isFloat(keys->type) ? keys->type : ElementType::Int64;
  const auto sortKeys = [&](auto example) {
    using T = decltype(example);
    std::vector<T> all(keys->count);
    convert(*keys, keys->constantBytes(), type, all.data());
    const auto before = [](T a, T b) { return a < b || (b != b && a == a); };
    std::vector<int64_t> kept;
    std::vector<T> unique;
    for (const size_t i :
         sorted(all.size(), [&](size_t a, size_t b) { return before(all[a], all[b]); })) {
      const T key = all[i];
      if (!unique.empty() && !before(unique.back(), key)) {
        kept.back() = static_cast<int64_t>(i);
        continue;
      }
      unique.push_back(key);
      kept.push_back(static_cast<int64_t>(i));
    }
    const Shape length{static_cast<int64_t>(kept.size())};
    keys = l.constantOf(length, unique);
    Value *moved = l.make(values->type, length);
    l.emit(KernelId::Gather, {moved}, {values, l.constantOf(length, kept), l.fault()},
           {1, n, width(values), length[0]});
    values = moved;
  };
  if (type == ElementType::Int64)
    sortKeys(int64_t());
  else if (type == ElementType::Float64)
    sortKeys(double());
  else
    sortKeys(float());
  Value *y = l.output(0, values->type, x->shape);
  return l.emit(KernelId::Lookup, {y}, {cast(l, x, type), keys, values, other},
                {code(type), width(values), count(x), count(keys)});
}

Status arrayFeatureExtractor(Lowering &l) {
  Value *x = l.in(0), *indices = l.in(1);
  if (x->rank() == 0 || indices->count == 0)
    return l.invalid("it takes ", indices->count, " elements of ", toString(x->shape));
  Shape shape = x->rank() == 1 ? Shape{1, 0} : x->shape;
  shape.back() = count(indices);
  const int64_t n = x->shape.back(), outer = product(x->shape, 0, x->rank() - 1);
  Value *y = l.output(0, x->type, shape);
  return l.emit(KernelId::Gather, {y}, {x, indices, l.fault()},
                {outer, n, width(x), count(indices)});
}

Status featureVectorizer(Lowering &l) {
  const Integers &widths = l.list("inputdimensions");
  if (widths.size() != l.inputs.size())
    return l.invalid("it has ", l.inputs.size(), " inputs and ", widths.size(), " widths");
  int64_t all = 0, rows = -1;
  for (size_t i = 0; i < widths.size(); ++i) {
    const Value *x = l.in(i);
    if (widths[i] < 0 || widths[i] > (1 << 24) || x->rank() < 1 || x->rank() > 2 ||
        (rows >= 0 && x->shape[0] != rows))
      return l.invalid("its input ", i, " is ", toString(x->shape), " for a width of ", widths[i]);
    rows = x->shape[0];
    all += widths[i];
  }
  Value *zero = l.constantReal(ElementType::Float32, 0);
  Value *y = fill(l, ElementType::Float32, {rows, all}, zero);
  int64_t at = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    Value *x = cast(l, l.in(i), ElementType::Float32);
    x = l.view(x, {rows, x->rank() == 1 ? 1 : x->shape[1]});
    const Shape part{rows, std::min(widths[i], x->shape[1])};
    place(l, y, slice(l, x, part, {0, 0}, {1, 1}), {0, at});
    at += widths[i];
  }
  return l.give(y);
}

constexpr uint16_t Features = Real32 | Real64 | Ints;
constexpr Operator Table[] = {
    {"ArrayFeatureExtractor", 1, "TL", Fixed, 1, false, arrayFeatureExtractor},
    {"Binarizer", 1, "T", Features, 1, false, binarizer, "threshold"},
    {"FeatureVectorizer", 1, "A*", Features, 1, false, featureVectorizer, "inputdimensions"},
    {"Imputer", 1, "T", Features, 1, false, imputer,
     "imputed_value_floats imputed_value_int64s replaced_value_float replaced_value_int64"},
    {"LabelEncoder", 2, "T", Features, 1, false, labelEncoder,
     "default_float default_int64 default_string default_tensor keys_floats keys_int64s "
     "keys_strings keys_tensor values_floats values_int64s values_strings values_tensor"},
    {"LinearClassifier", 1, "T", Features, 2, false, linearClassifier,
     "classlabels_ints classlabels_strings coefficients intercepts multi_class post_transform"},
    {"LinearRegressor", 1, "T", Features, 1, false, linearRegressor,
     "coefficients intercepts post_transform targets"},
    {"Normalizer", 1, "T", Features, 1, false, normalizer, "norm"},
    {"OneHotEncoder", 1, "T", Features, 1, false, oneHotEncoder, "cats_int64s cats_strings zeros"},
    {"SVMClassifier", 1, "T", Features, 2, false, svmClassifier,
     "classlabels_ints classlabels_strings coefficients kernel_params kernel_type post_transform "
     "prob_a prob_b rho support_vectors vectors_per_class"},
    {"SVMRegressor", 1, "T", Features, 1, false, svmRegressor,
     "coefficients kernel_params kernel_type n_supports n_targets one_class post_transform rho "
     "support_vectors"},
    {"Scaler", 1, "T", Features, 1, false, scaler, "offset scale"},
};

} // namespace

const Span<const Operator> ClassicalOperators = Table;

} // namespace mlbridge::native
