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

#include <limits>
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
    std::vector<const float *> &Its = Targets[MF.getTarget().getTargetTriple().getArch()];
    if (Its.empty()) {
      const unsigned Count = MF.getSubtarget().getInstrInfo()->getNumOpcodes();
      for (unsigned I = 0; I < Count; ++I) {
        const auto Found = Opcodes.find(MachineNames::opcode(MF, I));
        Its.push_back(Found == Opcodes.end() ? nullptr : Found->second.data());
      }
    }
    return Its;
  }
};

static std::vector<float> vectorOf(const json::Value &Numbers) {
  std::vector<float> Its;
  constexpr double Most = std::numeric_limits<float>::max();
  for (const json::Value &Number : *Numbers.getAsArray())
    Its.push_back(static_cast<float>(std::min(std::max(*Number.getAsNumber(), -Most), Most)));
  return Its;
}

Expected<MachineVocabulary> MachineVocabulary::parse(StringRef Json) {
  const Expected<VocabularyFile> Read = parseVocabulary(Json, {"Opcodes", "Operands"});
  if (!Read)
    return Read.status();
  auto Made = std::make_shared<Seeds>();
  Made->Dimension = Read->Dimension;
  Made->Digest = Read->Digest;
  for (const auto &[Name, Numbers] : Read->section("Opcodes"))
    Made->Opcodes[Name] = vectorOf(Numbers);
  if (Made->Opcodes.empty())
    return wrongVocabulary("\"Opcodes\" is empty");
  bool Known = false;
  for (unsigned I = 0; I < MachineNames::kinds(); ++I) {
    const json::Value *Numbers = Read->section("Operands").get(MachineNames::kind(I));
    Made->Operands.push_back(Numbers ? vectorOf(*Numbers) : std::vector<float>());
    Known |= Numbers != nullptr;
  }
  if (!Known)
    return wrongVocabulary("\"Operands\": none of its names is a kind of operand, such as '" +
                           MachineNames::kind(0) + "'");
  return MachineVocabulary(std::move(Made));
}

Expected<MachineVocabulary> MachineVocabulary::read(const std::string &Path) {
  Expected<MachineVocabulary> Made = MachineVocabulary(nullptr);
  const Status Read = readVocabulary(Path, [&](StringRef Json) {
    Made = parse(Json);
    return Made.status();
  });
  return Read ? Made : Read;
}

const Expected<MachineVocabulary> &MachineVocabulary::builtin() {
  static const Expected<MachineVocabulary> Made = parse(BuiltinMachineVocabulary);
  return Made;
}

size_t MachineVocabulary::dimension() const { return Its->Dimension; }
const std::string &MachineVocabulary::digest() const { return Its->Digest; }

MachineEmbedder::MachineEmbedder(const MachineVocabulary &Words, const MachineFunction &MF)
    : Words(Words), Names(MachineNames::of(MF)), Opcodes(Words.Its->opcodesOf(MF)) {}

void MachineEmbedder::mean(ArrayRef<const MachineInstr *> Of, MutableArrayRef<float> Out) const {
  std::vector<double> Sum(dimension());
  const auto Add = [&](const float *Seed, double Weight) {
    for (size_t I = 0; Seed && I < Sum.size(); ++I)
      Sum[I] += Weight * static_cast<double>(Seed[I]);
  };
  for (const MachineInstr *Next : Of) {
    Add(Opcodes[Next->getOpcode()], 1);
    Names.visit(*Next, [&](MachineRelation Is, unsigned Kind) {
      const std::vector<float> &Seed = Words.Its->Operands[Kind];
      Add(Seed.empty() ? nullptr : Seed.data(), Is == MachineRelation::Defines ? 0.5 : 0.25);
    });
  }
  constexpr double Most = std::numeric_limits<float>::max();
  const double Count = Of.empty() ? 1 : static_cast<double>(Of.size());
  for (size_t I = 0; I < Sum.size(); ++I)
    Out[I] = static_cast<float>(std::min(std::max(Sum[I] / Count, -Most), Most));
}

} // namespace mlbridge::embeddings
