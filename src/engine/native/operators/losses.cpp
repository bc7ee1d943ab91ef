// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses of classifiers, made of the kernels of other operators.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

/// The loss of logarithms of probabilities [N, C, ...], for the classes [N, ...] in input 1.
Status lossOf(Lowering &l, Value *logs) {
  Value *target = l.in(1), *weight = l.in(2);
  Shape wanted = logs->shape, one = wanted;
  if (wanted.size() > 1) {
    wanted.erase(wanted.begin() + 1);
    one[1] = 1;
  }
  const std::string_view reduction = l.text("reduction", "mean");
  const bool isMean = reduction == "mean";
  if (logs->rank() < 2 || target->shape != wanted ||
      (weight && weight->shape != Shape{logs->shape[1]}))
    return misfit(l, "[N, C, ...], a class for each of [N, ...], and weights [C]");
  if (!isMean && reduction != "sum" && reduction != "none")
    return wrong(l, "reduction", reduction);
  Value *classes = cast(l, target, ElementType::Int64), *isIgnored = nullptr;
  if (l.attribute("ignore_index")) {
    const auto number = [&](int64_t value) { return l.constantOf<int64_t>({}, {value}); };
    isIgnored = compare(l, CompareOp::Equal, classes, number(l.integer("ignore_index", 0)));
    classes = where(l, isIgnored, number(0), classes);
  }
  const int64_t channels = logs->shape[1], inner = product(one, 2, one.size());
  const Integers strides = denseStrides(logs->shape);
  Integers p{width(logs), channels, inner, static_cast<int64_t>(one.size())};
  for (size_t i = 0; i < one.size(); ++i)
    p.insert(p.end(), {one[i], i == 1 ? 0 : strides[i]});
  Value *chosen = l.make(logs->type, wanted), *zero = l.constantReal(logs->type, 0);
  l.emit(KernelId::GatherElements, {chosen}, {logs, classes, l.fault()}, p);
  Value *loss = negate(l, chosen), *share = nullptr; // of each sample in a mean
  if (weight) {
    share = l.make(logs->type, wanted);
    l.emit(KernelId::Gather, {share}, {weight, classes, l.fault()},
           {1, channels, width(weight), count(classes)});
  } else if (isIgnored) {
    share = l.constantReal(logs->type, 1);
  }
  if (isIgnored) {
    share = where(l, isIgnored, zero, share);
    loss = where(l, isIgnored, zero, loss);
  }
  if (weight)
    loss = binary(l, KernelId::MulF32, loss, share);
  if (reduction == "none")
    return l.give(loss);
  const auto sum = [&](KernelId kernel, Value *x) {
    return reduce(l, kernel, ReduceOp::Sum, x, allAxes(x->rank()), false);
  };
  if (isMean && !share)
    return l.give(sum(KernelId::ReduceMeanF32, loss));
  loss = sum(KernelId::ReduceSumF32, loss);
  return l.give(isMean ? binary(l, KernelId::DivF32, loss, sum(KernelId::ReduceSumF32, share))
                       : loss);
}

Status negativeLogLikelihoodLoss(Lowering &l) { return lossOf(l, l.in(0)); }

Status softmaxCrossEntropyLoss(Lowering &l) {
  Value *x = l.in(0);
  if (x->rank() < 2)
    return misfit(l, "[N, C, ...] and a class for each of [N, ...]");
  const Along at(x, 1);
  Value *logs = l.output(1, x->type, x->shape);
  l.emit(pick(KernelId::LogSoftmaxF32, x->type), {logs}, {x}, {at.outer, at.n, at.inner});
  return lossOf(l, logs);
}

constexpr Operator Table[] = {
    {"NegativeLogLikelihoodLoss", 12, "TIt", Reals, 1, true, negativeLogLikelihoodLoss,
     "ignore_index reduction"},
    {"SoftmaxCrossEntropyLoss", 12, "TIt", Reals, 2, true, softmaxCrossEntropyLoss,
     "ignore_index reduction"},
};

} // namespace

const Span<const Operator> LossOperators = Table;

} // namespace mlbridge::native
