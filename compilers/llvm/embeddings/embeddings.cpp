// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a vocabulary, which LLVM's reader takes on trust, and adds up the vectors of LLVM's
// embedder.
#include "embeddings.h"

#include "llvm/Config/llvm-config.h"

#if LLVM_VERSION_MAJOR >= 22

#include "builtin_vocabulary.h"
#include "vocabulary_file.h"

#include "llvm/Analysis/IR2Vec.h"

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

} // namespace

Expected<Vocabulary> Vocabulary::parse(StringRef Json) {
  Expected<VocabularyFile> Read = parseVocabulary(Json, {"Opcodes", "Types", "Arguments"});
  if (!Read)
    return Read.status();
  std::vector<std::vector<Embedding>> Sections;
  unsigned Position = 0, Known = 0;
  for (const Part &P : Parts) {
    std::vector<Embedding> &Section = Sections.emplace_back(P.Size, Embedding(Read->Dimension, 0));
    const json::Object &Vectors = Read->section(P.Section);
    for (Embedding &Seed : Section)
      if (const json::Array *Numbers = Vectors.getArray(LLVMs::getStringKey(Position++))) {
        for (const auto &[To, Number] : zip_equal(Seed, *Numbers))
          To = *Number.getAsNumber() * P.Weight;
        ++Known;
      }
    if (Known == 0)
      return wrongVocabulary("\"" + P.Section +
                             "\": none of its names is one that LLVM knows, such as '" +
                             LLVMs::getStringKey(Position - 1) + "'");
    if (P.Section != "Arguments") // whose two parts are one section
      Known = 0;
  }
  Vocabulary Parsed;
  Parsed.Seeds = std::make_shared<const LLVMs>(ir2vec::VocabStorage(std::move(Sections)));
  Parsed.Digest = Read->Digest;
  return Parsed;
}

Expected<Vocabulary> Vocabulary::read(const std::string &Path) {
  return readVocabulary<Vocabulary>(Path);
}

const Expected<Vocabulary> &Vocabulary::builtin() {
  static const Expected<Vocabulary> Builtin = parse(BuiltinVocabulary);
  return Builtin;
}

size_t Vocabulary::dimension() const { return Seeds->getDimension(); }

void Vocabulary::embed(const Module &M, Kind Sort, MutableArrayRef<float> Out) const {
  const IR2VecKind LLVMKind = Sort == Kind::Symbolic ? IR2VecKind::Symbolic : IR2VecKind::FlowAware;
  Embedding Sum(dimension(), 0);
  for (const Function &F : M)
    if (!F.isDeclaration())
      Sum += ir2vec::Embedder::create(LLVMKind, F, *Seeds)->getFunctionVector();
  for (const auto &[To, From] : zip_equal(Out, Sum))
    To = asFloat(From);
}

std::vector<double> Vocabulary::embed(ArrayRef<Instruction *> Instructions) const {
  std::vector<double> Rows;
  if (Instructions.empty())
    return Rows;
  Rows.reserve(Instructions.size() * dimension());
  const auto Embedder =
      ir2vec::Embedder::create(IR2VecKind::Symbolic, *Instructions.front()->getFunction(), *Seeds);
  for (const Instruction *Next : Instructions) {
    const Embedding Vector = Embedder->getInstVector(*Next);
    Rows.insert(Rows.end(), Vector.begin(), Vector.end());
  }
  return Rows;
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
  static const Expected<Vocabulary> Builtin = parse({});
  return Builtin;
}
size_t Vocabulary::dimension() const { return 0; }
void Vocabulary::embed(const llvm::Module &, Kind, llvm::MutableArrayRef<float>) const {}
std::vector<double> Vocabulary::embed(llvm::ArrayRef<llvm::Instruction *>) const { return {}; }

} // namespace mlbridge::embeddings

#endif
