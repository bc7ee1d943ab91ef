// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/kernels/cpu.h"
#include "engine/native/kernels/kernel.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace mlbridge::native {

extern const Kernel PortableKernels[];
#if defined(MLBRIDGE_NATIVE_X86)
extern const ChosenKernel Avx2Kernels[];
extern const ChosenKernel Avx512Kernels[], VnniKernels[];
#elif defined(MLBRIDGE_NATIVE_NEON)
extern const Kernel NeonKernels[];
#endif

#if defined(MLBRIDGE_NATIVE_X86)
static const CpuFeatures &features() {
  static const CpuFeatures Features = cpuFeatures();
  return Features;
}

/// The table of a lesser instruction set with the kernels that there are for this one.
struct MergedTable {
  Kernel kernels[static_cast<size_t>(KernelId::Count)];
  MergedTable(const Kernel *lesser, const ChosenKernel *chosen) {
    for (size_t i = 0; i < static_cast<size_t>(KernelId::Count); ++i)
      kernels[i] = lesser[i];
    for (; chosen->id != KernelId::Count; ++chosen)
      kernels[static_cast<size_t>(chosen->id)] = chosen->kernel;
  }
};
#endif

const Kernel *kernelsFor(InstructionSet set) {
  switch (set) {
  case InstructionSet::Portable:
    return PortableKernels;
#if defined(MLBRIDGE_NATIVE_X86)
  case InstructionSet::Avx2:
    if (features().avx2) {
      static const MergedTable Merged(PortableKernels, Avx2Kernels);
      return Merged.kernels;
    }
    return nullptr;
  case InstructionSet::Avx512:
    if (features().avx512) {
      static const MergedTable Merged(kernelsFor(InstructionSet::Avx2), Avx512Kernels);
      static const MergedTable WithVnni(Merged.kernels, VnniKernels);
      return features().vnni ? WithVnni.kernels : Merged.kernels;
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
  const char *wanted = ::secure_getenv("MLBRIDGE_NATIVE_ISA");
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

} // namespace mlbridge::native
