// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What llvm-mca does for assembly, for each block of an object: LLVM's simulation of a processor.
#include "code_speed.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInstrAnalysis.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/MCA/Context.h"
#include "llvm/MCA/CustomBehaviour.h"
#include "llvm/MCA/InstrBuilder.h"
#include "llvm/MCA/Pipeline.h"
#include "llvm/MCA/SourceMgr.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

/// Of a call, besides the function that is called.
static constexpr unsigned CallLatency = 10;
/// A block is simulated so often in a row, as in a loop.
static constexpr unsigned Iterations = 8;

void describeBlocks(TargetMachine &TM) {
  TM.Options.BBAddrMap = true;
  if (cl::Option *Map = cl::getRegisteredOptions().lookup("pgo-analysis-map"))
    Map->addOccurrence(1, Map->ArgStr, "bb-freq");
}

namespace {

class Processor {
public:
  explicit Processor(const TargetMachine &TM)
      : STI(*TM.getMCSubtargetInfo()), MCII(*TM.getMCInstrInfo()), MRI(*TM.getMCRegisterInfo()),
        Context(TM.getTargetTriple(), TM.getMCAsmInfo(), &MRI, &STI),
        Disassembler(TM.getTarget().createMCDisassembler(STI, Context)),
        Analysis(TM.getTarget().createMCInstrAnalysis(&MCII)), Instruments(STI, MCII),
        Builder(STI, MCII, MRI, Analysis.get(), Instruments, CallLatency) {}

  bool hasModel() const { return Disassembler && STI.getSchedModel().hasInstrSchedModel(); }
  double cycles(StringRef Block);

private:
  double simulate(ArrayRef<uint8_t> Block);

  const MCSubtargetInfo &STI;
  const MCInstrInfo &MCII;
  const MCRegisterInfo &MRI;
  MCContext Context;
  std::unique_ptr<MCDisassembler> Disassembler;
  std::unique_ptr<MCInstrAnalysis> Analysis;
  mca::InstrumentManager Instruments;
  mca::InstrBuilder Builder;
  StringMap<double> Known; ///< many blocks are equal
};

double Processor::cycles(StringRef Block) {
  const auto [It, New] = Known.try_emplace(Block);
  if (New)
    It->second = simulate(arrayRefFromStringRef(Block));
  return It->second;
}

double Processor::simulate(ArrayRef<uint8_t> Block) {
  std::vector<std::unique_ptr<mca::Instruction>> Sequence;
  unsigned Unknown = 0;
  Builder.clear();
  while (!Block.empty()) {
    MCInst Inst;
    uint64_t Size = 0;
    if (Disassembler->getInstruction(Inst, Size, Block, 0, nulls()) != MCDisassembler::Success) {
      Size = std::max<uint64_t>(Size, 1); // data, or what the assembler has and LLVM can't read
      ++Unknown;
    } else if (auto Made = Builder.createInstruction(Inst, {})) {
      Sequence.push_back(std::move(*Made));
    } else {
      consumeError(Made.takeError());
      ++Unknown;
    }
    Block = Block.drop_front(std::min<size_t>(Size, Block.size()));
  }
  if (Sequence.empty())
    return Unknown;
  mca::CircularSourceMgr Source(Sequence, Iterations);
  mca::Context Machine(MRI, STI);
  mca::CustomBehaviour Custom(STI, Source, MCII);
  const mca::PipelineOptions Defaults(0, 0, 0, 0, 0, 0, /*NoAlias=*/true);
  const std::unique_ptr<mca::Pipeline> Run =
      STI.getSchedModel().isOutOfOrder() ? Machine.createDefaultPipeline(Defaults, Source, Custom)
                                         : Machine.createInOrderPipeline(Defaults, Source, Custom);
  llvm::Expected<unsigned> Cycles = Run->run();
  if (!Cycles) {
    consumeError(Cycles.takeError());
    return double(Sequence.size() + Unknown);
  }
  return double(*Cycles) / Iterations + Unknown;
}

} // namespace

static llvm::Expected<double> cyclesOfSection(const object::ELFObjectFileBase &Made,
                                              const object::SectionRef &Section,
                                              Processor &Simulated) {
  std::vector<object::PGOAnalysisMap> Frequencies;
  llvm::Expected<std::vector<object::BBAddrMap>> Functions =
      Made.readBBAddrMap(unsigned(Section.getIndex()), &Frequencies);
  if (!Functions)
    return Functions.takeError();
  llvm::Expected<StringRef> Code = Section.getContents();
  if (!Code)
    return Code.takeError();
  double Sum = 0;
  for (const auto &[Function, Its] : zip(*Functions, Frequencies)) {
    const std::vector<object::BBAddrMap::BBEntry> &Blocks = Function.getBBEntries();
    if (Blocks.empty() || Its.BBEntries.size() != Blocks.size())
      continue;
    const double Entry = double(Its.BBEntries.front().BlockFreq.getFrequency());
    for (const auto &[Block, Often] : zip(Blocks, Its.BBEntries)) {
      const double Weight = Entry > 0 ? double(Often.BlockFreq.getFrequency()) / Entry : 1;
      const uint64_t At = Function.getFunctionAddress() + Block.Offset;
      Sum += Weight * Simulated.cycles(Code->substr(At, Block.Size));
    }
  }
  return Sum;
}

llvm::Expected<double> cycles(const object::ObjectFile &Made, const TargetMachine &TM) {
  InitializeAllDisassemblers();
  Processor Simulated(TM);
  const auto *Elf = dyn_cast<object::ELFObjectFileBase>(&Made);
  if (!Elf || !Simulated.hasModel())
    return createStringError("LLVM has no scheduling model of " + TM.getTargetTriple().str());
  double Sum = 0;
  for (const object::SectionRef &Section : Elf->sections()) {
    if (!Section.isText() || !Section.getSize())
      continue;
    llvm::Expected<double> Its = cyclesOfSection(*Elf, Section, Simulated);
    if (!Its)
      return Its;
    Sum += *Its;
  }
  return Sum;
}

} // namespace mlbridge::phase_ordering
