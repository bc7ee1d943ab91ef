// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a model learns of the functions of a module: one row of numbers for each.
#ifndef MLBRIDGE_LLVM_HOTNESS_FEATURES_H
#define MLBRIDGE_LLVM_HOTNESS_FEATURES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"

#include <vector>

namespace mlbridge::hotness {

/// The columns, in their order. README.md says what each is.
// clang-format off
#define MLBRIDGE_HOTNESS_FEATURES(X)                                                               \
  /* the function's own code */                                                                    \
  X(instructions) X(blocks) X(branches) X(loads) X(stores) X(byte_accesses) X(comparisons)         \
  X(additions) X(multiplications) X(divisions) X(bitwise) X(float_arithmetic) X(vector_values)     \
  X(address_computations) X(casts) X(selects) X(phis) X(allocas) X(returns) X(unreachables)        \
  X(switches) X(switch_cases) X(landing_pads) X(atomics) X(inline_assembly)                        \
  /* its loops */                                                                                  \
  X(loops) X(innermost_loops) X(loops_without_calls) X(deepest_loop) X(instructions_in_loops)      \
  X(instructions_in_innermost_loops) X(largest_innermost_loop) X(smallest_innermost_loop)          \
  X(loads_in_loops) X(stores_in_loops) X(float_arithmetic_in_loops) X(bitwise_in_loops)            \
  X(byte_accesses_in_loops) X(calls_in_loops) X(cases_in_loops) X(reductions)                      \
  /* its static frequencies, in units of its entry's */                                            \
  X(largest_frequency) X(work) X(unlikely_instructions)                                            \
  /* what it calls */                                                                              \
  X(calls) X(internal_calls) X(external_calls) X(indirect_calls) X(self_calls) X(tail_calls)       \
  X(printing_calls) X(formatting_calls) X(ending_calls) X(allocating_calls) X(memory_calls)        \
  X(text_calls) X(file_calls) X(setting_calls) X(math_calls) X(throwing_calls)                     \
  X(strings) X(formats) X(global_stores) X(constant_returns)                                       \
  /* what it is */                                                                                 \
  X(arguments) X(pointer_arguments) X(unused_arguments) X(variadic) X(returns_pointer)             \
  X(returns_float) X(returns_nothing) X(internal) X(merged_by_linker) X(inline_hint)               \
  X(does_not_return) X(only_reads) X(is_main) X(runs_at_start)                                     \
  /* from where it is called, in the module */                                                     \
  X(callers) X(call_sites) X(address_uses) X(deepest_call) X(largest_call_frequency)               \
  X(unlikely_calls) X(deepest_loop_of_callers) X(deepest_loop_of_callees) X(recursive)             \
  X(distance) X(depth_from_roots) X(frequency) X(frequency_times_work) X(rank) X(of_largest)       \
  X(work_below)                                                                                    \
  /* the module */                                                                                 \
  X(module_functions) X(module_instructions) X(module_has_main) X(position)                        \
  X(module_loops) X(module_internal)
// clang-format on

enum class Feature : unsigned {
#define MLBRIDGE_ONE(Name) Name,
  MLBRIDGE_HOTNESS_FEATURES(MLBRIDGE_ONE)
#undef MLBRIDGE_ONE
};

/// The names of the columns.
llvm::ArrayRef<llvm::StringLiteral> featureNames();

/// The functions of a module that have a body of their own, and a row of features for each.
struct Description {
  std::vector<llvm::Function *> Functions;
  std::vector<float> Values; ///< [functions, features]

  /// Changes nothing, and asks for no analysis that later passes would find.
  explicit Description(llvm::Module &M);
};

} // namespace mlbridge::hotness

#endif
