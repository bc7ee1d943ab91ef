// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building blocks of operators.
#ifndef MLBRIDGE_ENGINE_NATIVE_OPERATORS_COMMON_H
#define MLBRIDGE_ENGINE_NATIVE_OPERATORS_COMMON_H

#include "engine/native/kernels/indexed.h"
#include "engine/native/lowering.h"
#include "engine/native/planner.h"
#include "engine/native/registry.h"

#include <algorithm>

namespace mlbridge::native {

inline int64_t code(ElementType type) { return static_cast<int64_t>(type); }
template <typename E> int64_t number(E enumerator) { return static_cast<int64_t>(enumerator); }
inline int64_t width(const Value *value) { return static_cast<int64_t>(sizeOf(value->type)); }
inline int64_t count(const Value *value) { return static_cast<int64_t>(value->count); }
/// A tensor around one of its dimensions: [outer, n, inner].
struct Along {
  size_t axis = 0;
  int64_t outer = 1, n = 1, inner = 1;
  Along() = default;
  Along(const Value *x, int64_t axis)
      : axis(static_cast<size_t>(axis)), outer(product(x->shape, 0, this->axis)),
        n(x->shape[this->axis]), inner(product(x->shape, this->axis + 1, x->rank())) {}
};
/// Around the dimension that the attribute 'axis' names.
bool readAxis(Lowering &l, const Value *x, int64_t fallback, Along &out);
/// Elements between neighbours of each dimension of a dense tensor.
Integers denseStrides(const Shape &shape);
/// 0, 1, …, rank - 1
Integers allAxes(size_t rank);

/// {rank, then for each dimension: length, stride of each operand}, with dimensions merged where
/// possible and at least one of them.
Integers broadcastLoops(const Shape &out, const std::vector<const Value *> &operands);
/// Like broadcastLoops, for any strides.
Integers mergedLoops(const Shape &lengths, const std::vector<Integers> &strides);

inline Integers joined(Integers a, const Integers &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// All of these make new values. Kernels of floats are named by the one for float32.
Value *unary(Lowering &l, KernelId kernel, Value *x, double alpha = 0, double beta = 0);
Value *binary(Lowering &l, KernelId kernel, Value *a, Value *b);
Value *integerBinary(Lowering &l, IntegerOp op, Value *a, Value *b);
Value *logicalNot(Lowering &l, Value *x);
/// Applies a kernel of floats or an operation on integers, by the type.
Value *arithmetic(Lowering &l, KernelId kernel, IntegerOp op, Value *a, Value *b);
Value *cast(Lowering &l, Value *x, ElementType type);
Value *copy(Lowering &l, Value *x);
Value *transpose(Lowering &l, Value *x, const Integers &order);
/// `shape` must be one that x can be broadcast to.
Value *expand(Lowering &l, Value *x, const Shape &shape);
/// y[i] = x[start + i · step] along each dimension; x itself where nothing changes.
Value *slice(Lowering &l, Value *x, const Shape &lengths, const Integers &starts,
             const Integers &steps);
/// Copies all of x into y, at `starts`.
void place(Lowering &l, Value *y, Value *x, const Integers &starts);
Value *fill(Lowering &l, ElementType type, const Shape &shape, Value *one);
Value *where(Lowering &l, Value *condition, Value *a, Value *b);
Value *compare(Lowering &l, CompareOp op, Value *a, Value *b);
/// Calls a kernel of broadcast operands, which takes loops after its first parameters.
Value *broadcasted(Lowering &l, KernelId kernel, ElementType type,
                   std::initializer_list<Value *> reads, Integers first);
/// Matrices a [..., m, k] and b [..., k, n] of floats, broadcast over what comes before.
Value *matmul(Lowering &l, Value *a, Value *b);
/// Reduces along `axes` (sorted, in range); lengths of 1 stay if `keep`.
Value *reduce(Lowering &l, KernelId kernel, ReduceOp op, Value *x, const Integers &axes, bool keep);

/// If x is the result of a product of matrices and used here only, the product does it as well.
bool fuseActivation(Lowering &l, Value *x, Activation activation, double alpha, double beta);
bool fuseBias(Lowering &l, Value *x, Value *bias);

} // namespace mlbridge::native

#endif
