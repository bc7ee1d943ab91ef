// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiled network as its users see it: the table of mlbridge/aot.h and the functions of its C
// header, made of the constants that come before this in NAME.cpp.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_COMPILED_MODEL_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_COMPILED_MODEL_H

#include "compiled_name.h"
#include "cpu.h"

#include <cstdlib>
#include <cstring>

/// From the least to the most preferred.
#ifndef MLBRIDGE_AOT_ISAS
#if defined(__x86_64__)
#define MLBRIDGE_AOT_ISAS(X) X(Portable) X(Avx2) X(Avx512)
#elif defined(__aarch64__)
#define MLBRIDGE_AOT_ISAS(X) X(Portable) X(Neon)
#else
#define MLBRIDGE_AOT_ISAS(X) X(Portable)
#endif
#endif

#define MLBRIDGE_AOT_TEXT_(name) #name
#define MLBRIDGE_AOT_TEXT(name) MLBRIDGE_AOT_TEXT_(name)
#define MLBRIDGE_AOT_NAME_TEXT MLBRIDGE_AOT_TEXT(MLBRIDGE_AOT_NAME)
#define MLBRIDGE_AOT_FUNCTION(rest) MLBRIDGE_AOT_SYMBOL(_##rest, )
#ifdef MLBRIDGE_AOT_SHARED
#define MLBRIDGE_AOT_PUBLIC extern "C" __attribute__((visibility("default")))
#else
#define MLBRIDGE_AOT_PUBLIC extern "C"
#endif

#define MLBRIDGE_AOT_DECLARE(isa)                                                                  \
  MLBRIDGE_AOT_HIDDEN mlbridge_aot_evaluate MLBRIDGE_AOT_SYMBOL(_evaluate, isa);
MLBRIDGE_AOT_ISAS(MLBRIDGE_AOT_DECLARE)

#ifdef MLBRIDGE_AOT_EXTERNAL_WEIGHTS
#define MLBRIDGE_AOT_WEIGHTS const void *weights, size_t size
#define MLBRIDGE_AOT_WEIGHTS_AFTER(memory) memory, MLBRIDGE_AOT_WEIGHTS
#define MLBRIDGE_AOT_PASS_WEIGHTS(memory) memory, weights, size
#define MLBRIDGE_AOT_WEIGHTS_IN_TABLE nullptr
#else
#define MLBRIDGE_AOT_WEIGHTS void
#define MLBRIDGE_AOT_WEIGHTS_AFTER(memory) memory
#define MLBRIDGE_AOT_PASS_WEIGHTS(memory) memory
#define MLBRIDGE_AOT_WEIGHTS_IN_TABLE MLBRIDGE_AOT_FUNCTION(weightsData)
MLBRIDGE_AOT_HIDDEN const unsigned char MLBRIDGE_AOT_WEIGHTS_IN_TABLE[];
__asm__(".pushsection .rodata." MLBRIDGE_AOT_NAME_TEXT "_weights,\"a\"\n"
        ".balign 64\n"
        ".globl " MLBRIDGE_AOT_NAME_TEXT "_weightsData\n"
        ".hidden " MLBRIDGE_AOT_NAME_TEXT "_weightsData\n" MLBRIDGE_AOT_NAME_TEXT "_weightsData:\n"
        ".incbin \"" MLBRIDGE_AOT_NAME_TEXT "_weights.bin\"\n"
        ".balign 64\n"
        ".popsection\n");
#endif

