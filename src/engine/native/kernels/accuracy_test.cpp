// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far the kernels are from the truth, which is computed in long double. Bounds are in units in
// the last place (ulp) of the true result. One instruction set stands for all: kernels_test.cpp.
#include "engine/native/kernels/kernel.h"
#include "engine/native/kernels/sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mlbridge::native {
namespace {

using Real = long double;

template <class E>
void run(KernelId f32, std::vector<void *> operands, const std::vector<int64_t> &parameters) {
  const auto id = static_cast<size_t>(f32) + (sizeof(E) == 8);
  kernelsFor(bestInstructionSet())[id](operands.data(), parameters.data());
}

/// The error in ulp; 0 where both are NaN, or the same infinity.
template <class E> double errorOf(E got, Real truth) {
  if (std::isnan(truth) || std::isnan(got))
    return std::isnan(truth) && std::isnan(got) ? 0 : INFINITY;
  const E nearest = static_cast<E>(truth);
  if (std::isinf(nearest) || std::isinf(got))
    return nearest == got                                           ? 0
           : std::fabs(truth) > Real(std::numeric_limits<E>::max()) ? 1
                                                                    : INFINITY;
  const int exponent = std::max(nearest == 0 ? -9999 : std::ilogb(nearest),
                                std::numeric_limits<E>::min_exponent - 1);
  return double(std::fabs(Real(got) - truth) /
                std::ldexp(Real(1), exponent - std::numeric_limits<E>::digits + 1));
}

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }

struct Function {
  KernelId id;
  double alpha, beta;
  Real (*truth)(Real);
  double least, greatest; // where the bounds hold; special values are tried besides
  double floatUlp, doubleUlp;
};

constexpr double Anywhere = 1e300;
const Function Functions[] = {
    {KernelId::AcosF32, 0, 0, [](Real x) { return std::acos(x); }, -Anywhere, Anywhere, 1, 4},
    {KernelId::AcoshF32, 0, 0, [](Real x) { return std::acosh(x); }, -Anywhere, Anywhere, 1, 4},
    {KernelId::AsinF32, 0, 0, [](Real x) { return std::asin(x); }, -Anywhere, Anywhere, 1, 4},
    {KernelId::AsinhF32, 0, 0, [](Real x) { return std::asinh(x); }, -Anywhere, Anywhere, 1, 4},
    {KernelId::AtanF32, 0, 0, [](Real x) { return std::atan(x); }, -Anywhere, Anywhere, 1, 2},
    {KernelId::AtanhF32, 0, 0, [](Real x) { return std::atanh(x); }, -Anywhere, Anywhere, 1, 4},
    {KernelId::CeilF32, 0, 0, [](Real x) { return std::ceil(x); }, -Anywhere, Anywhere, 0, 0},
    {KernelId::CeluF32, 1, 0, [](Real x) { return x < 0 ? std::expm1(x) : x; }, -200, 200, 2, 2},
    {KernelId::CosF32, 0, 0, [](Real x) { return std::cos(x); }, -Anywhere, Anywhere, 1, 2.5},
    {KernelId::CoshF32, 0, 0, [](Real x) { return std::cosh(x); }, -700, 700, 1, 4},
    {KernelId::EluF32, 1, 0, [](Real x) { return x < 0 ? std::expm1(x) : x; }, -200, 200, 2, 2},
    {KernelId::ErfF32, 0, 0, [](Real x) { return std::erf(x); }, -Anywhere, Anywhere, 1.5, 2},
    {KernelId::ExpF32, 0, 0, [](Real x) { return std::exp(x); }, -800, 800, 1.5, 1.5},
    {KernelId::FloorF32, 0, 0, [](Real x) { return std::floor(x); }, -Anywhere, Anywhere, 0, 0},
    {KernelId::GeluF32, 0, 0, [](Real x) { return x * std::erfc(-x / std::sqrt(Real(2))) / 2; }, -8,
     Anywhere, 8, 256},
    {KernelId::GeluTanhF32, 0, 0,
     [](Real x) {
       return x * sigmoid(2 * std::sqrt(2 / acosl(-1)) * (x + Real(0.044715) * x * x * x));
     },
     -5, 1e3, 40, 256},
    {KernelId::LogF32, 0, 0, [](Real x) { return std::log(x); }, -Anywhere, Anywhere, 1, 1},
    {KernelId::MishF32, 0, 0, [](Real x) { return x * std::tanh(std::log1p(std::exp(x))); }, -40,
     Anywhere, 1, 6},
    {KernelId::ReciprocalF32, 0, 0, [](Real x) { return 1 / x; }, -Anywhere, Anywhere, 0.5001,
     0.5001},
    {KernelId::RoundF32, 0, 0, [](Real x) { return std::nearbyint(x); }, -Anywhere, Anywhere, 0, 0},
    {KernelId::SigmoidF32, 0, 0, sigmoid, -700, Anywhere, 3, 3},
    {KernelId::SinF32, 0, 0, [](Real x) { return std::sin(x); }, -Anywhere, Anywhere, 1, 2.5},
    {KernelId::SinhF32, 0, 0, [](Real x) { return std::sinh(x); }, -700, 700, 1, 4},
    {KernelId::SoftplusF32, 0, 0,
     [](Real x) { return std::max(x, Real(0)) + std::log1p(std::exp(-std::fabs(x))); }, -700,
     Anywhere, 1, 3},
    {KernelId::SoftsignF32, 0, 0, [](Real x) { return x / (1 + std::fabs(x)); }, -Anywhere,
     Anywhere, 1.5, 1.5},
    {KernelId::SqrtF32, 0, 0, [](Real x) { return std::sqrt(x); }, -Anywhere, Anywhere, 0.5001,
     0.5001},
    {KernelId::TanF32, 0, 0, [](Real x) { return std::tan(x); }, -Anywhere, Anywhere, 1, 4},
    {KernelId::TanhF32, 0, 0, [](Real x) { return std::tanh(x); }, -Anywhere, Anywhere, 3, 3},
};

