// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Only what gains from wider registers; the rest is AVX2's, whose results are the same.
#include "engine/native/kernels/table.h"
#include "engine/native/kernels/vector_avx512.h"

namespace mlbridge::native {

// clang-format off
SetKernels setAvx512Kernels;
#define MLBRIDGE_CHOSEN(name) table[static_cast<int>(KernelId::name##F32)] = &kernels::name<kernels::Avx512::F32>;
void setAvx512Kernels(Kernel *table) {
    MLBRIDGE_CHOSEN(Gemm) MLBRIDGE_CHOSEN(Lstm) MLBRIDGE_CHOSEN(Gru) MLBRIDGE_CHOSEN(Rnn)
    MLBRIDGE_CHOSEN(Conv) MLBRIDGE_CHOSEN(Windows)
    MLBRIDGE_CHOSEN(Add) MLBRIDGE_CHOSEN(Sub) MLBRIDGE_CHOSEN(Mul) MLBRIDGE_CHOSEN(Exp)
    MLBRIDGE_CHOSEN(Relu) MLBRIDGE_CHOSEN(Sigmoid) MLBRIDGE_CHOSEN(Tanh) MLBRIDGE_CHOSEN(Softmax)
    MLBRIDGE_CHOSEN(LogSoftmax) MLBRIDGE_CHOSEN(ScatterAddRows)
    MLBRIDGE_CHOSEN(Erf) MLBRIDGE_CHOSEN(Gelu) MLBRIDGE_CHOSEN(GeluTanh) MLBRIDGE_CHOSEN(Atan)
    MLBRIDGE_CHOSEN(Cos) MLBRIDGE_CHOSEN(Log) MLBRIDGE_CHOSEN(Pow) MLBRIDGE_CHOSEN(Sin)
    table[static_cast<int>(KernelId::GemmF64)] = &kernels::Gemm<kernels::Avx512::F64>;
}
// clang-format on

} // namespace mlbridge::native
