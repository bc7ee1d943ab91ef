// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a vocabulary, which LLVM's reader takes on trust, and adds up what LLVM's embedder gives.
#include "embeddings.h"

#include "llvm/Config/llvm-config.h"

#if LLVM_VERSION_MAJOR >= 22

#include "builtin_vocabulary.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/IR2Vec.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace mlbridge::embeddings {

using ir2vec::Embedding;
using LLVMs = ir2vec::Vocabulary;

namespace {

/// A section of the JSON, or a part of one, as LLVM stores it. Weights are LLVM's defaults; its
/// options for them are not asked, so that a model sees what it has learned from.
struct Part {
  StringLiteral Section;
  unsigned Size;
  double Weight;
};
constexpr Part Parts[] = {{"Opcodes", LLVMs::MaxOpcodes, 1.0F},
                          {"Types", LLVMs::MaxCanonicalTypeIDs, 0.5F},
                          {"Arguments", LLVMs::MaxOperandKinds, 0.2F},
                          {"Arguments", LLVMs::MaxPredicateKinds, 0.2F}};

constexpr uint64_t MostBytes = 64 << 20;

Status wrong(const Twine &Message) {
  return Status(Code::InvalidModel, "vocabulary: " + Message.str());
}

/// LLVM's parser recurses, so what is nested deeper than a vocabulary does not reach it.
bool isDeep(StringRef Json) {
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
Status check(StringRef Section, StringRef Name, const json::Value &Value, size_t &Dimension) {
  const auto At = [&] { return (Section + " '" + Name.substr(0, 100) + "': ").str(); };
  const json::Array *Numbers = Value.getAsArray();
  if (!Numbers || Numbers->empty())
    return wrong(At() + "expected a non-empty array of numbers");
  if (Dimension == 0)
    Dimension = Numbers->size();
  if (Numbers->size() != Dimension)
    return wrong(At() + "expected " + Twine(Dimension) + " numbers as in the first vector, got " +
                 Twine(Numbers->size()));
  for (const auto &[Index, Number] : enumerate(*Numbers))
    if (const std::optional<double> N = Number.getAsNumber(); !N || !std::isfinite(*N))
      return wrong(At() + "number " + Twine(Index) + " is not a finite number");
  return Status();
}

} // namespace

Expected<Vocabulary> Vocabulary::parse(StringRef Json) {
  if (isDeep(Json))
    return wrong("not sections of vectors: arrays and objects are nested more than three deep");
  llvm::Expected<json::Value> Root = json::parse(Json);
  if (!Root)
    return wrong("not JSON: " + toString(Root.takeError()));
  const json::Object *Top = Root->getAsObject();
  size_t Dimension = 0;
  for (StringRef Section : {"Opcodes", "Types", "Arguments"}) {
    const json::Object *Vectors = Top ? Top->getObject(Section) : nullptr;
    if (!Vectors)
      return wrong("expected an object with the objects \"Opcodes\", \"Types\" and \"Arguments\"; "
                   "there is no \"" +
                   Section + "\"");
    for (const auto &[Name, Value] : *Vectors)
      if (Status S = check(Section, Name, Value, Dimension); !S)
        return S;
  }
  std::vector<std::vector<Embedding>> Sections;
  unsigned Position = 0, Known = 0;
  for (const Part &P : Parts) {
    std::vector<Embedding> &Section = Sections.emplace_back(P.Size, Embedding(Dimension, 0));
    const json::Object &Vectors = *Top->getObject(P.Section);
    for (Embedding &Seed : Section)
      if (const json::Array *Numbers = Vectors.getArray(LLVMs::getStringKey(Position++))) {
        for (const auto &[To, Number] : zip_equal(Seed, *Numbers))
          To = *Number.getAsNumber() * P.Weight;
        ++Known;
      }
    if (Known == 0)
      return wrong("\"" + P.Section + "\": none of its names is one that LLVM knows, such as '" +
                   LLVMs::getStringKey(Position - 1) + "'");
    if (P.Section != "Arguments") // whose two parts are one section
      Known = 0;
  }
  Vocabulary Made;
  Made.Seeds = std::make_shared<const LLVMs>(ir2vec::VocabStorage(std::move(Sections)));
  Made.Digest = toHex(SHA256::hash(arrayRefFromStringRef(Json)), /*LowerCase=*/true);
  return Made;
}

Expected<Vocabulary> Vocabulary::read(const std::string &Path) {
  const auto Wrong = [&](Code C, const std::string &Why) {
    return Status(C, "vocabulary: " + Path + ": " + Why);
  };
  // What is no file might have no end, or no beginning.
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
  Expected<Vocabulary> Made = parse((*Read)->getBuffer());
  return Made ? Made : Made.status().withContext(Path);
}

const Expected<Vocabulary> &Vocabulary::builtin() {
  static const Expected<Vocabulary> Made = parse(BuiltinVocabulary);
  return Made;
}

size_t Vocabulary::dimension() const { return Seeds->getDimension(); }

void Vocabulary::embed(const Module &M, Kind How, MutableArrayRef<float> Out) const {
  const IR2VecKind Wanted = How == Kind::Symbolic ? IR2VecKind::Symbolic : IR2VecKind::FlowAware;
  Embedding Sum(dimension(), 0);
  for (const Function &F : M)
    if (!F.isDeclaration())
      Sum += ir2vec::Embedder::create(Wanted, F, *Seeds)->getFunctionVector();
  constexpr double Most = std::numeric_limits<float>::max();
  for (const auto &[To, From] : zip_equal(Out, Sum))
    To = std::isnan(From) ? 0.0F : float(std::min(std::max(From, -Most), Most));
}

} // namespace mlbridge::embeddings

#else

namespace mlbridge::embeddings {

Expected<Vocabulary> Vocabulary::parse(llvm::StringRef) {
  return Status(Code::Unsupported, "this plugin was built for LLVM " LLVM_VERSION_STRING
                                   ", which has no IR2Vec; LLVM 22 has");
}
Expected<Vocabulary> Vocabulary::read(const std::string &) { return parse({}); }
const Expected<Vocabulary> &Vocabulary::builtin() {
  static const Expected<Vocabulary> Made = parse({});
  return Made;
}
size_t Vocabulary::dimension() const { return 0; }
void Vocabulary::embed(const llvm::Module &, Kind, llvm::MutableArrayRef<float>) const {}

} // namespace mlbridge::embeddings

#endif
