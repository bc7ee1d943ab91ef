// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tries many orders of groups on one module and measures the object each gives:
//   lookahead FILE.bc ACTIONS.json
// Each line of standard input is a sequence ("26,39", or "-" for none); an empty line runs those
// read so far. Each answer is "SEQUENCE <tab> BYTES <tab> STATE <tab> FEATURES": executable bytes
// of the object (-1 for a line that began with "?", which isn't measured), a digest of the module,
// and the observation. "#crash <tab> SEQUENCE <tab> ACTION" tells of a group that ended its
// process. An empty line follows the last answer.
//
// The module is optimized in a tree of forked processes, so a common prefix runs once and a crash
// costs one branch. Equal modules are measured once. Same passes, observation and code generation
// as clang-22 -Oz with the plugin.
#include "actions.h"
#include "ir_features.h"
#include "middle_end.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include "llvm/Target/TargetMachine.h"

#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;
using namespace mlbridge::phase_ordering;

namespace {

constexpr unsigned GroupSeconds = 60, CodeSeconds = 60;

// Sizes of modules already compiled, shared by all processes; only one of them runs at a time.
struct SizeCache {
  struct Entry {
    uint64_t State;
    long Bytes;
  };
  static constexpr size_t Capacity = 1 << 20;
  size_t Count;
  Entry Entries[Capacity];

  const Entry *find(uint64_t State) const {
    for (size_t I = Count; I-- > 0;)
      if (Entries[I].State == State)
        return &Entries[I];
    return nullptr;
  }
};

struct Node {
  std::map<size_t, Node> Children;
  bool Asked = false, Measured = true;
  std::string Name;
};

struct Search {
  Module &M;
  ModuleAnalysisManager &MAM;
  const ActionList &Actions;
  TargetMachine &Target;
  SizeCache &Cache;

  void visit(const Node &At, Features Feature);

private:
  long measure(uint64_t State);
  long compile();
};

void answer(const std::string &Line) {
  if (write(1, Line.data(), Line.size()) != ssize_t(Line.size()))
    _exit(1);
}

uint64_t digest(const Module &M) {
  SmallVector<char, 0> Bytes;
  raw_svector_ostream Out(Bytes);
  WriteBitcodeToFile(M, Out);
  return xxh3_64bits(arrayRefFromStringRef(StringRef(Bytes.data(), Bytes.size())));
}

int waitFor(pid_t Child) {
  int Status = 0;
  if (Child < 0 || waitpid(Child, &Status, 0) != Child)
    return -1;
  return Status;
}

long Search::compile() {
  SmallVector<char, 0> Bytes;
  raw_svector_ostream Out(Bytes);
  legacy::PassManager Passes;
  Passes.add(new TargetLibraryInfoWrapperPass(TargetLibraryInfoImpl(M.getTargetTriple())));
  if (Target.addPassesToEmitFile(Passes, Out, nullptr, CodeGenFileType::ObjectFile))
    return -2;
  Passes.run(M);
  auto Object = object::ObjectFile::createObjectFile(
      MemoryBufferRef(StringRef(Bytes.data(), Bytes.size()), "object"));
  if (!Object) {
    consumeError(Object.takeError());
    return -2;
  }
  long Total = 0;
  for (const object::ELFSectionRef Section : (*Object)->sections())
    if (Section.getFlags() & ELF::SHF_EXECINSTR)
      Total += long(Section.getSize());
  return Total;
}

long Search::measure(uint64_t State) {
  if (const SizeCache::Entry *Known = Cache.find(State))
    return Known->Bytes;
  if (Cache.Count == SizeCache::Capacity)
    return -2;
  const pid_t Child = fork();
  if (Child == 0) {
    alarm(CodeSeconds);
    Cache.Entries[Cache.Count] = {State, compile()};
    ++Cache.Count;
    _exit(0);
  }
  const int Status = waitFor(Child);
  const SizeCache::Entry *Found = Status == 0 ? Cache.find(State) : nullptr;
  return Found ? Found->Bytes : -2;
}

void Search::visit(const Node &At, Features Feature) {
  std::vector<float> Observation(Features::size());
  Feature.write(countIR(M), Observation);
  if (At.Asked) {
    const uint64_t State = digest(M);
    std::string Line;
    raw_string_ostream Out(Line);
    Out << At.Name << '\t' << (At.Measured ? measure(State) : -1) << '\t'
        << utohexstr(State, true, 16) << '\t';
    for (float Value : Observation)
      Out << format("%.7g ", double(Value));
    answer(Line + "\n");
  }
  for (const auto &[Action, Child] : At.Children) {
    const pid_t Process = fork();
    if (Process == 0) {
      alarm(GroupSeconds);
      if (Error E = Actions.run(Action, M, MAM)) {
        errs() << toString(std::move(E)) << '\n';
        _exit(1);
      }
      alarm(0);
      visit(Child, Feature);
      _exit(0);
    }
    if (waitFor(Process) != 0)
      answer("#crash\t" + (At.Name.empty() ? "-" : At.Name) + "\t" + std::to_string(Action) + "\n");
  }
}

int fail(const Twine &Message) {
  errs() << "lookahead: " << Message << '\n';
  return 1;
}

// Adds a line of standard input to the tree; false if it is no sequence.
bool add(Node &Root, std::string Line, size_t Actions) {
  const bool Measured = Line[0] != '?';
  if (!Measured)
    Line.erase(0, 1);
  Node *At = &Root;
  if (Line != "-") {
    std::stringstream Parts(Line);
    for (std::string Part; std::getline(Parts, Part, ',');) {
      size_t Action = 0;
      if (StringRef(Part).getAsInteger(10, Action) || Action >= Actions)
        return false;
      At = &At->Children[Action];
    }
  }
  At->Asked = true;
  At->Measured = Measured;
  At->Name = Line;
  return true;
}

} // namespace

