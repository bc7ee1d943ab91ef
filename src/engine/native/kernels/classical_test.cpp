// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of ai.onnx.ml, on operands made by hand.
#include "engine/native/kernels/classical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace mlbridge::native {
namespace {

constexpr double Infinity = std::numeric_limits<double>::infinity();
constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
const Kernel *Kernels = kernelsFor(InstructionSet::Portable);

template <class T> constexpr Type TypeOf = sizeof(T) == sizeof(double) ? Float64 : Float32;

template <class T> void keysAreInTheOrderOfNumbers() {
  const T least = std::numeric_limits<T>::denorm_min(), most = std::numeric_limits<T>::max();
  const std::vector<T> sorted{T(-Infinity), -most, -1, -least, 0, least, 1, most, T(Infinity)};
  for (size_t i = 0; i < sorted.size(); ++i)
    for (size_t j = 0; j < sorted.size(); ++j)
      EXPECT_EQ(treeKey(sorted[i]) < treeKey(sorted[j]), i < j) << sorted[i] << " " << sorted[j];
  EXPECT_EQ(treeKey(T(-0.0)), treeKey(T(0)));
  EXPECT_GT(treeKey(T(-Infinity)), 0U);
  EXPECT_LT(treeKey(T(Infinity)), ~TreeKey<T>(1));
}

TEST(Trees, KeysAreInTheOrderOfNumbers) {
  keysAreInTheOrderOfNumbers<float>();
  keysAreInTheOrderOfNumbers<double>();
}

/// Trees of one test each, that feature 0 is greater than the number of the tree: 1 below, the
/// number above. NaN is greater in odd trees.
template <class T, class Link> struct Stumps {
  std::vector<TreeNode<T, Link>> nodes;
  std::vector<int32_t> roots, slots{0, 1};
  int64_t count;

  explicit Stumps(int64_t count) : count(count) {
    constexpr auto Together = static_cast<int64_t>(TreesTogether);
    for (int64_t tree = 0; tree < (count + Together - 1) / Together * Together; ++tree) {
      roots.push_back(tree < count ? static_cast<int32_t>(nodes.size()) : 0);
      if (tree % Together == Together - 1)
        roots.push_back(1);
      if (tree >= count)
        continue;
      nodes.push_back({treeKey(static_cast<T>(tree)), static_cast<Link>(1 + tree % 2), 1});
      for (const T weight : {T(1), static_cast<T>(tree)}) {
        TreeNode<T, Link> leaf{0, 0, 0};
        std::memcpy(&leaf.key, &weight, sizeof weight);
        nodes.push_back(leaf);
      }
    }
  }
  std::vector<T> of(std::vector<T> x, TreeAggregate aggregate) {
    const auto rows = static_cast<int64_t>(x.size());
    std::vector<T> y(x.size() + 1, 42);
    std::vector<TreeKey<T>> workspace(static_cast<size_t>(treeWorkspace(rows, 2)));
    void *operands[] = {y.data(), x.data(), nodes.data(), roots.data(),    slots.data(),
                        nullptr,  nullptr,  nullptr,      workspace.data()};
    const int64_t parameters[] = {TypeOf<T>, sizeof(Link) == sizeof(WideLink), rows, 1, count,
                                  1,         static_cast<int64_t>(aggregate),  2};
    Kernels[static_cast<size_t>(KernelId::TreeEnsemble)](operands, parameters);
    EXPECT_EQ(y.back(), 42) << "written beyond the end";
    y.pop_back();
    return y;
  }
};

template <class T, class Link> void stumpsGiveTheirLeaves() {
  const std::vector<double> values{-Infinity, -1, -0.0, 0, 0.5, 3, 7.5, 8, 1e9, Infinity, NaN};
  for (const int64_t count : {1, 7, 8, 9, 40}) {
    // More rows than are taken together.
    std::vector<T> x;
    for (size_t i = 0; i < 5 * values.size(); ++i)
      x.push_back(static_cast<T>(values[i % values.size()]));
    Stumps<T, Link> stumps(count);
    const std::vector<T> sum = stumps.of(x, TreeAggregate::Sum),
                         mean = stumps.of(x, TreeAggregate::Average),
                         least = stumps.of(x, TreeAggregate::Min),
                         most = stumps.of(x, TreeAggregate::Max);
    for (size_t i = 0; i < x.size(); ++i) {
      double total = 0, low = Infinity, high = -Infinity;
      for (int64_t tree = 0; tree < count; ++tree) {
        const bool isAbove = x[i] != x[i] ? tree % 2 == 1 : x[i] > static_cast<T>(tree);
        const double given = isAbove ? static_cast<double>(tree) : 1;
        total += given;
        low = std::min(low, given);
        high = std::max(high, given);
      }
      EXPECT_EQ(sum[i], static_cast<T>(total)) << x[i] << " " << count;
      EXPECT_EQ(mean[i], static_cast<T>(total) / static_cast<T>(count)) << x[i];
      EXPECT_EQ(least[i], static_cast<T>(low)) << x[i];
      EXPECT_EQ(most[i], static_cast<T>(high)) << x[i];
    }
    EXPECT_TRUE(stumps.of({}, TreeAggregate::Sum).empty());
  }
}

TEST(Trees, OfOneTestGiveTheirLeaves) {
  stumpsGiveTheirLeaves<float, NarrowLink>();
  stumpsGiveTheirLeaves<float, WideLink>();
  stumpsGiveTheirLeaves<double, WideLink>();
}

TEST(Trees, LeavesGiveToSeveralTargetsOrToNone) {
  // Leaf 0 gives to targets 2 and 0, leaf 1 to none. The tree is deeper than is gone at once.
  constexpr size_t Depth = 20;
  std::vector<TreeNode<float, NarrowLink>> nodes(1);
  for (size_t i = 0; i < Depth; ++i) { // greater goes on, others end in leaf 1
    nodes[2 * i] = {treeKey(static_cast<float>(i)), 1, 1};
    nodes.push_back({1, 0, 0});
    nodes.push_back({0, 0, 0});
  }
  std::vector<int32_t> roots(TreesTogether, 0), slots{0}, starts{0, 2, 2}, targets{2, 0};
  roots.push_back(static_cast<int32_t>(Depth));
  std::vector<float> weights{5, 7}, x{100, 19, 20}, y(9);
  std::vector<uint32_t> workspace(static_cast<size_t>(treeWorkspace(3, 1)));
  void *operands[] = {y.data(),      x.data(),       nodes.data(),   roots.data(),    slots.data(),
                      starts.data(), targets.data(), weights.data(), workspace.data()};
  const int64_t parameters[] = {Float32, 0, 3, 1, 1, 3, static_cast<int64_t>(TreeAggregate::Max),
                                1};
  Kernels[static_cast<size_t>(KernelId::TreeEnsemble)](operands, parameters);
  EXPECT_EQ(y, (std::vector<float>{7, 0, 5, 0, 0, 0, 7, 0, 5}));
}

template <class T> std::vector<float> found(Type type, std::vector<T> x, std::vector<T> keys) {
  std::vector<float> values(keys.size()), y(x.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i);
  float other = -1;
  void *operands[] = {y.data(), x.data(), keys.data(), values.data(), &other};
  const int64_t parameters[] = {type, sizeof(float), static_cast<int64_t>(x.size()),
                                static_cast<int64_t>(keys.size())};
  Kernels[static_cast<size_t>(KernelId::Lookup)](operands, parameters);
  return y;
}

TEST(Lookup, FindsKeysAndNaN) {
  constexpr int64_t Least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(found<int64_t>(Int64, {Least, 3, 4, -1}, {Least, -1, 3}),
            (std::vector<float>{0, 2, -1, 1}));
  EXPECT_EQ(found<double>(Float64, {NaN, -Infinity, 0.0, -0.0, 2}, {-Infinity, 0, Infinity, NaN}),
            (std::vector<float>{3, 0, 1, 1, -1}));
  EXPECT_EQ(found<float>(Float32, {float(NaN), 1}, {1}), (std::vector<float>{-1, 0}));
  EXPECT_EQ(found<float>(Float32, {1}, {}), std::vector<float>{-1});
}

TEST(CoupledProbabilities, AreThoseThatMadeThePairs) {
  const std::vector<double> p{0.5, 0.2, 0.25, 0.05};
  std::vector<double> pairs, y(2 * p.size());
  for (int row = 0; row < 2; ++row)
    for (size_t i = 0; i < p.size(); ++i)
      for (size_t j = i + 1; j < p.size(); ++j)
        pairs.push_back(row == 0 ? p[i] / (p[i] + p[j]) : 0.5);
  void *operands[] = {y.data(), pairs.data()};
  const int64_t parameters[] = {Float64, 2, static_cast<int64_t>(p.size())};
  Kernels[static_cast<size_t>(KernelId::CoupledProbabilities)](operands, parameters);
  for (size_t i = 0; i < p.size(); ++i) {
    EXPECT_NEAR(y[i], p[i], 0.005); // it ends when it is that close
    EXPECT_NEAR(y[p.size() + i], 0.25, 1e-12);
  }
}

} // namespace
} // namespace mlbridge::native
