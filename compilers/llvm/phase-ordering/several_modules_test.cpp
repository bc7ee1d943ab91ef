// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several modules in one process, one after another and at the same time, do not disturb each
// other: each gets what it gets alone, also beside one whose model fails.
#include "versions/pass_plugin.h"
#include "versions/target_triple.h"

#include <mlbridge/server.h>

#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace llvm;
namespace versions = mlbridge::versions;

namespace {

const PassPlugin *Plugin;

// A loop over memory whose body differs from module to module.
std::string source(unsigned Number) {
  const std::string N = std::to_string(Number);
  std::string Text = "source_filename = \"module" + N + ".c\"\n";
  for (unsigned I = 0; I <= Number; ++I)
    Text += "define i32 @f" + std::to_string(I) + R"((ptr %p, i32 %n) minsize optsize {
entry:
  %i = alloca i32
  %s = alloca i32
  store i32 0, ptr %i
  store i32 0, ptr %s
  br label %head
head:
  %a = load i32, ptr %i
  %c = icmp slt i32 %a, %n
  br i1 %c, label %body, label %done
body:
  %q = getelementptr i32, ptr %p, i32 %a
  %v = load i32, ptr %q
  %w = mul i32 %v, )" +
            N + R"(
  %o = load i32, ptr %s
  %t = add i32 %o, %w
  store i32 %t, ptr %s
  %b = add i32 %a, 1
  store i32 %b, ptr %i
  br label %head
done:
  %r = load i32, ptr %s
  ret i32 %r
}
)";
  return Text;
}

void collect(const DiagnosticInfo *Info, void *To) {
  raw_string_ostream OS(*static_cast<std::string *>(To));
  DiagnosticPrinterRawOStream Printer(OS);
  Info->print(Printer);
}

struct Compiled {
  std::string Text;
  std::string Messages;
};

std::unique_ptr<TargetMachine> codeGenerator() {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  std::string Wrong;
  const Triple Native(sys::getProcessTriple());
  const Target *T = TargetRegistry::lookupTarget(versions::given(Native), Wrong);
  return std::unique_ptr<TargetMachine>(
      T ? T->createTargetMachine(versions::given(Native), "", "", TargetOptions(), Reloc::PIC_)
        : nullptr);
}

Compiled compile(unsigned Number, bool WithPlugin = true,
                 OptimizationLevel Level = OptimizationLevel::Oz, TargetMachine *TM = nullptr) {
  Compiled Result;
  LLVMContext Context;
  Context.setDiagnosticHandlerCallBack(collect, &Result.Messages);
  SMDiagnostic Wrong;
  std::unique_ptr<Module> M = parseAssemblyString(source(Number), Wrong, Context);
  if (!M)
    return {"", Wrong.getMessage().str()};
  if (TM) {
    M->setTargetTriple(versions::given(TM->getTargetTriple()));
    M->setDataLayout(TM->createDataLayout());
  }
  LoopAnalysisManager LAM;
  FunctionAnalysisManager FAM;
  CGSCCAnalysisManager CGAM;
  ModuleAnalysisManager MAM;
  PassInstrumentationCallbacks PIC;
  PassBuilder PB(TM, PipelineTuningOptions(), std::nullopt, &PIC);
  if (WithPlugin)
    Plugin->registerPassBuilderCallbacks(PB);
  PB.registerModuleAnalyses(MAM);
  PB.registerCGSCCAnalyses(CGAM);
  PB.registerFunctionAnalyses(FAM);
  PB.registerLoopAnalyses(LAM);
  PB.crossRegisterProxies(LAM, FAM, CGAM, MAM);
  PB.buildPerModuleDefaultPipeline(Level).run(*M, MAM);
  if (TM) {
    SmallVector<char, 0> Object;
    raw_svector_ostream Out(Object);
    legacy::PassManager Passes;
    EXPECT_FALSE(TM->addPassesToEmitFile(Passes, Out, nullptr, CodeGenFileType::ObjectFile));
    Passes.run(*M);
  }
  raw_string_ostream(Result.Text) << *M;
  return Result;
}

void setOptions(const std::vector<std::string> &Options) {
  cl::ResetAllOptionOccurrences();
  std::vector<const char *> Arguments = {"test"};
  for (const std::string &Option : Options)
    Arguments.push_back(Option.c_str());
  ASSERT_TRUE(cl::ParseCommandLineOptions(int(Arguments.size()), Arguments.data()));
}

constexpr unsigned Modules = 6;

/// The groups that each module asks for, but the last.
const std::vector<int64_t> Orders[Modules - 1] = {
    {31}, {30, 5, 13}, {33, 16, 39}, {23, 8}, {32, 7, 28, 22}};

/// Answers each module with its order, and the last one with an error, until it is destroyed.
class Policy {
public:
  explicit Policy(mlbridge::Server At)
      : Serving(std::move(At)), Thread([this] {
          while (!Serving.isStopped())
            if (mlbridge::Expected<mlbridge::Event> Next = Serving.next())
              answer(*Next);
        }) {}
  ~Policy() {
    Serving.stop();
    Thread.join();
  }
  Policy(const Policy &) = delete;
  Policy &operator=(const Policy &) = delete;

private:
  static void answer(mlbridge::Event &Request) {
    if (Request.kind() != mlbridge::EventKind::Request)
      return;
    const std::string Source(Request.context().unit);
    const unsigned Number = unsigned(Source.at(strlen("module")) - '0');
    if (Number + 1 == Modules) {
      (void)Request.fail(mlbridge::Status(mlbridge::Code::PolicyFailed, "no order of " + Source));
      return;
    }
    const std::vector<int64_t> &Order = Orders[Number];
    const uint64_t Step = Request.step();
    const int64_t Stop = int64_t(Request.input(Mask).count) - 1;
    Request.output(0).as<int64_t>()[0] = Step < Order.size() ? Order[Step] : Stop;
    (void)Request.reply();
  }
  static constexpr size_t Mask = 1; ///< the number of the input

