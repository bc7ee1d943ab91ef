// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "observation.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

const ObservationKind *findObservation(StringRef Name) {
  const auto *Found = find_if(ObservationKinds, [&](const ObservationKind &Kind) {
    return Name == Kind.Name || Name == Kind.Version;
  });
  return Found == std::end(ObservationKinds) ? nullptr : Found;
}

mlbridge::Expected<Observer> Observer::make(const ObservationKind &Kind, const std::string &File) {
  Observer Made;
  Made.Kind = &Kind;
  if (!Kind.Embedding)
    return Made;
  const mlbridge::Expected<embeddings::Vocabulary> Read =
      File.empty() ? embeddings::Vocabulary::builtin() : embeddings::Vocabulary::read(File);
  if (!Read)
    return Read.status();
  Made.Seeds = *Read;
  return Made;
}

} // namespace mlbridge::phase_ordering
