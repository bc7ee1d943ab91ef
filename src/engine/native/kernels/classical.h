// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of the operators of ai.onnx.ml. A "type" is a Type of kernel.h, a float one.
//
// TreeEnsemble   {y [rows, targets], x [rows, features], nodes, roots int32 [trees], starts int32
//                [leaves + 1], targets int32, weights}
//                {type, rows, features, trees, targets, TreeAggregate, whether leaf i gives
//                weight i to the only target (0, 1)}
//                Each row goes down each tree; entries starts[leaf] … starts[leaf + 1] - 1 of
//                targets and weights are what a leaf gives. `nodes` are TreeNode of that type; the
//                two children of a node are neighbours.
// Lookup         {y, x, keys [n], values [n], value of the others}
//                {type of x and keys (int64 too), bytes of a value, count, n}
//                keys are sorted, NaN at the end.
// CoupledProbabilities {y [rows, classes], r [rows, pairs]}  {type, rows, classes}
//                Probabilities of classes from those of pairs (0, 1), (0, 2), …: that of the first
//                of two. Wu, Lin, Weng: Probability Estimates for Multi-class Classification by
//                Pairwise Coupling (JMLR 5, 2004), algorithm 2.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_CLASSICAL_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_CLASSICAL_H

#include "movement.h"

namespace mlbridge::native {

enum class TreeAggregate : int64_t { Average, Sum, Min, Max }; ///< the numbers of ONNX

/// A row goes to the second child if its feature is greater than the threshold. A leaf is its own
/// first child, and its threshold is a NaN whose last bits are its number.
template <class T> struct TreeNode {
  T threshold;
  uint32_t test; ///< the feature, TreeBranch and TreeNanSecond
  uint32_t next; ///< the first child
};
constexpr uint32_t TreeFeatures = uint32_t(1) << 30, TreeBranch = TreeFeatures; // not a leaf
constexpr uint32_t TreeNanSecond = uint32_t(1) << 31; // a NaN goes to the second child
constexpr uint32_t TreeLeafBits = 22;
constexpr uint32_t TreeLeaves = uint32_t(1) << TreeLeafBits; ///< at most, in float32

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

// ---- trees -------------------------------------------------------------------------------------

template <class T> struct TreeWalk {
  const T *x;
  const TreeNode<T> *nodes;

  /// One step down in each of N trees, side by side, since each step waits for memory.
  template <bool HasNan, size_t N> MLBRIDGE_INLINE void step(uint32_t *at) const {
    if constexpr (N > 0) {
      step<HasNan, N - 1>(at);
      const TreeNode<T> &node = nodes[at[N - 1]];
      const T value = x[node.test & (TreeFeatures - 1)];
      uint32_t isSecond = value > node.threshold;
      if (HasNan)
        isSecond |= static_cast<uint32_t>(value != value) & node.test >> 31;
      at[N - 1] = node.next + isSecond;
    }
  }
  template <size_t N> MLBRIDGE_INLINE uint32_t tests(const uint32_t *at) const {
    if constexpr (N > 0)
      return tests<N - 1>(at) | nodes[at[N - 1]].test;
    return 0;
  }
  /// Where the row ends in each of N trees.
  template <size_t N, bool HasNan>
  MLBRIDGE_INLINE void descend(const int32_t *roots, uint32_t *ends) const {
    uint32_t at[N];
    for (size_t i = 0; i < N; ++i)
      at[i] = static_cast<uint32_t>(roots[i]);
    while (tests<N>(at) & TreeBranch) {
      step<HasNan, N>(at);
      step<HasNan, N>(at);
      step<HasNan, N>(at);
    }
    for (size_t i = 0; i < N; ++i) {
      uint32_t bits; // the low ones of the threshold
      __builtin_memcpy(&bits, &nodes[at[i]].threshold, sizeof bits);
      ends[i] = bits & (TreeLeaves - 1);
    }
  }
};

/// What leaves give to one target, or to several.
template <class T> struct TreeLeafValues {
  const int32_t *starts, *targets;
  const T *weights;
  TreeAggregate aggregate;
  bool isSingle; ///< each leaf gives one number, all to one target

  template <size_t N> MLBRIDGE_INLINE void add(T *y, const uint32_t *leaves) const {
    if (isSingle && aggregate <= TreeAggregate::Sum) {
      T sum = weights[leaves[0]];
      for (size_t i = 1; i < N; ++i)
        sum += weights[leaves[i]];
      *y += sum;
      return;
    }
    for (size_t i = 0; i < N; ++i)
      for (int32_t e = starts[leaves[i]]; e < starts[leaves[i] + 1]; ++e)
        addOne(y[targets[e]], weights[e]);
  }

private:
  MLBRIDGE_INLINE void addOne(T &sum, T weight) const {
    if (aggregate <= TreeAggregate::Sum)
      sum += weight;
    else if (aggregate == TreeAggregate::Min ? weight < sum : weight > sum)
      sum = weight;
  }
};

template <class T, bool HasNan>
MLBRIDGE_INLINE void allTrees(T *y, const TreeWalk<T> &walk, const int32_t *roots, int64_t trees,
                              const TreeLeafValues<T> &values) {
  constexpr size_t Together = 8;
  uint32_t ends[Together];
  int64_t tree = 0;
  for (; tree + static_cast<int64_t>(Together) <= trees; tree += Together) {
    walk.template descend<Together, HasNan>(roots + tree, ends);
    values.template add<Together>(y, ends);
  }
  for (; tree < trees; ++tree) {
    walk.template descend<1, HasNan>(roots + tree, ends);
    values.template add<1>(y, ends);
  }
}

template <class T> MLBRIDGE_INLINE void treesOf(Operands operands, Parameters p) {
  auto *y = static_cast<T *>(operands[0]);
  const auto *x = static_cast<const T *>(operands[1]);
  const auto *nodes = static_cast<const TreeNode<T> *>(operands[2]);
  const auto *roots = static_cast<const int32_t *>(operands[3]);
  const int64_t rows = p[1], features = p[2], trees = p[3], width = p[4];
  const auto aggregate = static_cast<TreeAggregate>(p[5]);
  const TreeLeafValues<T> values{static_cast<const int32_t *>(operands[4]),
                                 static_cast<const int32_t *>(operands[5]),
                                 static_cast<const T *>(operands[6]), aggregate, p[6] != 0};
  const T most = static_cast<T>(__builtin_inf());
  const T start = aggregate <= TreeAggregate::Sum   ? 0
                  : aggregate == TreeAggregate::Min ? most
                                                    : -most;
  for (int64_t row = 0; row < rows; ++row, x += features, y += width) {
    bool hasNan = false;
    for (int64_t i = 0; i < features; ++i)
      hasNan |= x[i] != x[i];
    for (int64_t t = 0; t < width; ++t)
      y[t] = start;
    if (hasNan || sizeof(T) == sizeof(double)) // seldom: less code
      allTrees<T, true>(y, {x, nodes}, roots, trees, values);
    else
      allTrees<T, false>(y, {x, nodes}, roots, trees, values);
    for (int64_t t = 0; t < width; ++t)
      if (aggregate == TreeAggregate::Average)
        y[t] /= static_cast<T>(trees);
      else if (aggregate != TreeAggregate::Sum && y[t] == start) // no leaf gave it anything
        y[t] = 0;
  }
}

inline void TreeEnsemble(Operands operands, Parameters p) {
  if (p[0] == Float64)
    treesOf<double>(operands, p);
  else
    treesOf<float>(operands, p);
}

// ---- tables ------------------------------------------------------------------------------------

template <class T> MLBRIDGE_INLINE void lookup(Operands operands, Parameters p) {
  const auto *x = static_cast<const T *>(operands[1]);
  const auto *keys = static_cast<const T *>(operands[2]);
  const auto before = [](T a, T b) { return a < b || (b != b && a == a); };
  for (int64_t i = 0; i < p[2]; ++i) {
    int64_t low = 0, high = p[3];
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (before(keys[middle], x[i]))
        low = middle + 1;
      else
        high = middle;
    }
    const bool isFound = low < p[3] && !before(x[i], keys[low]);
    const void *value = isFound ? static_cast<const char *>(operands[3]) + low * p[1] : operands[4];
    moveOne(static_cast<char *>(operands[0]) + i * p[1], value, p[1]);
  }
}

