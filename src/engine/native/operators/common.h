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
enum class ReduceOp { Sum, Mean, Max, Min, Prod, L1, SumSquare };
/// Failures: the shapes of the inputs are not what is expected, or an attribute's value is not.
Refused misfit(Lowering &l, const char *expected);
Refused wrong(Lowering &l, const char *attribute, int64_t value);
Refused wrong(Lowering &l, const char *attribute, std::string_view value);
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

/// The numbers 0 … size − 1 in the order of `isBefore`, equal ones as they were. All of planning
/// sorts by this, so that there is one sort in the library rather than one for each type.
std::vector<size_t> sortedBy(size_t size, bool (*isBefore)(const void *, size_t, size_t),
                             const void *context);
template <typename IsBefore> std::vector<size_t> sorted(size_t size, const IsBefore &isBefore) {
  const auto call = [](const void *context, size_t a, size_t b) {
    return (*static_cast<const IsBefore *>(context))(a, b);
  };
  return sortedBy(size, call, &isBefore);
}
void sort(Integers &numbers);

/// {rank, then for each dimension: length, stride of each operand}, with dimensions merged where
/// possible and at least one of them.
Integers broadcastLoops(const Shape &out, const std::vector<const Value *> &operands);
/// Like broadcastLoops, for any strides.
Integers mergedLoops(const Shape &lengths, const std::vector<Integers> &strides);

Integers joined(Integers a, const Integers &b);

// All of these make new values. Kernels of floats are named by the one for float32.
Value *unary(Lowering &l, KernelId kernel, Value *x, double alpha = 0, double beta = 0);
/// These change the sign of a float alone, of a half too.
Value *absolute(Lowering &l, Value *x);
Value *negate(Lowering &l, Value *x);
/// The unsigned type of a width.
int64_t bitsOf(const Value *x);
/// Infinity, or its negative, as a constant.
Value *infinity(Lowering &l, ElementType type, bool isNegative = false);
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
/// y[i] = x[first + Σ i · strides] in elements, a copy.
Value *strided(Lowering &l, Value *x, const Shape &shape, const Integers &strides, int64_t first);
/// Copies all of x into y, at `starts`.
void place(Lowering &l, Value *y, Value *x, const Integers &starts);
Value *fill(Lowering &l, ElementType type, const Shape &shape, Value *one);
Value *where(Lowering &l, Value *condition, Value *a, Value *b);
Value *compare(Lowering &l, CompareOp op, Value *a, Value *b);
/// Calls a kernel of broadcast operands, which takes loops after its first parameters.
Value *broadcasted(Lowering &l, KernelId kernel, ElementType type,
                   std::initializer_list<Value *> reads, Integers first);
/// alpha a·b of matrices a [..., m, k] and b [..., k, n], or [..., n, k] if `transB`, broadcast
/// over what comes before. Integers have neither alpha nor `transB`.
Value *matmul(Lowering &l, Value *a, Value *b, bool transB = false, double alpha = 1);
/// Elements of a matrix [k, n] of b's type, as Gemm takes it.
int64_t packedSize(const Value *b, int64_t k, int64_t n);
/// The operator Gemm.
Status gemm(Lowering &l);
/// A product of matrices [..., m, k] and [..., k, n], or of a row or column.
struct Factors {
  int64_t m = 0, k = 0, n = 0;
  Value *batchA = nullptr, *batchB = nullptr; ///< views that have the batch's dimensions only
  Shape batch, result;
  /// Elements between matrices along dimension i of the batch.
  int64_t strideA(size_t i) const { return stride(i, batchA, m * k); }
  int64_t strideB(size_t i) const { return stride(i, batchB, k * n); }
  int64_t stride(size_t i, const Value *v, int64_t matrix) const;
};
/// b is [..., n, k] if `transB`.
bool readFactors(Lowering &l, Value *a, Value *b, Factors &f, bool transB = false);
/// The product of floats that stand for bytes, by way of these; null if they don't, or on failure.
/// b is [n, k] if it is transposed; `bias` is of floats, one or n.
Value *quantizedProduct(Lowering &l, Value *a, Value *b, bool isTransposed, Value *bias);
/// If x is a product of bytes, used here only, the product becomes one of floats, times `scale`
/// and plus `bias`, where they aren't null. Null if it can't be.
Value *fuseIntoBytes(Lowering &l, Value *x, Value *scale, Value *bias);
/// Reduces along `axes` (sorted, in range); lengths of 1 stay if `keep`.
Value *reduce(Lowering &l, KernelId kernel, ReduceOp op, Value *x, const Integers &axes, bool keep);

/// If x is the result of a product of matrices and used here only, the product does it as well.
bool fuseActivation(Lowering &l, Value *x, Activation activation, double alpha, double beta);
bool fuseBias(Lowering &l, Value *x, Value *bias);

} // namespace mlbridge::native

#endif
