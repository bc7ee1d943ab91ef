// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "mir_embeddings.h"

#include "builtin_machine_vocabulary.h"
#include "mir_names.h"
#include "vocabulary_file.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/CodeGen/MachineInstr.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/Target/TargetMachine.h"

#include <map>
#include <mutex>

using namespace llvm;

namespace mlbridge::embeddings {

struct MachineVocabulary::Seeds {
  size_t Dimension = 0;
  std::string Digest;
  StringMap<std::vector<float>> Opcodes;    ///< by name
  std::vector<std::vector<float>> Operands; ///< by kind; empty: unknown
  std::mutex Lock;
  std::map<Triple::ArchType, std::vector<const float *>> Targets; ///< by opcode

  ArrayRef<const float *> opcodesOf(const MachineFunction &MF) {
    const std::lock_guard Held(Lock);
    std::vector<const float *> &Vectors = Targets[MF.getTarget().getTargetTriple().getArch()];
    if (Vectors.empty()) {
      const unsigned Count = MF.getSubtarget().getInstrInfo()->getNumOpcodes();
      for (unsigned I = 0; I < Count; ++I) {
        const auto Entry = Opcodes.find(MachineNames::opcode(MF, I));
        Vectors.push_back(Entry == Opcodes.end() ? nullptr : Entry->second.data());
      }
    }
    return Vectors;
  }
};

static std::vector<float> vectorOf(const json::Value &Numbers) {
  std::vector<float> Vector;
  for (const json::Value &Number : *Numbers.getAsArray())
    Vector.push_back(asFloat(*Number.getAsNumber()));
  return Vector;
}

Expected<MachineVocabulary> MachineVocabulary::parse(StringRef Json) {
  const Expected<VocabularyFile> Read = parseVocabulary(Json, {"Opcodes", "Operands"});
  if (!Read)
    return Read.status();
  auto Parsed = std::make_shared<Seeds>();
  Parsed->Dimension = Read->Dimension;
  Parsed->Digest = Read->Digest;
  for (const auto &[Name, Numbers] : Read->section("Opcodes"))
    Parsed->Opcodes[Name] = vectorOf(Numbers);
  if (Parsed->Opcodes.empty())
    return wrongVocabulary("\"Opcodes\" is empty");
  bool Known = false;
  for (unsigned I = 0; I < MachineNames::kinds(); ++I) {
    const json::Value *Numbers = Read->section("Operands").get(MachineNames::kind(I));
    Parsed->Operands.push_back(Numbers ? vectorOf(*Numbers) : std::vector<float>());
    Known |= Numbers != nullptr;
  }
  if (!Known)
    return wrongVocabulary("\"Operands\": none of its names is a kind of operand, such as '" +
                           MachineNames::kind(0) + "'");
  return MachineVocabulary(std::move(Parsed));
}

Expected<MachineVocabulary> MachineVocabulary::read(const std::string &Path) {
  return readVocabulary<MachineVocabulary>(Path);
}

const Expected<MachineVocabulary> &MachineVocabulary::builtin() {
  static const Expected<MachineVocabulary> Builtin = parse(BuiltinMachineVocabulary);
  return Builtin;
}

size_t MachineVocabulary::dimension() const { return Shared->Dimension; }
const std::string &MachineVocabulary::digest() const { return Shared->Digest; }

MachineEmbedder::MachineEmbedder(const MachineVocabulary &Words, const MachineFunction &MF)
    : Words(Words), Names(MachineNames::of(MF)), Opcodes(Words.Shared->opcodesOf(MF)) {}

void MachineEmbedder::mean(ArrayRef<const MachineInstr *> Instructions,
                           MutableArrayRef<float> Out) const {
  std::vector<double> Sum(dimension());
  const auto Add = [&](const float *Seed, double Weight) {
    for (size_t I = 0; Seed && I < Sum.size(); ++I)
      Sum[I] += Weight * static_cast<double>(Seed[I]);
  };
  for (const MachineInstr *Next : Instructions) {
    Add(Opcodes[Next->getOpcode()], 1);
    Names.visit(*Next, [&](MachineRelation Relation, unsigned Kind) {
      const std::vector<float> &Seed = Words.Shared->Operands[Kind];
      Add(Seed.empty() ? nullptr : Seed.data(), Relation == MachineRelation::Defines ? 0.5 : 0.25);
    });
  }
  const double Count = Instructions.empty() ? 1 : static_cast<double>(Instructions.size());
  for (size_t I = 0; I < Sum.size(); ++I)
    Out[I] = asFloat(Sum[I] / Count);
}

} // namespace mlbridge::embeddings
