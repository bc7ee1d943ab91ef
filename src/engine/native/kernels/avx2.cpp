// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of policies that gain from vectors: those of float, and products of double. The rest
// is the portable table's, whose results are the same.
#include "engine/native/kernels/table.h"
#include "engine/native/kernels/vector_avx2.h"

namespace mlbridge::native {

// clang-format off
SetKernels setAvx2Kernels;
#define MLBRIDGE_CHOSEN(name) table[static_cast<int>(KernelId::name##F32)] = &kernels::name<kernels::Avx2::F32>;
#define MLBRIDGE_CHOSEN_F64(name) table[static_cast<int>(KernelId::name##F64)] = &kernels::name<kernels::Avx2::F64>;
#define MLBRIDGE_CHOSEN_OTHER(name) table[static_cast<int>(KernelId::name)] = &kernels::name<kernels::Avx2>;
void setAvx2Kernels(Kernel *table) {
    MLBRIDGE_CHOSEN(Gemm) MLBRIDGE_CHOSEN(Lstm) MLBRIDGE_CHOSEN(Gru) MLBRIDGE_CHOSEN(Rnn)
    MLBRIDGE_CHOSEN(Conv) MLBRIDGE_CHOSEN(Windows) MLBRIDGE_CHOSEN_F64(Windows)
    MLBRIDGE_NATIVE_FLOAT_UNARY(MLBRIDGE_CHOSEN) MLBRIDGE_NATIVE_FLOAT_BINARY(MLBRIDGE_CHOSEN)
    MLBRIDGE_CHOSEN(ReduceSum) MLBRIDGE_CHOSEN(CountLess) MLBRIDGE_CHOSEN(ReduceMean)
    MLBRIDGE_CHOSEN(ReduceMax) MLBRIDGE_CHOSEN(ReduceMin) MLBRIDGE_CHOSEN(ReduceL2)
    MLBRIDGE_CHOSEN(ReduceSumSquare) MLBRIDGE_CHOSEN(ReduceLogSumExp) MLBRIDGE_CHOSEN(Softmax)
    MLBRIDGE_CHOSEN(LogSoftmax) MLBRIDGE_CHOSEN(LayerNorm) MLBRIDGE_CHOSEN(RmsNorm)
    MLBRIDGE_CHOSEN(ReduceL1)
    MLBRIDGE_CHOSEN(GroupNorm) MLBRIDGE_CHOSEN(BatchNorm) MLBRIDGE_CHOSEN(ScatterAddRows) MLBRIDGE_CHOSEN(ScatterMaxRows)
    MLBRIDGE_CHOSEN_OTHER(F32FromF16) MLBRIDGE_CHOSEN_OTHER(F16FromF32) MLBRIDGE_CHOSEN_F64(Gemm)
    MLBRIDGE_CHOSEN_OTHER(Quantize) MLBRIDGE_CHOSEN_OTHER(Dequantize) MLBRIDGE_CHOSEN_OTHER(IntegerGemm)
    MLBRIDGE_CHOSEN_OTHER(IntegerBinary) MLBRIDGE_CHOSEN_OTHER(IntegerReduce) MLBRIDGE_CHOSEN_OTHER(Accumulate)
    MLBRIDGE_CHOSEN_OTHER(Compare) MLBRIDGE_CHOSEN_OTHER(Convert) MLBRIDGE_CHOSEN(CumSum) MLBRIDGE_CHOSEN_F64(CumSum)
    MLBRIDGE_CHOSEN(ReduceLogSum) MLBRIDGE_CHOSEN_F64(ReduceLogSum) MLBRIDGE_CHOSEN_F64(ReduceLogSumExp)
    MLBRIDGE_CHOSEN_F64(LogSoftmax) MLBRIDGE_CHOSEN_F64(Sin) MLBRIDGE_CHOSEN_F64(Cos) MLBRIDGE_CHOSEN_F64(Pow)
    MLBRIDGE_CHOSEN_F64(GeluTanh) MLBRIDGE_CHOSEN_F64(Floor) MLBRIDGE_CHOSEN_F64(Ceil) MLBRIDGE_CHOSEN_F64(Round)
    MLBRIDGE_CHOSEN_F64(Reciprocal) MLBRIDGE_CHOSEN_F64(Sign) MLBRIDGE_CHOSEN_F64(Max) MLBRIDGE_CHOSEN_F64(Min)
    MLBRIDGE_CHOSEN_F64(ReduceL2) MLBRIDGE_CHOSEN_F64(ReduceSumSquare)
    MLBRIDGE_CHOSEN_F64(Add) MLBRIDGE_CHOSEN_F64(Sub) MLBRIDGE_CHOSEN_F64(Mul) MLBRIDGE_CHOSEN_F64(Div)
    MLBRIDGE_CHOSEN_F64(Exp) MLBRIDGE_CHOSEN_F64(Log) MLBRIDGE_CHOSEN_F64(Relu) MLBRIDGE_CHOSEN_F64(Sigmoid)
    MLBRIDGE_CHOSEN_F64(Sqrt) MLBRIDGE_CHOSEN_F64(Tanh) MLBRIDGE_CHOSEN_F64(Softmax)
    MLBRIDGE_CHOSEN_F64(ReduceSum) MLBRIDGE_CHOSEN_F64(ReduceMean) MLBRIDGE_CHOSEN_F64(ReduceMax)
    MLBRIDGE_CHOSEN_F64(ReduceMin) MLBRIDGE_CHOSEN_F64(ReduceL1) MLBRIDGE_CHOSEN(ReduceProd) MLBRIDGE_CHOSEN_F64(ReduceProd)
    MLBRIDGE_CHOSEN_F64(BatchNorm) MLBRIDGE_CHOSEN_F64(RmsNorm) MLBRIDGE_CHOSEN_F64(Clamp) MLBRIDGE_CHOSEN_F64(Shrink)
}
// clang-format on

} // namespace mlbridge::native