inline void Lookup(Operands operands, Parameters p) {
  if (p[0] == Int64)
    lookup<int64_t>(operands, p);
  else if (p[0] == Float64)
    lookup<double>(operands, p);
  else
    lookup<float>(operands, p);
}

// ---- probabilities -----------------------------------------------------------------------------

template <class T> MLBRIDGE_INLINE void couple(T *y, const T *r, int64_t classes) {
  constexpr int64_t Least = 100; // rounds
  const T enough = static_cast<T>(0.005) / static_cast<T>(classes);
  // r of (first, second), of which the list has one order.
  const auto of = [&](int64_t first, int64_t second) {
    const int64_t a = first < second ? first : second, b = first < second ? second : first;
    const T p = r[a * (2 * classes - a - 1) / 2 + b - a - 1];
    return first < second ? p : 1 - p;
  };
  const auto q = [&](int64_t i, int64_t j) {
    if (i != j)
      return -of(j, i) * of(i, j);
    T sum = 0;
    for (int64_t k = 0; k < classes; ++k)
      sum += k == i ? 0 : of(k, i) * of(k, i);
    return sum;
  };
  const auto product = [&](int64_t i) {
    T sum = 0;
    for (int64_t j = 0; j < classes; ++j)
      sum += q(i, j) * y[j];
    return sum;
  };
  for (int64_t i = 0; i < classes; ++i)
    y[i] = 1 / static_cast<T>(classes);
  for (int64_t round = 0; round < (classes > Least ? classes : Least); ++round) {
    T whole = 0, worst = 0;
    for (int64_t i = 0; i < classes; ++i)
      whole += y[i] * product(i);
    for (int64_t i = 0; i < classes; ++i) {
      const T error = product(i) - whole;
      worst = (error < 0 ? -error : error) > worst ? (error < 0 ? -error : error) : worst;
    }
    if (!(worst >= enough))
      return;
    for (int64_t i = 0; i < classes; ++i) {
      const T diagonal = q(i, i), step = (whole - product(i)) / diagonal;
      whole = (whole + step * (step * diagonal + 2 * product(i))) / (1 + step) / (1 + step);
      y[i] += step;
      for (int64_t j = 0; j < classes; ++j)
        y[j] /= 1 + step;
    }
  }
}

inline void CoupledProbabilities(Operands operands, Parameters p) {
  const int64_t classes = p[2], pairs = classes * (classes - 1) / 2;
  for (int64_t row = 0; row < p[1]; ++row)
    if (p[0] == Float64)
      couple(static_cast<double *>(operands[0]) + row * classes,
             static_cast<const double *>(operands[1]) + row * pairs, classes);
    else
      couple(static_cast<float *>(operands[0]) + row * classes,
             static_cast<const float *>(operands[1]) + row * pairs, classes);
}

} // namespace mlbridge::native::kernels

#endif
