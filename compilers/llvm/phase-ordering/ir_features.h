// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The observation "phase-ordering-counts-1": counts of the IR, scaled, in a fixed order.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_FEATURES_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_FEATURES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"

#include <array>
#include <cstdint>
#include <string>

namespace mlbridge::phase_ordering {

/// What is counted; the order is part of the observation's version.
#define PHASE_ORDERING_COUNTS(X)                                                                   \
  X(functions)                                                                                     \
  X(declarations)                                                                                  \
  X(internal_functions)                                                                            \
  X(single_use_functions)                                                                          \
  X(unused_functions)                                                                              \
  X(minsize_functions)                                                                             \
  X(optsize_functions)                                                                             \
  X(noinline_functions)                                                                            \
  X(readonly_functions)                                                                            \
  X(nounwind_functions)                                                                            \
  X(arguments)                                                                                     \
  X(unused_arguments)                                                                              \
  X(globals)                                                                                       \
  X(constant_globals)                                                                              \
  X(internal_globals)                                                                              \
  X(blocks)                                                                                        \
  X(single_predecessor_blocks)                                                                     \
  X(empty_blocks)                                                                                  \
  X(backward_edges)                                                                                \
  X(instructions)                                                                                  \
  X(size_estimate)                                                                                 \
  X(allocas)                                                                                       \
  X(promotable_allocas)                                                                            \
  X(loads)                                                                                         \
  X(stores)                                                                                        \
  X(address_computations)                                                                          \
  X(constant_addresses)                                                                            \
  X(internal_calls)                                                                                \
  X(external_calls)                                                                                \
  X(indirect_calls)                                                                                \
  X(inline_assembly)                                                                               \
  X(memory_intrinsics)                                                                             \
  X(lifetime_markers)                                                                              \
  X(other_intrinsics)                                                                              \
  X(recursive_calls)                                                                               \
  X(calls_before_return)                                                                           \
  X(exception_handling)                                                                            \
  X(jumps)                                                                                         \
  X(branches)                                                                                      \
  X(switches)                                                                                      \
  X(switch_cases)                                                                                  \
  X(returns)                                                                                       \
  X(unreachables)                                                                                  \
  X(phis)                                                                                          \
  X(phi_operands)                                                                                  \
  X(selects)                                                                                       \
  X(integer_compares)                                                                              \
  X(float_compares)                                                                                \
  X(additions)                                                                                     \
  X(multiplications)                                                                               \
  X(divisions)                                                                                     \
  X(shifts)                                                                                        \
  X(bitwise)                                                                                       \
  X(float_arithmetic)                                                                              \
  X(truncations)                                                                                   \
  X(extensions)                                                                                    \
  X(other_casts)                                                                                   \
  X(vector_values)                                                                                 \
  X(aggregates)                                                                                    \
  X(atomics)                                                                                       \
  X(single_use_values)                                                                             \
  X(unused_values)                                                                                 \
  X(constant_operands)                                                                             \
  X(large_constants)

enum class Count : unsigned {
#define X(NAME) NAME,
  PHASE_ORDERING_COUNTS(X)
#undef X
};
inline constexpr unsigned NumCounts = 0
#define X(NAME) +1
    PHASE_ORDERING_COUNTS(X)
#undef X
    ;

using Counts = std::array<uint64_t, NumCounts>;

/// Linear in the number of instructions; needs no analysis and no target.
Counts countIR(const llvm::Module &M);

/// Identifies an observation: 16 hexadecimal digits.
std::string featuresDigest(llvm::ArrayRef<float> Values);

/// Turns the counts of the steps of one episode into observations.
class Features {
public:
  static constexpr llvm::StringLiteral Version = "phase-ordering-counts-1";
  static size_t size();

  /// The counts before the first group; later observations are relative to them.
  void reset(const Counts &First);
  /// Writes size() values for the counts after the last step.
  void write(const Counts &Now, llvm::MutableArrayRef<float> Out);

private:
  Counts Initial{};
  Counts Previous{};
};

} // namespace mlbridge::phase_ordering

#endif
