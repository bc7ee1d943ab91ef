// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of the operators of ai.onnx.ml. A "type" is a Type of kernel.h, a float one.
//
// TreeEnsemble   {y [rows, targets], x [rows, features], nodes, roots int32, slots int32, starts
// int32 [leaves + 1]?, targets int32?,
//                weights?, workspace}
//                {type, whether links are wide (0, 1), rows, features, trees, targets,
//                TreeAggregate, slots}
//                Roots are those of TreesTogether trees, then the most steps from there to a leaf,
//                and so on. Each row goes down each tree; entries starts[leaf] … starts[leaf + 1] -
//                1 of targets and weights are what a leaf gives. Without starts each leaf gives one
//                number to the only target. A slot is a feature as a key: 2 · feature, plus 1 if a
//                NaN there is greater than all numbers rather than less. Slot 0 is a key below all
//                and has no entry in slots. The workspace has treeWorkspace() keys.
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

template <class T> struct TreeKeyOf;
template <> struct TreeKeyOf<float> {
  using Type = uint32_t;
};
template <> struct TreeKeyOf<double> {
  using Type = uint64_t;
};
/// An integer in place of a float: of two numbers the greater one has the greater key.
template <class T> using TreeKey = typename TreeKeyOf<T>::Type;
template <class T> MLBRIDGE_INLINE TreeKey<T> treeKey(T x) {
  x += 0; // -0 equals 0
  TreeKey<T> bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  constexpr TreeKey<T> Sign = TreeKey<T>(1) << (8 * sizeof bits - 1);
  return bits & Sign ? ~bits : bits | Sign;
}

/// A row goes to the second child if the key of its slot is greater. Children are neighbours, and
/// `skip` is the way to the first. A leaf has slot 0, so that the row stays where it is, and its
/// key has the bits of its weight or its number.
template <class T, class Link> struct TreeNode {
  TreeKey<T> key;
  Link slot, skip;
};
using NarrowLink = uint16_t;
using WideLink = int32_t;
constexpr size_t TreesTogether = 8; ///< that one row goes down side by side
constexpr int64_t TreeRows = 32;    ///< that go down these trees one after the other
inline int64_t treeWorkspace(int64_t rows, int64_t slots) {
  return (rows < TreeRows ? rows : TreeRows) * (slots + 1);
}

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

// ---- trees -------------------------------------------------------------------------------------

template <class T, class Link> struct TreeWalk {
  const TreeNode<T, Link> *nodes;
  const TreeKey<T> *keys;

  /// One step down in each of N trees, side by side, since each step waits for memory.
  template <size_t N> MLBRIDGE_INLINE void step(size_t *at) const {
    if constexpr (N > 0) {
      step<N - 1>(at);
      const TreeNode<T, Link> &node = nodes[at[N - 1]];
      const size_t first = at[N - 1] + static_cast<size_t>(node.skip);
      at[N - 1] = first + static_cast<size_t>(node.key < keys[node.slot]);
    }
  }
  /// A function of its own, so that its variables stay in registers.
  MLBRIDGE_SHARED void steps(size_t *at, int32_t count) const {
    size_t here[TreesTogether];
#pragma GCC unroll 8
    for (size_t i = 0; i < TreesTogether; ++i)
      here[i] = at[i];
#pragma GCC unroll 1
    for (; count > 0; --count)
      step<TreesTogether>(here);
#pragma GCC unroll 8
    for (size_t i = 0; i < TreesTogether; ++i)
      at[i] = here[i];
  }
  /// Where a row ends in these trees.
  MLBRIDGE_INLINE void descend(const int32_t *roots, size_t *at) const {
    constexpr int32_t Most = 6; // steps before looking for leaves
    for (size_t i = 0; i < TreesTogether; ++i)
      at[i] = static_cast<size_t>(roots[i]);
    for (int32_t depth = roots[TreesTogether]; depth > 0; depth -= Most) {
      steps(at, depth < Most ? depth : Most);
      Link tests = 0;
      for (size_t i = 0; depth > Most && i < TreesTogether; ++i)
        tests |= nodes[at[i]].slot;
      if (tests == 0)
        break;
    }
  }
};

