// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kinds of observation: an episode sees counts of the module, and may see its embedding.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_OBSERVATION_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_OBSERVATION_H

#include "ir_features.h"

#include <embeddings.h>

#include <optional>
#include <string>

namespace mlbridge::phase_ordering {

struct ObservationKind {
  llvm::StringLiteral Name;    ///< of the option
  llvm::StringLiteral Version; ///< in metadata
  std::optional<embeddings::Kind> Embedding;
};
inline constexpr ObservationKind ObservationKinds[] = {
    {"counts", Features::Version, std::nullopt},
    {"ir2vec", "ir2vec-flow-aware-1", embeddings::Kind::FlowAware},
    {"ir2vec-symbolic", "ir2vec-symbolic-1", embeddings::Kind::Symbolic},
};

/// The kind of that name or version; null if there is none.
const ObservationKind *findObservation(llvm::StringRef Name);

/// A kind with what it needs. Copies share it.
class Observer {
public:
  Observer() = default; ///< counts alone
  /// With the vocabulary in a file, or the built-in one if `File` is empty; neither is read for
  /// counts. Errors: those of embeddings::Vocabulary.
  static Expected<Observer> make(const ObservationKind &Kind, const std::string &File);

  llvm::StringRef version() const { return Kind->Version; }
  /// The vocabulary; null for counts.
  const embeddings::Vocabulary *vocabulary() const { return Seeds ? &*Seeds : nullptr; }
  /// Requires a vocabulary.
  void embed(const llvm::Module &M, llvm::MutableArrayRef<float> Out) const {
    Seeds->embed(M, *Kind->Embedding, Out);
  }

private:
  const ObservationKind *Kind = &ObservationKinds[0];
  std::optional<embeddings::Vocabulary> Seeds;
};

} // namespace mlbridge::phase_ordering

#endif
