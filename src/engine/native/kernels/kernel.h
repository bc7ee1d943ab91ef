// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels that a planned network is made of, by number, and the instruction sets they are
// built for. Freestanding: it is also what the ahead-of-time compiler's output includes.
//
// A kernel reads and writes what its operands point to, as its parameters say. Its result is the
// same bits for every instruction set (NaN is NaN; its sign and payload are not specified).
// - Operands: results first, then what is read. "?" marks one that may be null. Tensors are
//   row-major and aligned as their elements are; results may not overlap what is read, except that
//   an elementwise kernel may work in place (the very same pointer).
// - Parameters are lengths and strides in elements. A "real" is the bits of a double.
// - Kernels don't check what was known when the network was planned. One that meets a bad value in
//   its data (an index out of range) sets the int64 `fault`, its last operand, to 1 and goes on
//   without touching memory that isn't its own; whoever evaluates clears the fault before and looks
//   at it after.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_KERNEL_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_KERNEL_H

#include <cstddef>
#include <cstdint>

#define MLBRIDGE_ALWAYS __attribute__((always_inline))
#define MLBRIDGE_INLINE inline MLBRIDGE_ALWAYS
// Code that several kernels share is one function in the library, and inlined where the
// ahead-of-time compiler makes code for one network.
#ifdef MLBRIDGE_NATIVE_SPECIALIZE
#define MLBRIDGE_SHARED MLBRIDGE_INLINE
#define MLBRIDGE_RARE MLBRIDGE_INLINE
#define MLBRIDGE_OUTLINE
// Marks what code of every instruction set calls, without vectors of its own. Only those define it
// who define MLBRIDGE_NATIVE_BUSY or MLBRIDGE_NATIVE_RARE first: busy.cpp, rare.cpp, and each
// compiled network, both.
#define MLBRIDGE_PLAIN MLBRIDGE_INLINE
#else
#define MLBRIDGE_PLAIN
#define MLBRIDGE_SHARED __attribute__((noinline))
// Marks code that is compiled for size rather than speed.
#define MLBRIDGE_RARE __attribute__((noinline, cold))
// Marks such code that isn't a template.
#define MLBRIDGE_OUTLINE __attribute__((noinline))
#endif