namespace {

[[maybe_unused]] bool hasPortable() { return true; }
[[maybe_unused]] bool hasNeon() { return true; }
#if defined(__x86_64__)
[[maybe_unused]] bool hasAvx2() { return mlbridge::native::cpuFeatures().avx2; }
[[maybe_unused]] bool hasAvx512() { return mlbridge::native::cpuFeatures().avx512; }
#endif

bool isCalled(const char *text, const char *name) {
  for (; *text && (*text | 0x20) == (*name | 0x20); ++text, ++name) {
  }
  return !*text && !*name;
}

/// The last of the list that this CPU has, or the one that MLBRIDGE_NATIVE_ISA names.
mlbridge_aot_evaluate *choose() {
  const char *wanted = ::secure_getenv("MLBRIDGE_NATIVE_ISA");
  mlbridge_aot_evaluate *best = nullptr;
#define MLBRIDGE_AOT_CONSIDER(isa)                                                                 \
  if (has##isa()) {                                                                                \
    best = &MLBRIDGE_AOT_SYMBOL(_evaluate, isa);                                                   \
    if (wanted && isCalled(wanted, #isa))                                                          \
      return best;                                                                                 \
  }
  MLBRIDGE_AOT_ISAS(MLBRIDGE_AOT_CONSIDER)
  return best;
}

mlbridge_aot_evaluate *chosen() {
  static mlbridge_aot_evaluate *Chosen = nullptr;
  mlbridge_aot_evaluate *evaluate = __atomic_load_n(&Chosen, __ATOMIC_RELAXED);
  if (!evaluate) {
    evaluate = choose();
    __atomic_store_n(&Chosen, evaluate, __ATOMIC_RELAXED);
  }
  return evaluate;
}

int32_t evaluateChosen(const void *weights, void *workspace, void *const *inputs,
                       void *const *outputs, uint64_t left) {
  return chosen()(weights, workspace, inputs, outputs, left);
}

const mlb_aot_model table = {sizeof(mlb_aot_model),
                             MLB_AOT_ABI,
                             0,
                             {MLBRIDGE_AOT_NAME_TEXT, sizeof MLBRIDGE_AOT_NAME_TEXT - 1},
                             inputs,
                             inputsCount,
                             outputs,
                             outputsCount,
                             metadata,
                             metadataCount,
                             MLBRIDGE_AOT_WEIGHTS_IN_TABLE,
                             weightsSize,
                             weightsId,
                             workspaceSize,
                             nodes,
                             nodesCount,
                             evaluateChosen};

/// The header's struct: C++ code calls the file's functions only, and its name may be any. The
/// buffers of inputs and outputs and the workspace lie behind it, and 64 bytes that may be read.
struct alignas(64) Context {
  const void *weights;
  mlbridge_aot_evaluate *evaluate;
  unsigned char *workspace;
  void *buffers[inputsCount + outputsCount + 1];
};

constexpr size_t contextSize() {
  size_t size = sizeof(Context) + (workspaceSize + 63) / 64 * 64 + 64;
  for (const size_t bytes : bufferSizes)
    size += bytes;
  return size;
}

} // namespace

MLBRIDGE_AOT_PUBLIC const mlb_aot_model *MLBRIDGE_AOT_FUNCTION(model)() { return &table; }
#ifdef MLBRIDGE_AOT_SHARED
MLBRIDGE_AOT_PUBLIC const mlb_aot_model *mlb_aot_entry() { return &table; }
#endif
MLBRIDGE_AOT_PUBLIC size_t MLBRIDGE_AOT_FUNCTION(context_size)() { return contextSize(); }
MLBRIDGE_AOT_PUBLIC Context *MLBRIDGE_AOT_FUNCTION(init)(MLBRIDGE_AOT_WEIGHTS_AFTER(void *memory)) {
  if (!memory || reinterpret_cast<uintptr_t>(memory) % 64)
    return nullptr;
#ifdef MLBRIDGE_AOT_EXTERNAL_WEIGHTS
  const mlb_aot_weights *const head = static_cast<const mlb_aot_weights *>(weights);
  if (!weights || reinterpret_cast<uintptr_t>(weights) % 64 || size < sizeof *head ||
      std::memcmp(head->magic, "MLBWGT1\n", 8) != 0 || head->id != weightsId ||
      head->size != weightsSize || size - sizeof *head < head->size)
    return nullptr;
  weights = head + 1;
#else
  const void *const weights = MLBRIDGE_AOT_WEIGHTS_IN_TABLE;
#endif
  std::memset(memory, 0, contextSize());
  Context *const context = static_cast<Context *>(memory);
  unsigned char *at = static_cast<unsigned char *>(memory) + sizeof(Context);
  context->weights = weights;
  context->evaluate = chosen();
  for (size_t i = 0; i < inputsCount + outputsCount; ++i) {
    context->buffers[i] = at;
    at += bufferSizes[i];
  }
  context->workspace = at;
  return context;
}
MLBRIDGE_AOT_PUBLIC Context *MLBRIDGE_AOT_FUNCTION(create)(MLBRIDGE_AOT_WEIGHTS) {
  void *const memory = std::aligned_alloc(64, contextSize());
  Context *const context = MLBRIDGE_AOT_FUNCTION(init)(MLBRIDGE_AOT_PASS_WEIGHTS(memory));
  if (!context)
    std::free(memory);
  return context;
}
MLBRIDGE_AOT_PUBLIC void MLBRIDGE_AOT_FUNCTION(destroy)(Context *context) { std::free(context); }
MLBRIDGE_AOT_PUBLIC int MLBRIDGE_AOT_FUNCTION(run)(Context *context) {
  return context->evaluate(context->weights, context->workspace, context->buffers,
                           context->buffers + inputsCount, UINT64_MAX);
}
MLBRIDGE_AOT_PUBLIC void *MLBRIDGE_AOT_FUNCTION(input)(Context *context, size_t index) {
  return index < inputsCount ? context->buffers[index] : nullptr;
}
MLBRIDGE_AOT_PUBLIC const void *MLBRIDGE_AOT_FUNCTION(output)(const Context *context,
                                                              size_t index) {
  return index < outputsCount ? context->buffers[inputsCount + index] : nullptr;
}

#endif
