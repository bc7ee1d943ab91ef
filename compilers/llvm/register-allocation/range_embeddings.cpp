// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "range_embeddings.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"

using namespace llvm;

namespace mlbridge::register_allocation {

RangeEmbeddings::RangeEmbeddings(MachineFunction &MF, const embeddings::MachineVocabulary &Words)
    : MF(MF), Embedder(Words, MF) {
  MF.setDelegate(this);
}

RangeEmbeddings::~RangeEmbeddings() { MF.resetDelegate(this); }

ArrayRef<float> RangeEmbeddings::of(Register Range) {
  Row &Entry = Rows[Range];
  if (!Entry.IsCurrent) {
    SmallSetVector<const MachineInstr *, 16> Instructions;
    for (const MachineInstr &Next : MF.getRegInfo().reg_nodbg_instructions(Range))
      Instructions.insert(&Next);
    Entry.Vector.resize(dimension());
    Embedder.mean(Instructions.getArrayRef(), Entry.Vector);
    Entry.IsCurrent = true;
  }
  return Entry.Vector;
}

void RangeEmbeddings::changed(const MachineInstr &MI) {
  for (const MachineOperand &Next : MI.operands())
    if (Next.isReg() && Next.getReg().isVirtual())
      if (const auto Entry = Rows.find(Next.getReg()); Entry != Rows.end())
        Entry->second.IsCurrent = false;
}

} // namespace mlbridge::register_allocation
