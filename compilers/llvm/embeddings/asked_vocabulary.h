// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vocabulary that a plugin's models ask for.
#ifndef MLBRIDGE_LLVM_ASKED_VOCABULARY_H
#define MLBRIDGE_LLVM_ASKED_VOCABULARY_H

#include <mlbridge/model.h>

#include <optional>
#include <string>

namespace mlbridge::embeddings {

/// Reads it into `Words` unless one is there: from `File`, or the one that is built in if that is
/// empty. Mismatch if the model's metadata `OPTIMIZATION.vocabulary` states another digest.
template <class Vocabulary>
Status readFor(const Model &Policy, const std::string &Optimization, const std::string &File,
               std::optional<Vocabulary> &Words) {
  if (!Words) {
    auto Read = File.empty() ? Vocabulary::builtin() : Vocabulary::read(File);
    if (!Read)
      return Read.status();
    Words.emplace(*Read);
  }
  const std::string Key = Optimization + ".vocabulary";
  const std::optional<std::string> Digest = Policy.metadata(Key);
  if (Digest && *Digest != Words->digest())
    return {Code::Mismatch, Key + ": " + (File.empty() ? "the one in this plugin" : File) +
                                " has the digest " + Words->digest() + ", the model wants '" +
                                *Digest + "'"};
  return Status();
}

} // namespace mlbridge::embeddings

#endif
