// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/kernels/cpu.h"
#include "engine/native/kernels/kernel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>

namespace mlbridge::native {

SetKernels setPortableKernels, setNeonKernels, setAvx2Kernels, setAvx512Kernels, setVnniKernels;

#if defined(MLBRIDGE_NATIVE_X86)
static const CpuFeatures &features() {
  static const CpuFeatures Features = cpuFeatures();
  return Features;
}
#endif

/// The kernels of an instruction set and, where it has none, those of a lesser one.
struct KernelTable {
  Kernel kernels[static_cast<size_t>(KernelId::Count)];
  explicit KernelTable(SetKernels *set, const Kernel *lesser = nullptr) {
    if (lesser)
      std::copy_n(lesser, std::size(kernels), kernels);
    set(kernels);
  }
};

const Kernel *kernelsFor(InstructionSet set) {
  switch (set) {
  case InstructionSet::Portable: {
    static const KernelTable Portable(setPortableKernels);
    return Portable.kernels;
  }
#if defined(MLBRIDGE_NATIVE_X86)
  case InstructionSet::Avx2:
    if (features().avx2) {
      static const KernelTable Avx2(setAvx2Kernels, kernelsFor(InstructionSet::Portable));
      return Avx2.kernels;
    }
    return nullptr;
  case InstructionSet::Avx512:
    if (features().avx512) {
      static const KernelTable Avx512(setAvx512Kernels, kernelsFor(InstructionSet::Avx2));
      static const KernelTable WithVnni(
          features().vnni ? setVnniKernels : [](Kernel *) {}, Avx512.kernels);
      return WithVnni.kernels;
    }
    return nullptr;
#elif defined(MLBRIDGE_NATIVE_NEON)
  case InstructionSet::Neon: {
    static const KernelTable Neon(setNeonKernels);
    return Neon.kernels;
  }
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
