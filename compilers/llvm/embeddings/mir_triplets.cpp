// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "mir_triplets.h"

#include "mir_names.h"

#include "llvm/CodeGen/MachineInstr.h"

using namespace llvm;

namespace mlbridge::embeddings {

static StringRef nameOf(MachineRelation Relation) {
  switch (Relation) {
  case MachineRelation::Defines:
    return "Defines";
  case MachineRelation::Uses:
    return "Uses";
  default:
    return "Accesses";
  }
}

void MachineTriplets::add(const MachineFunction &MF) {
  const MachineNames &Names = MachineNames::of(MF);
  for (const MachineBasicBlock &Block : MF) {
    std::string Before;
    for (const MachineInstr &Next : Block.instrs()) {
      if (Next.isDebugInstr())
        continue;
      const std::string Opcode = MachineNames::opcode(MF, Next.getOpcode());
      if (!Before.empty())
        ++Counts[{Before, "Next", Opcode}];
      Names.visit(Next, [&](MachineRelation Relation, unsigned Kind) {
        ++Counts[{Opcode, nameOf(Relation).str(), MachineNames::kind(Kind).str()}];
      });
      Before = Opcode;
    }
  }
}

void MachineTriplets::write(raw_ostream &To) const {
  for (const auto &[Triplet, Count] : Counts)
    To << Count << '\t' << Triplet[0] << '\t' << Triplet[1] << '\t' << Triplet[2] << '\n';
}

} // namespace mlbridge::embeddings