int main(int ArgCount, char **Args) {
  if (ArgCount != 3)
    return fail("usage: lookahead FILE.bc ACTIONS.json");
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  InitializeNativeTargetAsmParser();

  LLVMContext Context;
  auto Bitcode = MemoryBuffer::getFile(Args[1]);
  auto List = MemoryBuffer::getFile(Args[2]);
  if (!Bitcode || !List)
    return fail("can't read " + Twine(Bitcode ? Args[2] : Args[1]));
  auto Parsed = parseBitcodeFile((*Bitcode)->getMemBufferRef(), Context);
  if (!Parsed)
    return fail(toString(Parsed.takeError()));
  auto Actions = ActionList::parse((*List)->getBuffer());
  if (!Actions)
    return fail(toString(Actions.takeError()));
  Module &M = **Parsed;

  std::string Text;
  const llvm::Target *Found = TargetRegistry::lookupTarget(M.getTargetTriple(), Text);
  if (!Found)
    return fail(Text);
  TargetOptions Options;
  Options.UseInitArray = true;
  std::unique_ptr<TargetMachine> Machine(Found->createTargetMachine(
      M.getTargetTriple(), "", "", Options, Reloc::PIC_, std::nullopt, CodeGenOptLevel::Default));

  PassBuilder Builder(Machine.get());
  LoopAnalysisManager LAM;
  FunctionAnalysisManager FAM;
  CGSCCAnalysisManager CGAM;
  ModuleAnalysisManager MAM;
  Builder.registerModuleAnalyses(MAM);
  Builder.registerCGSCCAnalyses(CGAM);
  Builder.registerFunctionAnalyses(FAM);
  Builder.registerLoopAnalyses(LAM);
  Builder.crossRegisterProxies(LAM, FAM, CGAM, MAM);
  if (Error E = runMandatoryLowering(M, MAM))
    return fail(toString(std::move(E)));

  void *Shared = mmap(nullptr, sizeof(SizeCache), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (Shared == MAP_FAILED)
    return fail("no memory");
  Search Run{M, MAM, *Actions, *Machine, *static_cast<SizeCache *>(Shared)};
  Features First;
  First.reset(countIR(M));

  Node Root;
  for (std::string Line; std::getline(std::cin, Line);) {
    if (!Line.empty()) {
      if (!add(Root, Line, Actions->size()))
        return fail("not a sequence: " + Line);
      continue;
    }
    Run.visit(Root, First);
    answer("\n");
    Root = Node();
  }
  return 0;
}