template <class E> class Accuracy : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(Accuracy, Elements, );

template <class E> std::vector<E> samples(double least, double greatest) {
  std::vector<E> xs = {E(0),
                       -E(0),
                       E(1),
                       E(-1),
                       std::numeric_limits<E>::infinity(),
                       -std::numeric_limits<E>::infinity(),
                       std::numeric_limits<E>::quiet_NaN(),
                       E(0.5),
                       E(-2.5)};
  std::mt19937_64 source(7);
  const auto add = [&](double x) {
    if (x >= least && x <= greatest && std::fabs(x) <= double(std::numeric_limits<E>::max()))
      xs.push_back(static_cast<E>(x));
  };
  std::uniform_real_distribution<double> exponent(-160, 40), wide(-1100, 1023), sign(-1, 1),
      share(0, 1);
  for (int i = 0; i < 20000; ++i) {
    add(std::copysign(std::exp2(exponent(source) / 4), sign(source)));
    add(std::copysign(std::exp2(wide(source)), sign(source)));
    add(std::copysign(12 * share(source), sign(source)));
    if (greatest - least < 1e4)
      add(least + (greatest - least) * share(source));
    add(1 + sign(source) / 64);
    add(std::round(2000 * sign(source)) * 1.57079632679489661923);
  }
  return xs;
}

TYPED_TEST(Accuracy, Functions) {
  using E = TypeParam;
  for (const Function &f : Functions) {
    const std::vector<E> xs = samples<E>(f.least, f.greatest);
    std::vector<E> ys(xs.size());
    run<E>(f.id, {ys.data(), const_cast<E *>(xs.data())},
           {int64_t(xs.size()), real(f.alpha), real(f.beta)});
    double worst = 0;
    E where = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      const double error = errorOf(ys[i], f.truth(Real(xs[i])));
      if (error > worst) {
        worst = error;
        where = xs[i];
      }
    }
    EXPECT_LE(worst, sizeof(E) == 4 ? f.floatUlp : f.doubleUlp)
        << nameOf(f.id) << (sizeof(E) == 4 ? "" : ", of double") << " at " << where;
  }
}

