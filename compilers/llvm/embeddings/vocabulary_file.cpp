// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "vocabulary_file.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SHA256.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace mlbridge::embeddings {

static constexpr uint64_t MostBytes = 64 << 20;

float asFloat(double Number) {
  constexpr double Most = std::numeric_limits<float>::max();
  return std::isnan(Number) ? 0.0F : float(std::min(std::max(Number, -Most), Most));
}

Status wrongVocabulary(const Twine &Message) {
  return Status(Code::InvalidModel, "vocabulary: " + Message.str());
}

/// LLVM's parser recurses, so text that is nested deeper than a vocabulary does not reach it.
static bool isDeep(StringRef Json) {
  unsigned Depth = 0;
  bool InText = false;
  for (size_t I = 0; I < Json.size(); ++I) {
    const char C = Json[I];
    if (InText && C == '\\')
      ++I;
    else if (C == '"')
      InText = !InText;
    else if (!InText && (C == '[' || C == '{') && ++Depth > 3)
      return true;
    else if (!InText && (C == ']' || C == '}') && Depth > 0)
      --Depth;
  }
  return false;
}

/// Checks one vector; the first sets the dimension.
static Status check(StringRef Section, StringRef Name, const json::Value &Value,
                    size_t &Dimension) {
  const auto At = [&] { return (Section + " '" + Name.substr(0, 100) + "': ").str(); };
  const json::Array *Numbers = Value.getAsArray();
  if (!Numbers || Numbers->empty())
    return wrongVocabulary(At() + "expected a non-empty array of numbers");
  if (Dimension == 0)
    Dimension = Numbers->size();
  if (Numbers->size() != Dimension)
    return wrongVocabulary(At() + "expected " + Twine(Dimension) +
                           " numbers as in the first vector, got " + Twine(Numbers->size()));
  for (const auto &[Index, Number] : enumerate(*Numbers))
    if (const std::optional<double> N = Number.getAsNumber(); !N || !std::isfinite(*N))
      return wrongVocabulary(At() + "number " + Twine(Index) + " is not a finite number");
  return Status();
}

Expected<VocabularyFile> parseVocabulary(StringRef Json, ArrayRef<StringRef> Sections) {
  if (isDeep(Json))
    return wrongVocabulary(
        "not sections of vectors: arrays and objects are nested more than three deep");
  llvm::Expected<json::Value> Root = json::parse(Json);
  if (!Root)
    return wrongVocabulary("not JSON: " + toString(Root.takeError()));
  const json::Object *Top = Root->getAsObject();
  size_t Dimension = 0;
  for (const StringRef Section : Sections) {
    const json::Object *Vectors = Top ? Top->getObject(Section) : nullptr;
    if (!Vectors)
      return wrongVocabulary("expected an object with the objects \"" +
                             join(Sections.drop_back(), "\", \"") + "\" and \"" + Sections.back() +
                             "\"; there is no \"" + Section + "\"");
    for (const auto &[Name, Value] : *Vectors)
      if (Status S = check(Section, Name, Value, Dimension); !S)
        return S;
  }
  return VocabularyFile{std::move(*Root), Dimension,
                        toHex(SHA256::hash(arrayRefFromStringRef(Json)), /*LowerCase=*/true)};
}

Expected<std::unique_ptr<MemoryBuffer>> readText(const std::string &Path) {
  const auto Wrong = [&](Code C, const std::string &Why) {
    return Status(C, "vocabulary: " + Path + ": " + Why);
  };
  // A path that is no file might have no end, or no beginning.
  sys::fs::file_status Kind;
  if (std::error_code EC = sys::fs::status(Path, Kind))
    return Wrong(Code::NotFound, EC.message());
  if (Kind.type() != sys::fs::file_type::regular_file)
    return Wrong(Code::NotFound, "not a regular file");
  if (Kind.getSize() > MostBytes)
    return Wrong(Code::LimitExceeded, "expected at most " + std::to_string(MostBytes) +
                                          " bytes, got " + std::to_string(Kind.getSize()));
  ErrorOr<std::unique_ptr<MemoryBuffer>> Read = MemoryBuffer::getFile(Path);
  if (!Read)
    return Wrong(Code::NotFound, Read.getError().message());
  return std::move(*Read);
}

} // namespace mlbridge::embeddings