  mlbridge::Server Serving;
  std::thread Thread;
};

class SeveralModules : public testing::Test {
protected:
  void SetUp() override {
    SmallString<128> Unique;
    ASSERT_FALSE(sys::fs::createUniqueDirectory("phase-ordering", Unique));
    Folder = std::string(Unique);
    for (unsigned I = 0; I + 1 < Modules; ++I) {
      setOptions({"-phase-ordering-model=function:sequence?actions=" + join(Orders[I])});
      const Compiled Result = compile(I);
      ASSERT_EQ(Result.Messages, "");
      Alone.push_back(Result.Text);
    }
    Alone.push_back(compile(Modules - 1, /*WithPlugin=*/false).Text);
    const std::string Uri = "unix:" + Folder + "/policy";
    mlbridge::Expected<mlbridge::Server> At = mlbridge::Server::listen(Uri, {});
    ASSERT_TRUE(At) << At.status().toString();
    Answering.emplace(std::move(*At));
    setOptions({"-phase-ordering-model=" + Uri, "-phase-ordering-deadline=60s"});
  }
  void TearDown() override {
    Answering.reset();
    EXPECT_FALSE(sys::fs::remove_directories(Folder));
  }

  void check(unsigned Number, const Compiled &Result) {
    EXPECT_EQ(Result.Text, Alone[Number]) << "module " << Number;
    if (Number + 1 < Modules)
      EXPECT_EQ(Result.Messages, "") << "module " << Number;
    else
      EXPECT_NE(Result.Messages.find("no order of module5.c"), std::string::npos)
          << Result.Messages;
  }

  static std::string join(const std::vector<int64_t> &Order) {
    std::string Text;
    for (const int64_t Action : Order)
      Text += (Text.empty() ? "" : ",") + std::to_string(Action);
    return Text;
  }

  std::string Folder;
  std::vector<std::string> Alone;
  std::optional<Policy> Answering;
};

TEST_F(SeveralModules, OneAfterAnother) {
  EXPECT_NE(Alone[0], compile(0, /*WithPlugin=*/false).Text);
  for (unsigned I = Modules; I-- > 0;)
    check(I, compile(I));
  for (unsigned I = 0; I < Modules; ++I)
    check(I, compile(I));
}

TEST_F(SeveralModules, AtTheSameTime) {
  for (int Round = 0; Round < 5; ++Round) {
    std::vector<Compiled> Results(2 * Modules);
    std::vector<std::thread> Threads;
    Threads.reserve(Results.size());
    for (unsigned I = 0; I < Results.size(); ++I)
      Threads.emplace_back([&Results, I] { Results[I] = compile(I % Modules); });
    for (std::thread &T : Threads)
      T.join();
    for (unsigned I = 0; I < Results.size(); ++I)
      check(I % Modules, Results[I]);
  }
}

TEST_F(SeveralModules, OptionsOfACandidateEndWithItsModule) {
  Answering.reset(); // nothing is tried in a process with several threads
  const std::string List = Folder + "/list.json";
  std::error_code Failed;
  raw_fd_ostream(List, Failed)
      << R"({"version": 1, "candidates": [{"name": "nothing", "passes": "internalize,globaldce",
            "after_stock": true, "options": ["disable-lsr"]}]})";
  ASSERT_FALSE(Failed);
  setOptions({"-phase-ordering-model=candidates:" + List, "-phase-ordering-effort=1"});
  const cl::Option *Lsr = cl::getRegisteredOptions().lookup("disable-lsr");
  const std::unique_ptr<TargetMachine> TM = codeGenerator();
  ASSERT_TRUE(TM);
  const Compiled Emptied = compile(0, /*WithPlugin=*/true, OptimizationLevel::Oz, TM.get());
  EXPECT_TRUE(Emptied.Messages.empty() ||
              StringRef(Emptied.Messages).contains("nothing: 0 bytes of code instead of "))
      << Emptied.Messages;
  EXPECT_EQ(Emptied.Text.find("define"), std::string::npos) << Emptied.Text;
  EXPECT_EQ(Lsr->getNumOccurrences(), 1);
  compile(1, /*WithPlugin=*/true, OptimizationLevel::O2); // is left alone
  EXPECT_EQ(Lsr->getNumOccurrences(), 0);

  Compiled BesideAnother;
  std::thread([&] { BesideAnother = compile(0); }).join();
  EXPECT_EQ(BesideAnother.Text, compile(0, /*WithPlugin=*/false).Text);
  EXPECT_EQ(Lsr->getNumOccurrences(), 0);
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    errs() << "expected the plugin\n";
    return 1;
  }
  Expected<PassPlugin> Loaded = PassPlugin::Load(argv[1]);
  if (!Loaded) {
    errs() << toString(Loaded.takeError()) << '\n';
    return 1;
  }
  Plugin = &*Loaded;
  return RUN_ALL_TESTS();
}