/// What leaves give to one target, or to several.
template <class T> struct TreeLeafValues {
  const int32_t *starts, *targets;
  const T *weights;
  TreeAggregate aggregate;

  /// What the leaves with these keys give; `leaf(i)` is the key of number i.
  template <class Leaf> MLBRIDGE_INLINE void add(T *y, Leaf leaf, int64_t count) const {
    if (!starts && count == TreesTogether && aggregate <= TreeAggregate::Sum) {
      T sum = given(leaf(0));
#pragma GCC unroll 8
      for (size_t i = 1; i < TreesTogether; ++i)
        sum += given(leaf(i));
      *y += sum;
      return;
    }
    for (int64_t i = 0; i < count; ++i)
      if (!starts)
        addOne(*y, given(leaf(i)));
      else
        for (int32_t e = starts[leaf(i)]; e < starts[leaf(i) + 1]; ++e)
          addOne(y[targets[e]], weights[e]);
  }

private:
  /// The number with these bits.
  static MLBRIDGE_INLINE T given(TreeKey<T> leaf) {
    T weight;
    __builtin_memcpy(&weight, &leaf, sizeof weight);
    return weight;
  }
  MLBRIDGE_INLINE void addOne(T &sum, T weight) const {
    if (aggregate <= TreeAggregate::Sum)
      sum += weight;
    else if (aggregate == TreeAggregate::Min ? weight < sum : weight > sum)
      sum = weight;
  }
};

template <class T, class Link> MLBRIDGE_INLINE void treesOf(Operands operands, Parameters p) {
  using Key = TreeKey<T>;
  constexpr auto Together = static_cast<int64_t>(TreesTogether);
  auto *y = static_cast<T *>(operands[0]);
  const auto *x = static_cast<const T *>(operands[1]);
  const auto *nodes = static_cast<const TreeNode<T, Link> *>(operands[2]);
  const auto *roots = static_cast<const int32_t *>(operands[3]);
  const auto *slots = static_cast<const int32_t *>(operands[4]);
  auto *keys = static_cast<Key *>(operands[8]);
  const int64_t features = p[3], trees = p[4], width = p[5], used = p[7];
  const auto aggregate = static_cast<TreeAggregate>(p[6]);
  const TreeLeafValues<T> values{static_cast<const int32_t *>(operands[5]),
                                 static_cast<const int32_t *>(operands[6]),
                                 static_cast<const T *>(operands[7]), aggregate};
  const T most = static_cast<T>(__builtin_inf());
  const T start = aggregate <= TreeAggregate::Sum   ? 0
                  : aggregate == TreeAggregate::Min ? most
                                                    : -most;
  for (int64_t rows = p[2], some; rows > 0; rows -= some, x += some * features, y += some * width) {
    some = rows < TreeRows ? rows : TreeRows;
    for (int64_t row = 0; row < some; ++row) {
      Key *of = keys + row * (used + 1);
      of[0] = 0;
      for (int64_t i = 0; i < used; ++i) {
        const T value = x[row * features + (slots[i] >> 1)];
        of[i + 1] = value == value ? treeKey(value) : slots[i] & 1 ? ~Key(0) : 0;
      }
    }
    for (int64_t i = 0; i < some * width; ++i)
      y[i] = start;
    for (int64_t tree = 0; tree < trees; tree += Together)
      for (int64_t row = 0; row < some; ++row) {
        size_t at[TreesTogether];
        const TreeWalk<T, Link> walk{nodes, keys + row * (used + 1)};
        walk.descend(roots + tree / Together * (Together + 1), at);
        values.add(
            y + row * width, [&](size_t i) { return nodes[at[i]].key; },
            trees - tree < Together ? trees - tree : Together);
      }
    for (int64_t i = 0; i < some * width; ++i)
      if (aggregate == TreeAggregate::Average)
        y[i] /= static_cast<T>(trees);
      else if (aggregate != TreeAggregate::Sum && y[i] == start) // no leaf gave it anything
        y[i] = 0;
  }
}

inline void TreeEnsemble(Operands operands, Parameters p) {
  if (p[0] == Float64)
    treesOf<double, WideLink>(operands, p);
  else if (p[1])
    treesOf<float, WideLink>(operands, p);
  else
    treesOf<float, NarrowLink>(operands, p);
}

// ---- tables ------------------------------------------------------------------------------------

template <class T> MLBRIDGE_INLINE void lookup(Operands operands, Parameters p) {
  const auto *x = static_cast<const T *>(operands[1]);
  const auto *keys = static_cast<const T *>(operands[2]);
  const auto before = [](T a, T b) { return (a < b) | ((b != b) & (a == a)); };
  for (int64_t i = 0; i < p[2]; ++i) {
    int64_t low = 0; // found without branches that depend on the numbers
    for (int64_t left = p[3], half; left > 0; left -= half) {
      half = (left + 1) / 2;
      low += half * before(keys[low + half - 1], x[i]);
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
