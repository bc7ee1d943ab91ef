// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "observation.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

const ObservationKind *findObservation(StringRef Name) {
  const auto *Kind = find_if(ObservationKinds, [Name](const ObservationKind &One) {
    return Name == One.Name || Name == One.Version;
  });
  return Kind == std::end(ObservationKinds) ? nullptr : Kind;
}

mlbridge::Expected<Observer> Observer::make(const ObservationKind &Kind, const std::string &File) {
  Observer New;
  New.Kind = &Kind;
  if (!Kind.Embedding)
    return New;
  const mlbridge::Expected<embeddings::Vocabulary> Read =
      File.empty() ? embeddings::Vocabulary::builtin() : embeddings::Vocabulary::read(File);
  if (!Read)
    return Read.status();
  New.Seeds = *Read;
  return New;
}

} // namespace mlbridge::phase_ordering
