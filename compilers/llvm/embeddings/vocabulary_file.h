// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The JSON of vocabularies: sections of vectors by name, all of one length.
#ifndef MLBRIDGE_LLVM_VOCABULARY_FILE_H
#define MLBRIDGE_LLVM_VOCABULARY_FILE_H

#include <mlbridge/status.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>

namespace mlbridge::embeddings {

/// The nearest number that a float holds; 0 for NaN.
float asFloat(double Number);

/// InvalidModel, about vocabularies.
Status wrongVocabulary(const llvm::Twine &Message);

/// A vocabulary whose sections are objects of vectors of finite numbers, `Dimension` each.
struct VocabularyFile {
  llvm::json::Value Root;
  size_t Dimension = 0; ///< 0 if there is no vector
  std::string Digest;   ///< SHA-256 of the text, 64 hexadecimal digits

  /// One of the sections that it was parsed with.
  const llvm::json::Object &section(llvm::StringRef Name) const {
    return *Root.getAsObject()->getObject(Name);
  }
};

/// Errors: InvalidModel (no JSON, a section that is missing, vectors of different lengths, a number
/// that is not finite).
Expected<VocabularyFile> parseVocabulary(llvm::StringRef Json,
                                         llvm::ArrayRef<llvm::StringRef> Sections);

/// The text of a file of at most 64 MiB. Errors: NotFound if it cannot be read, LimitExceeded.
Expected<std::unique_ptr<llvm::MemoryBuffer>> readText(const std::string &Path);

/// Parses such a file. Errors have its path.
template <class Vocabulary> Expected<Vocabulary> readVocabulary(const std::string &Path) {
  const auto Text = readText(Path);
  if (!Text)
    return Text.status();
  Expected<Vocabulary> Parsed = Vocabulary::parse((*Text)->getBuffer());
  return Parsed ? Parsed : Parsed.status().withContext(Path);
}

} // namespace mlbridge::embeddings

#endif
