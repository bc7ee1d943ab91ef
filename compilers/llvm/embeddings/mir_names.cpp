// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "mir_names.h"

#include "llvm/CodeGen/MachineInstr.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/CodeGenTypes/MachineValueType.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <map>
#include <memory>
#include <mutex>

using namespace llvm;

namespace mlbridge::embeddings {

namespace {

enum Kind : uint8_t {
  Load,
  Store,
  Immediate,
  FloatImmediate,
  FrameIndex,
  ConstantPool,
  JumpTable,
  Global,
  Block,
  RegisterMask,
  OtherOperand,
  FirstRegister
};
constexpr StringLiteral Operands[] = {"Load",       "Store",        "Immediate",   "FloatImmediate",
                                      "FrameIndex", "ConstantPool", "JumpTable",   "Global",
                                      "Block",      "RegisterMask", "OtherOperand"};
static_assert(std::size(Operands) == FirstRegister);

/// A register holds an integer or float of 8 << 0 … 8 << 6 bits, a mask, or something else.
constexpr unsigned Sizes = 7, Mask = 2 * Sizes, OtherShape = Mask + 1, Shapes = OtherShape + 1;
constexpr unsigned Kinds = FirstRegister + 2 * Shapes; // virtual, then physical

unsigned shapeOf(const TargetRegisterInfo &Target, const TargetRegisterClass &Class) {
  bool IsFloat = false, IsMask = false, IsKnown = false;
  for (auto Type = Target.legalclasstypes_begin(Class); *Type != MVT::Other; ++Type) {
    const MVT Held(*Type);
    IsKnown |= Held != MVT::Untyped;
    IsMask |= Held.isVector() && Held.getVectorElementType() == MVT::i1;
    IsFloat |= Held.isVector() || Held.isFloatingPoint();
  }
  const uint64_t Bits = Target.getRegSizeInBits(Class).getKnownMinValue();
  unsigned Size = 0;
  while (Size < Sizes && (8U << Size) < Bits)
    ++Size;
  if (IsMask)
    return Mask;
  return IsKnown && Size < Sizes ? (IsFloat ? Sizes : 0) + Size : OtherShape;
}

} // namespace

MachineNames::MachineNames(const TargetRegisterInfo &Target)
    : Classes(Target.getNumRegClasses()),
      Fixed(Target.getNumRegs(), FirstRegister + Shapes + OtherShape) {
  std::vector<uint64_t> Bits(Fixed.size());
  for (const TargetRegisterClass *Class : Target.regclasses()) {
    const unsigned Shape = shapeOf(Target, *Class);
    Classes[Class->getID()] = FirstRegister + Shape;
    if (!Class->isAllocatable()) // flags, for example
      continue;
    const uint64_t Size = Target.getRegSizeInBits(*Class).getKnownMinValue();
    for (const MCPhysReg Register : *Class)
      if (Size > Bits[Register]) { // an XMM register is in the class of 32 bits, too
        Bits[Register] = Size;
        Fixed[Register] = FirstRegister + Shapes + Shape;
      }
  }
}

const MachineNames &MachineNames::of(const MachineFunction &MF) {
  static std::mutex Lock;
  static std::map<Triple::ArchType, std::unique_ptr<const MachineNames>> All;
  const std::lock_guard Held(Lock);
  std::unique_ptr<const MachineNames> &Names = All[MF.getTarget().getTargetTriple().getArch()];
  if (!Names)
    Names.reset(new MachineNames(*MF.getSubtarget().getRegisterInfo()));
  return *Names;
}

std::string MachineNames::opcode(const MachineFunction &MF, unsigned Opcode) {
  const StringRef Whole = MF.getSubtarget().getInstrInfo()->getName(Opcode);
  if (Opcode <= TargetOpcode::GENERIC_OP_END)
    return Whole.str();
  // Widths and kinds of operands begin with a digit or are in lower case.
  StringRef Name = Whole.take_while([](char C) { return ('A' <= C && C <= 'Z') || C == '_'; });
  const StringRef Rest = Whole.drop_front(Name.size());
  const Triple &Target = MF.getTarget().getTargetTriple();
  const auto ShortenBy = [&](StringRef Letters) {
    if (Name.size() > 3 && Letters.contains(Name.back()))
      Name = Name.drop_back();
  };
  if (Target.isX86() && Name.size() > 3 && Name[0] == 'V' && Name[1] != '_') {
    Name = Name.drop_front(); // VADDPSZrr, VADDPSYrr, VADDPSrr, ADDPSrr
    ShortenBy("YZ");
  }
  if (Target.isAArch64() && !Rest.starts_with("v")) // LDRXui, LDRDui, FADDSrr; not UMAXv4i32
    ShortenBy(Name.starts_with("F") || Name.starts_with("LD") || Name.starts_with("ST") ? "WXBHSDQ"
                                                                                        : "WX");
  return Name.size() < 2 ? Whole.str() : Name.rtrim('_').str(); // Bcc isn't B
}

unsigned MachineNames::kinds() { return Kinds; }

StringRef MachineNames::kind(unsigned Number) {
  static const std::vector<std::string> Names = [] {
    std::vector<std::string> All(std::begin(Operands), std::end(Operands));
    for (const std::string Sort : {"Virtual", "Physical"}) {
      for (const char *Type : {"Integer", "Float"})
        for (unsigned Size = 0; Size < Sizes; ++Size)
          All.push_back(Sort + Type + std::to_string(8U << Size));
      All.push_back(Sort + "Mask");
      All.push_back(Sort + "Other");
    }
    return All;
  }();
  return Names[Number];
}

unsigned MachineNames::kindOf(const MachineOperand &Operand,
                              const MachineRegisterInfo &Registers) const {
  switch (Operand.getType()) {
  case MachineOperand::MO_Register: {
    if (!Operand.getReg().isVirtual())
      return Fixed[Operand.getReg().id()];
    const TargetRegisterClass *Class = Registers.getRegClassOrNull(Operand.getReg());
    return Class ? Classes[Class->getID()] : FirstRegister + OtherShape;
  }
  case MachineOperand::MO_Immediate:
  case MachineOperand::MO_CImmediate:
    return Immediate;
  case MachineOperand::MO_FPImmediate:
    return FloatImmediate;
  case MachineOperand::MO_FrameIndex:
    return FrameIndex;
  case MachineOperand::MO_ConstantPoolIndex:
    return ConstantPool;
  case MachineOperand::MO_JumpTableIndex:
    return JumpTable;
  case MachineOperand::MO_GlobalAddress:
  case MachineOperand::MO_ExternalSymbol:
  case MachineOperand::MO_MCSymbol:
    return Global;
  case MachineOperand::MO_MachineBasicBlock:
  case MachineOperand::MO_BlockAddress:
    return Block;
  case MachineOperand::MO_RegisterMask:
  case MachineOperand::MO_RegisterLiveOut:
    return RegisterMask;
  default:
    return OtherOperand;
  }
}

void MachineNames::visit(const MachineInstr &MI,
                         function_ref<void(MachineRelation, unsigned)> Visit) const {
  const MachineRegisterInfo &Registers = MI.getMF()->getRegInfo();
  for (const MachineOperand &Next : MI.operands())
    if (!Next.isReg() || Next.getReg())
      Visit(Next.isReg() && Next.isDef() ? MachineRelation::Defines : MachineRelation::Uses,
            kindOf(Next, Registers));
  if (MI.mayLoad())
    Visit(MachineRelation::Accesses, Load);
  if (MI.mayStore())
    Visit(MachineRelation::Accesses, Store);
}

} // namespace mlbridge::embeddings
