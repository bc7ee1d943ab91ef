// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "range_embeddings.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"

using namespace llvm;

namespace mlbridge::allocation {

RangeEmbeddings::RangeEmbeddings(MachineFunction &MF, const embeddings::MachineVocabulary &Words)
    : MF(MF), Embedder(Words, MF) {
  MF.setDelegate(this);
}

RangeEmbeddings::~RangeEmbeddings() { MF.resetDelegate(this); }

ArrayRef<float> RangeEmbeddings::of(Register Range) {
  Row &Its = Rows[Range];
  if (!Its.IsCurrent) {
    SmallSetVector<const MachineInstr *, 16> Instructions;
    for (const MachineInstr &Next : MF.getRegInfo().reg_nodbg_instructions(Range))
      Instructions.insert(&Next);
    Its.Vector.resize(dimension());
    Embedder.mean(Instructions.getArrayRef(), Its.Vector);
    Its.IsCurrent = true;
  }
  return Its.Vector;
}

void RangeEmbeddings::changed(const MachineInstr &MI) {
  for (const MachineOperand &Next : MI.operands())
    if (Next.isReg() && Next.getReg().isVirtual())
      if (const auto Found = Rows.find(Next.getReg()); Found != Rows.end())
        Found->second.IsCurrent = false;
}

} // namespace mlbridge::allocation