TYPED_TEST(Accuracy, Pow) {
  using E = TypeParam;
  std::mt19937_64 source(3);
  std::vector<E> xs, ys;
  const E odd[] = {E(0),
                   -E(0),
                   E(1),
                   E(-1),
                   E(2),
                   E(-2),
                   E(0.5),
                   E(-0.5),
                   E(3),
                   E(-3),
                   E(1e30),
                   std::numeric_limits<E>::infinity(),
                   -std::numeric_limits<E>::infinity(),
                   std::numeric_limits<E>::quiet_NaN()};
  for (E x : odd)
    for (E y : odd) {
      xs.push_back(x);
      ys.push_back(y);
    }
  std::uniform_real_distribution<double> exponent(-20, 20), power(-12, 12);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::exp2(exponent(source));
    const double y = i % 3 ? power(source) : std::round(power(source));
    xs.push_back(static_cast<E>(i % 3 ? x : -x));
    ys.push_back(static_cast<E>(y));
  }
  std::vector<E> got(xs.size());
  run<E>(KernelId::PowF32, {got.data(), xs.data(), ys.data()}, {1, int64_t(xs.size()), 1, 1});
  for (size_t i = 0; i < xs.size(); ++i)
    ASSERT_LE(errorOf(got[i], std::pow(Real(xs[i]), Real(ys[i]))), sizeof(E) == 4 ? 1 : 8)
        << xs[i] << " to the " << ys[i] << " is not " << got[i];
}

TYPED_TEST(Accuracy, Gemm) {
  using E = TypeParam;
  std::mt19937_64 source(5);
  std::normal_distribution<double> normal;
  for (int64_t k : {1, 15, 64, 300, 5000})
    for (int64_t n : {1, 3, 15, 70}) {
      const int64_t m = 7;
      std::vector<E> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)),
          c(static_cast<size_t>(n)), y(static_cast<size_t>(m * n)),
          packed(static_cast<size_t>(packedGemmSize<E>(k, n)));
      for (std::vector<E> *v : {&a, &b, &c})
        for (E &x : *v)
          x = static_cast<E>(normal(source));
      packGemm(packed.data(), b.data(), k, n, n, 1);
      run<E>(KernelId::GemmF32, {y.data(), a.data(), packed.data(), c.data()},
             {m, k, n, k, 0, n, 0, 1, real(1), real(1), int64_t(Activation::Tanh), 0, 0, 0});
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          Real sum = Real(c[size_t(j)]), magnitude = std::fabs(sum);
          for (int64_t l = 0; l < k; ++l) {
            const Real product = Real(a[size_t(i * k + l)]) * Real(b[size_t(l * n + j)]);
            sum += product;
            magnitude += std::fabs(product);
          }
          const Real bound =
              (magnitude * Real(k + 16) + 4) * Real(std::numeric_limits<E>::epsilon());
          ASSERT_LE(std::fabs(std::tanh(sum) - Real(y[size_t(i * n + j)])), bound);
        }
    }
}

/// ONNX's equations, plainly: {y, h, c} of one batch entry.
struct Layer {
  int gates;
  int64_t steps, input, hidden;
  std::vector<double> x, w, r, b, p, h, c, y;

