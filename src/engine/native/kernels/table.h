// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of all kernels for one instruction set.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_TABLE_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_TABLE_H

#include "along_axis.h"
#include "chosen.h"
#include "elementwise.h"
#include "gemm.h"
#include "recurrent.h"

namespace mlbridge::native {

/// Defined once, in busy.cpp and rare.cpp.
#define MLBRIDGE_DECLARE(name) void name##Kernel(void *const *, const std::int64_t *);
MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_DECLARE)
#undef MLBRIDGE_DECLARE

/// The kernels that policies spend their time in; the others are made small.
constexpr bool isFrequent(KernelId id) {
  switch (id) {
  case KernelId::GemmF32:
  case KernelId::GemmF64:
  case KernelId::LstmF32:
  case KernelId::GruF32:
  case KernelId::RnnF32:
  case KernelId::AddF32:
  case KernelId::SubF32:
  case KernelId::MulF32:
  case KernelId::ReluF32:
  case KernelId::SigmoidF32:
  case KernelId::TanhF32:
  case KernelId::ExpF32:
  case KernelId::SoftmaxF32:
  case KernelId::ReduceSumF32:
  case KernelId::LayerNormF32:
  case KernelId::ScatterAddRowsF32:
    return true;
  default:
    return false;
  }
}

template <Kernel K>
__attribute__((cold)) void rare(void *const *operands, const std::int64_t *parameters) {
  K(operands, parameters);
}

#define MLBRIDGE_ENTRY(id, kernel) isFrequent(KernelId::id) ? &kernel : &rare<&kernel>,
#define MLBRIDGE_FLOAT_ENTRY(name)                                                                 \
  MLBRIDGE_ENTRY(name##F32, kernels::name<IsaOfTable::F32>)                                        \
  MLBRIDGE_ENTRY(name##F64, kernels::name<IsaOfTable::F64>)
#define MLBRIDGE_VECTOR_ENTRY(name) &kernels::name<IsaOfTable>,
#define MLBRIDGE_PLAIN_ENTRY(name) &name##Kernel,
#define MLBRIDGE_NATIVE_TABLE(Name, Isa)                                                           \
  using IsaOfTable = kernels::Isa;                                                                 \
  extern const Kernel Name[];                                                                      \
  const Kernel Name[] = {MLBRIDGE_NATIVE_FLOAT_KERNELS(MLBRIDGE_FLOAT_ENTRY)                       \
                             MLBRIDGE_NATIVE_VECTOR_KERNELS(MLBRIDGE_VECTOR_ENTRY)                 \
                                 MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_PLAIN_ENTRY)};

} // namespace mlbridge::native

#endif