// clang-format off
// Kernels for float and double: X(Gemm) stands for GemmF32 and GemmF64, made of `template <class V>
// void Gemm(Operands, Parameters)` over a vector class.
//
// ---- matrices -----------------------------------------------------------------------------------
// Gemm          {y, a, b, c?}  y = activation(alpha a·b + beta c), for each of a batch.
//               A row of y depends on its row of a alone, not on how many there are.
//               {m, k, n, row stride of a, stride of b, row stride of y,
//                row stride of c, column stride of c (0 or 1),
//                real alpha, real beta, Activation, its real alpha, its real beta,
//                batch rank, then for each of its dimensions, outermost first:
//                length, stride of a, stride of b (of packed elements), of c, of y}
// PackGemm      {packed, b}  A matrix b as Gemm takes it, packedGemmSize(k, n) elements for each of
//               the batch. Constant ones are packed when the network is planned (packGemm of
//               sizes.h).
//               {k, n, row stride of b, column stride of b, batch, stride of b}
//
// ---- recurrent networks, as ONNX defines them (sizes.h has their sizes) -------------------------
// Lstm          {y?, last h?, last c?, x, packed w, packed r, bias?, lengths (int32)?, h0?, c0?,
//                peepholes?, workspace}
// Gru           {y?, last h?, x, packed w, packed r, bias?, lengths (int32)?, h0?, workspace}
// Rnn           {y?, last h?, x, packed w, packed r, bias?, lengths (int32)?, h0?, workspace}
//               One direction. w [gates·h, input] and r [gates·h, h] are packed by
//               packRecurrentWeights; bias is ONNX's B of that direction, [2·gates·h].
//               {steps, batch, input, hidden, reverse (0 or 1),
//                stride of x between steps, between batch entries,
//                stride of y between steps, between batch entries,
//                stride of h and c (initial and last) between batch entries,
//                real clip (0: none), flag (Lstm: input_forget, Gru: linear_before_reset),
//                then three times (Gru: two, Rnn: one): Activation, real alpha, real beta}
//               The workspace has recurrentWorkspace(...) elements.
//
// ---- convolution (spatial.h spreads the planes) -------------------------------------------------
// Conv          {y, x, w [groups · m, k], bias?, offsets int64 [k], workspace}
//               y = activation(w · the windows of x + bias). The offsets are those of a window's
//               elements from its first one.
//               {m, k, batch, groups, stride of x between groups, three lengths of the result,
//                strides of x between windows along the first two, Activation, its reals alpha and
//                beta}
//               The workspace has (k + lanes) · 4 lanes elements (fewer for fewer positions).
// Windows       {y, x, w [period, taps]?, bias [period]?, offsets int64 [taps]}  Of plane i / m of x
//               the sums of its windows' products with row i mod period of w, or without w their
//               greatest elements (NaN wins). A vector may be read from any window's element on.
//               {m, taps, planes of y, period, stride of x between planes, then as Conv}
//
// ---- elementwise, one operand: {y, x}  {count, real alpha, real beta} ---------------------------
// as the ONNX operator of that name; alpha and beta are its attributes in ONNX's order where it has
// any: Celu alpha; Clamp least, greatest; Elu alpha; HardSigmoid alpha, beta; LeakyRelu alpha; Selu
// alpha, gamma; Shrink lambd, bias; Swish alpha; ThresholdedRelu alpha; Affine: alpha x + beta in
// one rounding. GeluTanh is Gelu with approximate="tanh". Round is to even. Square is x·x.
//
// ---- elementwise, two operands: {y, a, b} -------------------------------------------------------
// Add Sub Mul Div Pow Max Min (NaN wins, as in NumPy) PRelu (b is the slope)
//               {rank, then for each dimension, outermost first: length, stride of a, stride of b}
//               y is dense. Merge dimensions where possible: rank 1 with strides 0 or 1 is fast.
//
// ---- along one axis of [outer, n, inner] --------------------------------------------------------
// Reduce*       {y [outer, inner], x}  {outer, n, inner}
// CountLess     {y [outer], a, b}  {or equal (0, 1), outer, n, stride of a between rows, in a row
//               (0 or 1), of b between rows, in a row}: of each row of n, how often a < b.
// CumSum        {y, x}  {outer, n, inner, exclusive, reverse, whether it is a product (0: sum)}
// Softmax LogSoftmax  {y, x}  {outer, n, inner}; may work in place.
//
// ---- normalization ------------------------------------------------------------------------------
// LayerNorm     {y, mean?, inverse deviation?, x, scale?, bias?}  {rows, n, real epsilon}
//               scale and bias have n elements, the others one for each row.
// RmsNorm       {y, x, scale?}  {rows, n, real epsilon}
// BatchNorm     {y, x, scale, bias, mean, variance}  {outer, channels, inner, real epsilon}
// GroupNorm     {y, x, scale?, bias?}  {batch, groups, channels of a group, inner, real epsilon}
//               scale and bias have groups · channels elements. InstanceNormalization is groups
//               of 1.
//
// ---- graphs -------------------------------------------------------------------------------------
// ScatterAddRows ScatterMulRows ScatterMaxRows ScatterMinRows
//               {y, updates [count, length], indices int64, fault}
//               Row indices[i · index stride] of y gets row i of updates, in the order of i. y
//               holds the values to start with. A negative index counts from the end. {count, rows
//               of y, length, index stride}
#define MLBRIDGE_NATIVE_FLOAT_UNARY(X)                                                             \
  X(Acos) X(Acosh) X(Affine) X(Asin) X(Asinh) X(Atan) X(Atanh) X(Ceil) X(Celu) X(Clamp)            \
  X(Cos) X(Cosh) X(Elu) X(Erf) X(Exp) X(Floor) X(Gelu) X(GeluTanh) X(HardSigmoid) X(HardSwish)     \
  X(LeakyRelu) X(Log) X(Mish) X(Reciprocal) X(Relu) X(Round) X(Selu) X(Shrink) X(Sigmoid)          \
  X(Sign) X(Sin) X(Sinh) X(Softplus) X(Softsign) X(Sqrt) X(Square) X(Swish) X(Tan) X(Tanh)         \
  X(ThresholdedRelu)
#define MLBRIDGE_NATIVE_FLOAT_BINARY(X) X(Add) X(Sub) X(Mul) X(Div) X(Pow) X(Max) X(Min) X(PRelu)
#define MLBRIDGE_NATIVE_FLOAT_KERNELS(X)                                                           \
  X(Gemm) X(PackGemm) X(Lstm) X(Gru) X(Rnn) X(Conv) X(Windows)                                                        \
  MLBRIDGE_NATIVE_FLOAT_UNARY(X) MLBRIDGE_NATIVE_FLOAT_BINARY(X)                                   \
  X(ReduceSum) X(ReduceMean) X(ReduceMax) X(ReduceMin) X(ReduceProd) X(ReduceL1) X(ReduceL2)       \
  X(ReduceSumSquare) X(ReduceLogSum) X(ReduceLogSumExp) X(CountLess)                               \
  X(CumSum) X(Softmax) X(LogSoftmax) X(LayerNorm) X(RmsNorm) X(BatchNorm) X(GroupNorm)             \
  X(ScatterAddRows) X(ScatterMulRows) X(ScatterMaxRows) X(ScatterMinRows)

// Kernels for other types that gain from vectors, `template <class Isa> void F32FromF16(...)`.
// F32FromF16 F16FromF32  {y, x}  {count}; to nearest, ties to even.
// blocks.h and quantized.h document the others.
#define MLBRIDGE_NATIVE_VECTOR_KERNELS(X) \
  X(F32FromF16) X(F16FromF32) X(Quantize) X(Dequantize) X(IntegerGemm) X(Compare) \
  X(IntegerBinary) X(IntegerReduce) X(Accumulate) X(Convert)