  double sum(int64_t gate, int64_t unit, int64_t time, const std::vector<double> &s,
             bool products = true) const {
    const int64_t row = gate * hidden + unit;
    double total = b[size_t(row)];
    for (int64_t i = 0; i < input; ++i)
      total += x[size_t(time * input + i)] * w[size_t(row * input + i)];
    return products ? total + fromState(gate, unit, s) : total;
  }
  double fromState(int64_t gate, int64_t unit, const std::vector<double> &s) const {
    const int64_t row = gate * hidden + unit;
    double total = b[size_t(gates * hidden + row)];
    for (int64_t i = 0; i < hidden; ++i)
      total += s[size_t(i)] * r[size_t(row * hidden + i)];
    return total;
  }
  static double logistic(double v) { return 1 / (1 + std::exp(-v)); }
  void step(int64_t time, bool afterReset) {
    std::vector<double> next(h);
    std::vector<double> reset(h);
    for (int64_t u = 0; u < hidden; ++u) {
      const size_t i = size_t(u), n = size_t(hidden);
      if (gates == 4) {
        const double in = logistic(sum(0, u, time, h) + p[i] * c[i]);
        const double forget = logistic(sum(2, u, time, h) + p[2 * n + i] * c[i]);
        c[i] = forget * c[i] + in * std::tanh(sum(3, u, time, h));
        next[i] = logistic(sum(1, u, time, h) + p[n + i] * c[i]) * std::tanh(c[i]);
      } else if (gates == 3) {
        reset[i] = logistic(sum(1, u, time, h));
      } else {
        next[i] = std::tanh(sum(0, u, time, h));
      }
    }
    std::vector<double> kept(h);
    for (size_t i = 0; gates == 3 && i < kept.size(); ++i)
      kept[i] *= reset[i];
    for (int64_t u = 0; gates == 3 && u < hidden; ++u) {
      const size_t i = size_t(u);
      const double z = logistic(sum(0, u, time, h));
      const double candidate =
          std::tanh(sum(2, u, time, h, false) +
                    (afterReset ? reset[i] * fromState(2, u, h) : fromState(2, u, kept)));
      next[i] = (1 - z) * candidate + z * h[i];
    }
    h = next;
    for (int64_t u = 0; u < hidden; ++u)
      y[size_t(time * hidden + u)] = h[size_t(u)];
  }
};

TYPED_TEST(Accuracy, RecurrentLayers) {
  using E = TypeParam;
  std::mt19937_64 source(11);
  std::normal_distribution<double> normal(0, 0.4);
  const auto narrow = [](const std::vector<double> &v) {
    return std::vector<E>(v.begin(), v.end());
  };
  for (int gates : {4, 3, 1})
    for (int round = 0; round < 12; ++round) {
      const int64_t steps = 1 + round % 5, input = 3 + round, hidden = 2 + 3 * round;
      const bool reverse = round % 2, afterReset = round % 3 == 0;
      Layer layer{gates, steps, input, hidden, {}, {}, {}, {}, {}, {}, {}, {}};
      const auto fill = [&](std::vector<double> &v, int64_t count) {
        v.resize(size_t(count));
        for (double &value : v)
          value = double(E(normal(source)));
      };
      fill(layer.x, steps * input);
      fill(layer.w, gates * hidden * input);
      fill(layer.r, gates * hidden * hidden);
      fill(layer.b, 2 * gates * hidden);
      fill(layer.p, 3 * hidden);
      fill(layer.h, hidden);
      fill(layer.c, hidden);
      layer.y.resize(size_t(steps * hidden));
      std::vector<E> w(size_t(packedRecurrentSize<E>(gates, hidden, input))),
          r(size_t(packedRecurrentSize<E>(gates, hidden, hidden)));
      packRecurrentWeights(w.data(), narrow(layer.w).data(), gates, hidden, input);
      packRecurrentWeights(r.data(), narrow(layer.r).data(), gates, hidden, hidden);
      std::vector<E> x = narrow(layer.x), b = narrow(layer.b), p = narrow(layer.p),
                     h0 = narrow(layer.h), c0 = narrow(layer.c), y(layer.y.size()),
                     h(layer.h.size()), c(layer.h.size()),
                     workspace(size_t(recurrentWorkspace<E>(gates, steps, 1, hidden)));
      std::vector<void *> operands = {y.data(), h.data()};
      if (gates == 4)
        operands.push_back(c.data());
      operands.insert(operands.end(), {x.data(), w.data(), r.data(), b.data(), nullptr, h0.data()});
      if (gates == 4)
        operands.insert(operands.end(), {c0.data(), p.data()});
      operands.push_back(workspace.data());
      std::vector<int64_t> parameters = {steps,   1,      input,   hidden,
                                         reverse, input,  input,   hidden,
                                         hidden,  hidden, real(0), gates == 3 && afterReset};
      for (Activation a : {gates == 1 ? Activation::Tanh : Activation::Sigmoid, Activation::Tanh,
                           Activation::Tanh})
        parameters.insert(parameters.end(), {int64_t(a), 0, 0});
      run<E>(gates == 4   ? KernelId::LstmF32
             : gates == 3 ? KernelId::GruF32
                          : KernelId::RnnF32,
             operands, parameters);
      for (int64_t i = 0; i < steps; ++i)
        layer.step(reverse ? steps - 1 - i : i, afterReset);
      const double bound = sizeof(E) == 4 ? 1e-5 : 1e-13;
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_NEAR(double(y[i]), layer.y[i], bound) << gates << " gates, round " << round;
      for (size_t i = 0; i < h.size(); ++i) {
        ASSERT_NEAR(double(h[i]), layer.h[i], bound);
        ASSERT_NEAR(gates == 4 ? double(c[i]) : layer.c[i], layer.c[i], bound);
      }
    }
}

