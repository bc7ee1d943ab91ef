// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// llvm_model_runner.h with the LLVM that is installed: a model answers LLVM's own inline advisor.
#include "versions/ml_inline_advisor.h"

#include <mlbridge/function.h>
#include <mlbridge/llvm_model_runner.h>

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

constexpr const char *Program = R"(
define i32 @callee(i32 %x) {
  %y = mul i32 %x, 3
  ret i32 %y
}
define i32 @caller(i32 %x) {
  %y = call i32 @callee(i32 %x)
  ret i32 %y
}
)";

const Signature Users{{TensorSpec::of<int64_t>("callee_users", {1})},
                      {TensorSpec::of<int64_t>("inlining_decision", {1})}};

/// A module with its analyses, and the only call in it.
struct Compiler {
  Compiler() {
    llvm::PassBuilder Builder;
    Builder.registerModuleAnalyses(MAM);
    Builder.registerCGSCCAnalyses(CGAM);
    Builder.registerFunctionAnalyses(FAM);
    Builder.registerLoopAnalyses(LAM);
    Builder.crossRegisterProxies(LAM, FAM, CGAM, MAM);
  }
  llvm::CallBase &call() {
    for (llvm::Instruction &I : llvm::instructions(*Module->getFunction("caller")))
      if (auto *Call = llvm::dyn_cast<llvm::CallBase>(&I))
        return *Call;
    std::abort();
  }
  llvm::LLVMContext Context;
  llvm::SMDiagnostic Wrong;
  std::unique_ptr<llvm::Module> Module = llvm::parseAssemblyString(Program, Wrong, Context);
  llvm::LoopAnalysisManager LAM;
  llvm::FunctionAnalysisManager FAM;
  llvm::CGSCCAnalysisManager CGAM;
  llvm::ModuleAnalysisManager MAM;
};

TEST(LLVMModelRunner, AnswersLLVMsOwnAdvisor) {
  for (const int64_t Answer : {0, 1}) {
    int64_t Seen = -1;
    const Model Decide = fromFunction(Users, [&](FunctionCall &Call) {
      Seen = Call.in<int64_t>("callee_users")[0];
      Call.out<int64_t>("inlining_decision")[0] = Answer;
      return Status();
    });
    Compiler It;
    llvm::MLInlineAdvisor Advisor(*It.Module, It.MAM,
                                  versions::modelRunner([&](const auto &Features) {
                                    return std::make_unique<LLVMModelRunner>(
                                        It.Context, Features, llvm::InlineDecisionSpec, Decide);
                                  }),
                                  [](llvm::CallBase &) { return false; });
    const std::unique_ptr<llvm::InlineAdvice> Advice = Advisor.getAdvice(It.call());
    EXPECT_EQ(Advice->isInliningRecommended(), Answer == 1);
    EXPECT_EQ(Seen, 2) << "LLVM's features reach the model by name: the caller, and the outside";
    Advice->recordUnattemptedInlining();
  }
}

const std::vector<llvm::TensorSpec> Features = {
    llvm::TensorSpec::createSpec<float>("weights", {2, 2}),
    llvm::TensorSpec::createSpec<int64_t>("size", {1})};
const llvm::TensorSpec Advice = llvm::TensorSpec::createSpec<float>("priority", {1});

TEST(LLVMModelRunner, AFailureAnswersZeroAndSaysWhy) {
  llvm::LLVMContext Context;
  bool Fail = true;
  const Model Sometimes = fromFunction(fromLLVM(Features, Advice), [&](FunctionCall &Call) {
    Call.out<float>("priority")[0] = Call.in<float>("weights")[3];
    return Fail ? Status(Code::PolicyFailed, "not today") : Status();
  });
  LLVMModelRunner Runner(Context, Features, Advice, Sometimes);
  ASSERT_TRUE(Runner.status());
  Runner.getTensor<float>(0)[3] = 0.5;
  EXPECT_EQ(Runner.evaluate<float>(), 0);
  EXPECT_EQ(Runner.status().code(), Code::PolicyFailed);
  Fail = false;
  EXPECT_EQ(Runner.evaluate<float>(), 0.5);
  EXPECT_TRUE(Runner.status());
}

TEST(LLVMModelRunner, WithoutAModelFeaturesCanBeWritten) {
  llvm::LLVMContext Context;
  LLVMModelRunner Runner(Context, Features, Advice, Model::open("native:/nowhere.onnx"));
  EXPECT_EQ(Runner.status().code(), Code::NotFound);
  Runner.getTensor<float>(0)[3] = 1;
  *Runner.getTensor<int64_t>(1) = 7;
  EXPECT_EQ(Runner.evaluate<float>(), 0);
  EXPECT_EQ(Runner.status().code(), Code::NotFound);
}

TEST(LLVMModelRunner, InputsThatLLVMLacks) {
  llvm::LLVMContext Context;
  Signature More = fromLLVM(Features, Advice);
  More.inputs.push_back(TensorSpec::of<float>("discount", {1}));
  const Model Trained = fromFunction(More, [](FunctionCall &Call) {
    Call.out<float>("priority")[0] = 1 + Call.in<float>("discount")[0];
    return Status();
  });
  LLVMModelRunner Refused(Context, Features, Advice, Trained);
  EXPECT_EQ(Refused.status().code(), Code::Mismatch);
  EXPECT_NE(Refused.status().message().find("discount"), std::string::npos);
  LLVMModelRunner Runner(Context, Features, Advice, Trained,
                         withMissingInputs(fromLLVM(Features, Advice), Trained));
  EXPECT_EQ(Runner.evaluate<float>(), 1);
  EXPECT_TRUE(Runner.status());
}

} // namespace
} // namespace mlbridge