// Kernels that don't gain from vectors, built once and without flags of an instruction set: `inline
// void Name(Operands, Parameters)` in namespace mlbridge::native::kernels. The heads of movement.h,
// generic.h, indexed.h, spatial.h, attention.h and classical.h document them. The busy ones are
// compiled for speed, the others for size.
#define MLBRIDGE_NATIVE_BUSY_KERNELS(X) \
  X(Copy) X(CopyStrided) X(Gather) X(TreeEnsemble) X(SpreadPlanes) X(Interpolate) X(BestIndex) \
  X(TopK) X(RotaryEmbedding) X(Where) X(GatherElements) X(GatherNd) X(IntegerFunction) X(Range) \
  X(ScatterElements) X(ScatterNd) X(Trilu) X(JoinPhases) X(WindowIndices) X(GridSample)
#define MLBRIDGE_NATIVE_RARE_KERNELS(X) \
  X(Fill) X(OneHot) X(CountNonZero) X(NonZero) X(ReverseSequence) X(Fmod) \
  X(IntegerMatMul) X(TakeEntry) X(PutEntry) X(PackRecurrent) X(Lookup) X(CoupledProbabilities) \
  X(AttentionWindow) X(LinearAttention) X(TensorScatter) X(PackBytes) \
  X(QuantizationOf) X(Unique) X(Det) X(F32FromBF16) X(BF16FromF32) X(SuppressOverlaps)
#define MLBRIDGE_NATIVE_PLAIN_KERNELS(X)                                                           \
  MLBRIDGE_NATIVE_BUSY_KERNELS(X) MLBRIDGE_NATIVE_RARE_KERNELS(X)
// clang-format on

namespace mlbridge::native {

using Operands = void *const *;
using Parameters = const int64_t *;
/// The element types, with the numbers of mlbridge::ElementType.
enum Type : int64_t {
  Int8 = 1,
  Int16,
  Int32,
  Int64,
  UInt8,
  UInt16,
  UInt32,
  UInt64,
  Float16,
  Float32,
  Float64,
  Bool
};
using Kernel = void (*)(Operands operands, Parameters parameters);

/// A tensor has at most so many; more are refused when a model is opened.
constexpr int64_t MostDimensions = 24;
/// Loops of a kernel: Tile makes two of each dimension.
constexpr int64_t MostLoops = 2 * MostDimensions;

enum class KernelId : uint16_t {
#define MLBRIDGE_ID(name) name##F32, name##F64,
  MLBRIDGE_NATIVE_FLOAT_KERNELS(MLBRIDGE_ID)
#undef MLBRIDGE_ID
#define MLBRIDGE_ID(name) name,
      MLBRIDGE_NATIVE_VECTOR_KERNELS(MLBRIDGE_ID) MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_ID)
#undef MLBRIDGE_ID
          Count
};

/// Functions that Gemm and the recurrent kernels apply to their sums, with alpha and beta as the
/// elementwise kernel of that name.
// clang-format off
#define MLBRIDGE_NATIVE_ACTIVATIONS(X)                                                             \
  X(Affine) X(Clamp) X(Elu) X(HardSigmoid) X(LeakyRelu) X(Relu) X(Selu) X(Sigmoid) X(Softplus)     \
  X(Softsign) X(Tanh) X(ThresholdedRelu)
// clang-format on
enum class Activation : int64_t {
  None,
#define MLBRIDGE_ACTIVATION(Name) Name,
  MLBRIDGE_NATIVE_ACTIVATIONS(MLBRIDGE_ACTIVATION)
#undef MLBRIDGE_ACTIVATION
};
/// The elementwise kernel of float for an activation; Count for None.
MLBRIDGE_INLINE constexpr KernelId kernelOf(Activation activation) {
  switch (activation) {
#define MLBRIDGE_ACTIVATION(Name)                                                                  \
  case Activation::Name:                                                                           \
    return KernelId::Name##F32;
    MLBRIDGE_NATIVE_ACTIVATIONS(MLBRIDGE_ACTIVATION)
#undef MLBRIDGE_ACTIVATION
  default:
    return KernelId::Count;
  }
}

MLBRIDGE_INLINE int64_t real(double value) {
  int64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Puts kernels into a table, maybe in place of those of a lesser instruction set. Code does this,
/// as it is shorter than addresses in a constant, each of which has to be relocated.
using SetKernels = void(Kernel *table);

/// From the least to the most preferred.
enum class InstructionSet { Portable, Neon, Avx2, Avx512 };

/// The best of those built in that this CPU has; MLBRIDGE_NATIVE_ISA=portable|neon|avx2|avx512
/// chooses a lesser one. Decided once.
InstructionSet bestInstructionSet();
/// Indexed by KernelId. Null: not built in, or not of this CPU.
const Kernel *kernelsFor(InstructionSet set);

const char *nameOf(InstructionSet set);
/// The name of a kernel: "GemmF32".
const char *nameOf(KernelId id);

} // namespace mlbridge::native

#endif
