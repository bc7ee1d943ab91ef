// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/kernels/chosen.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace mlbridge::native {

extern const Kernel PortableKernels[];
#if defined(MLBRIDGE_NATIVE_X86)
extern const Kernel Avx2Kernels[];
extern const ChosenKernel Avx512Kernels[];
#elif defined(MLBRIDGE_NATIVE_NEON)
extern const Kernel NeonKernels[];
#endif

#if defined(MLBRIDGE_NATIVE_X86)
/// AVX2's table with the kernels that there are for AVX-512.
struct MergedTable {
  Kernel kernels[static_cast<std::size_t>(KernelId::Count)];
  MergedTable() {
    for (std::size_t i = 0; i < static_cast<std::size_t>(KernelId::Count); ++i)
      kernels[i] = Avx2Kernels[i];
    for (const ChosenKernel *chosen = Avx512Kernels; chosen->id != KernelId::Count; ++chosen)
      kernels[static_cast<std::size_t>(chosen->id)] = chosen->kernel;
  }
};
#endif

const Kernel *kernelsFor(InstructionSet set) {
  switch (set) {
  case InstructionSet::Portable:
    return PortableKernels;
#if defined(MLBRIDGE_NATIVE_X86)
  case InstructionSet::Avx2:
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c"))
      return Avx2Kernels;
    return nullptr;
  case InstructionSet::Avx512:
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        kernelsFor(InstructionSet::Avx2)) {
      static const MergedTable Merged;
      return Merged.kernels;
    }
    return nullptr;
#elif defined(MLBRIDGE_NATIVE_NEON)
  case InstructionSet::Neon:
    return NeonKernels;
#endif
  default:
    return nullptr;
  }
}

const char *nameOf(InstructionSet set) {
  switch (set) {
  case InstructionSet::Portable:
    return "portable";
  case InstructionSet::Neon:
    return "neon";
  case InstructionSet::Avx2:
    return "avx2";
  case InstructionSet::Avx512:
    return "avx512";
  }
  return "";
}

static InstructionSet decide() {
  const char *wanted = std::getenv("MLBRIDGE_NATIVE_ISA");
  InstructionSet best = InstructionSet::Portable;
  for (InstructionSet set : {InstructionSet::Portable, InstructionSet::Neon, InstructionSet::Avx2,
                             InstructionSet::Avx512}) {
    if (!kernelsFor(set))
      continue;
    if (wanted && std::strcmp(wanted, nameOf(set)) == 0)
      return set;
    best = set;
  }
  return best;
}

InstructionSet bestInstructionSet() {
  static const InstructionSet Best = decide();
  return Best;
}

const char *nameOf(KernelId id) {
  static const char *const Names[] = {
#define MLBRIDGE_NAME(name) #name "F32", #name "F64",
      MLBRIDGE_NATIVE_FLOAT_KERNELS(MLBRIDGE_NAME)
#undef MLBRIDGE_NAME
#define MLBRIDGE_NAME(name) #name,
          MLBRIDGE_NATIVE_VECTOR_KERNELS(MLBRIDGE_NAME) MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_NAME)
#undef MLBRIDGE_NAME
  };
  return Names[static_cast<std::size_t>(id)];
}

const char *expressionOf(KernelId id) {
  static const char *const Expressions[] = {
#define MLBRIDGE_EXPRESSION(name) #name "<F32>", #name "<F64>",
      MLBRIDGE_NATIVE_FLOAT_KERNELS(MLBRIDGE_EXPRESSION)
#undef MLBRIDGE_EXPRESSION
#define MLBRIDGE_EXPRESSION(name) #name "<Isa>",
          MLBRIDGE_NATIVE_VECTOR_KERNELS(MLBRIDGE_EXPRESSION)
#undef MLBRIDGE_EXPRESSION
#define MLBRIDGE_EXPRESSION(name) #name,
              MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_EXPRESSION)
#undef MLBRIDGE_EXPRESSION
  };
  return Expressions[static_cast<std::size_t>(id)];
}

} // namespace mlbridge::native