TEST(Orders, KeepTheirPromises) {
  const float nan = NAN;
  std::vector<float> x = {2, 7, nan, 7, -1, nan, 0};
  int64_t index = -1;
  run<float>(KernelId::BestIndex, {&index, x.data()}, {Float32, 1, 7, 1, 0, 1});
  EXPECT_EQ(index, 2);
  run<float>(KernelId::BestIndex, {&index, x.data()}, {Float32, 1, 7, 1, 1, 1});
  EXPECT_EQ(index, 5);
  run<float>(KernelId::BestIndex, {&index, x.data()}, {Float32, 1, 2, 1, 0, 1});
  EXPECT_EQ(index, 1);
  run<float>(KernelId::BestIndex, {&index, x.data()}, {Float32, 1, 2, 1, 0, 0});
  EXPECT_EQ(index, 0);
  float values[4];
  int64_t indices[4];
  run<float>(KernelId::TopK, {values, indices, x.data(), nullptr}, {Float32, 1, 7, 1, 4, 1});
  EXPECT_EQ(std::vector<int64_t>(indices, indices + 4), (std::vector<int64_t>{2, 5, 1, 3}));
  run<float>(KernelId::TopK, {values, indices, x.data(), nullptr}, {Float32, 1, 7, 1, 4, 0});
  EXPECT_EQ(std::vector<int64_t>(indices, indices + 4), (std::vector<int64_t>{4, 6, 0, 1}));
}

TEST(Softmax, MasksWithMinusInfinity) {
  const float inf = INFINITY;
  std::vector<float> x = {0, -inf, 0, -inf};
  run<float>(KernelId::SoftmaxF32, {x.data(), x.data()}, {1, 4, 1});
  EXPECT_EQ(x, (std::vector<float>{0.5F, 0, 0.5F, 0}));
  x = {-inf, -inf};
  float y = 0;
  run<float>(KernelId::ReduceLogSumExpF32, {&y, x.data()}, {1, 2, 1});
  EXPECT_EQ(y, -inf);
}

TEST(ScatterRows, ReportsAnIndexOutOfRange) {
  std::vector<float> y(4, 1), updates = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> indices = {-1, 2, 0};
  int64_t fault = 0;
  run<float>(KernelId::ScatterAddRowsF32, {y.data(), updates.data(), indices.data(), &fault},
             {3, 2, 2, 1});
  EXPECT_EQ(fault, 1);
  EXPECT_EQ(y, (std::vector<float>{6, 7, 2, 3}));
}

} // namespace
} // namespace mlbridge::native
