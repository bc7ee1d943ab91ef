// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The observation "phase-ordering-counts-1": counts of the IR, scaled, in a fixed order.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_FEATURES_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_FEATURES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"

#include <array>
#include <cstdint>

namespace mlbridge::phase_ordering {

/// The things that are counted; the order is part of the observation's version.
enum class Count : unsigned {
  functions,
  declarations,
  internal_functions,
  single_use_functions,
  unused_functions,
  minsize_functions,
  optsize_functions,
  noinline_functions,
  readonly_functions,
  nounwind_functions,
  arguments,
  unused_arguments,
  globals,
  constant_globals,
  internal_globals,
  blocks,
  single_predecessor_blocks,
  empty_blocks,
  backward_edges,
  instructions,
  size_estimate,
  allocas,
  promotable_allocas,
  loads,
  stores,
  address_computations,
  constant_addresses,
  internal_calls,
  external_calls,
  indirect_calls,
  inline_assembly,
  memory_intrinsics,
  lifetime_markers,
  other_intrinsics,
  recursive_calls,
  calls_before_return,
  exception_handling,
  jumps,
  branches,
  switches,
  switch_cases,
  returns,
  unreachables,
  phis,
  phi_operands,
  selects,
  integer_compares,
  float_compares,
  additions,
  multiplications,
  divisions,
  shifts,
  bitwise,
  float_arithmetic,
  truncations,
  extensions,
  other_casts,
  vector_values,
  aggregates,
  atomics,
  single_use_values,
  unused_values,
  constant_operands,
  large_constants,
};
inline constexpr unsigned NumCounts = unsigned(Count::large_constants) + 1;

using Counts = std::array<uint64_t, NumCounts>;

/// Linear in the number of instructions; needs no analysis and no target.
Counts countIR(const llvm::Module &M);

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
