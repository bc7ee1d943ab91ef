// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The JSON of vocabularies: sections of vectors by name, all of one length.
#ifndef MLBRIDGE_LLVM_VOCABULARY_FILE_H
#define MLBRIDGE_LLVM_VOCABULARY_FILE_H

#include <mlbridge/status.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace mlbridge::embeddings {

/// InvalidModel, about vocabularies.
Status wrongVocabulary(const llvm::Twine &Message);

/// A vocabulary whose sections are objects of vectors of finite numbers, `Dimension` each.
struct VocabularyFile {
  llvm::json::Value Root;
  size_t Dimension = 0; ///< 0 if there is no vector
  std::string Digest;   ///< SHA-256 of the text, 64 hexadecimal digits

  /// One of those that it was parsed with.
  const llvm::json::Object &section(llvm::StringRef Name) const {
    return *Root.getAsObject()->getObject(Name);
  }
};

/// Errors: InvalidModel (no JSON, a section that is missing, vectors of different lengths, a number
/// that is not finite).
Expected<VocabularyFile> parseVocabulary(llvm::StringRef Json,
                                         llvm::ArrayRef<llvm::StringRef> Sections);

/// Hands the text of a file of at most 64 MiB to `Parse`, whose error gets the path. Errors:
/// NotFound if it cannot be read, LimitExceeded.
Status readVocabulary(const std::string &Path, llvm::function_ref<Status(llvm::StringRef)> Parse);

} // namespace mlbridge::embeddings

#endif
