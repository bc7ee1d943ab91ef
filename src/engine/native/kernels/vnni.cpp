// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What AVX-512 has an instruction for if it has VNNI, too. The instruction is the one that wraps,
// not the one that saturates, so results are the same.
#include "engine/native/kernels/quantized.h"
#include "engine/native/kernels/vector_avx512.h"

namespace mlbridge::native {
namespace kernels {

struct VnniSums {
  static constexpr int Rows = 4, Panels = 4;
  __m512i r;
  MLBRIDGE_INLINE void clear() { r = _mm512_setzero_si512(); }
  MLBRIDGE_INLINE void add(uint32_t four, const int8_t *b) {
    r = _mm512_dpbusd_epi32(r, _mm512_set1_epi32(static_cast<int32_t>(four)),
                            _mm512_loadu_si512(b));
  }
  MLBRIDGE_INLINE void store(int32_t *y) const { _mm512_storeu_si512(y, r); }
};
struct Vnni : Avx512 {
  using Sums = VnniSums;
};

} // namespace kernels

SetKernels setVnniKernels;
void setVnniKernels(Kernel *table) {
  table[static_cast<int>(KernelId::IntegerGemm)] = &kernels::IntegerGemm<kernels::Vnni>;
}

} // namespace mlbridge::native
