// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "advice.h"

#include "diagnostic.h"

#include <mlbridge/uri.h>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"

#include <map>
#include <mutex>

using namespace llvm;

namespace mlbridge::advice {

Status Settings::check() const {
  const auto Wrong = [&](StringRef Option, StringRef Want, const std::string &Got) {
    return Status(
        Code::InvalidArgument,
        ("-" + Prefix + "-" + Option + ": expected " + Want + ", got '" + Got + "'").str());
  };
  if (Model.empty())
    return Status(Code::InvalidArgument, ("no model was given (-" + Prefix + "-model=URI)").str());
  const mlbridge::Expected<Duration> Wait = parseDuration(Deadline);
  if (!Wait || Wait->count() <= 0)
    return Wrong("deadline", "a time such as 5s, 250ms or a number of seconds", Deadline);
  if (OnFailure != "stock" && OnFailure != "fail")
    return Wrong("on-failure", "stock or fail", OnFailure);
  if (Missing != "refuse" && Missing != "zero")
    return Wrong("missing", "refuse or zero", Missing);
  for (StringRef Level : split(Levels, ','))
    if (!is_contained({"O1", "O2", "O3", "Os", "Oz"}, Level))
      return Wrong("levels", "O1, O2, O3, Os, Oz, or several with commas between", Levels);
  return Status();
}

bool Settings::wants(StringRef Level) const { return is_contained(split(Levels, ','), Level); }

bool Settings::wants(const llvm::Function &F, CodeGenOptLevel Level) const {
  static constexpr const char *Names[] = {"O0", "O1", "O2", "O3"};
  return !F.hasOptNone() && wants(levelOf(F, Names[static_cast<int>(Level)]));
}

StringRef levelOf(const llvm::Function &F, StringRef Pipeline) {
  return F.hasMinSize() ? "Oz" : F.hasOptSize() ? "Os" : Pipeline;
}

Model opened(const Settings &Options) {
  static std::mutex Lock;
  // Never destroyed: other threads may still be compiling when the process exits.
  static auto &Models = *new std::map<std::string, Model>;
  const std::lock_guard<std::mutex> Guard(Lock);
  mlbridge::Expected<Uri> Parsed = Uri::parse(Options.Model);
  if (Parsed && !Options.Log.empty())
    Parsed->options["record"] = Options.Log;
  const std::string Address = Parsed ? Parsed->toString() : Options.Model;
  // Two questions may have one model, and different options.
  const auto [At, New] = Models.try_emplace(Options.Deadline + " " + Address);
  if (New) {
    OpenOptions Opening;
    Opening.deadline = *parseDuration(Options.Deadline); // check() has accepted it
    Opening.sharedBudget = true;
    At->second = Model::open(Address, Opening);
  }
  return At->second;
}

std::unique_ptr<LLVMModelRunner> newRunner(const Settings &Options, const Model &Of,
                                           const Module &M,
                                           const std::vector<llvm::TensorSpec> &Features,
                                           const llvm::TensorSpec &Advice) {
  Signature Wanted = fromLLVM(Features, Advice);
  if (Options.Missing == "zero")
    Wanted = withMissingInputs(std::move(Wanted), Of);
  OpenOptions Its;
  Its.context = M.getSourceFileName();
  return std::make_unique<LLVMModelRunner>(M.getContext(), Features, Advice, Of, Wanted, Its);
}

static void report(const Settings &Options, LLVMContext &Context, DiagnosticSeverity Severity,
                   const Twine &Message) {
  Context.diagnose(PluginDiagnostic(Severity, Options.Prefix + ": " + Message));
}

void giveUp(const Settings &Options, LLVMContext &Context, const Status &Why, StringRef Instead) {
  const bool Said = Why.message().find(Options.Model) != std::string::npos;
  const std::string What = (Said ? "" : Options.Model + ": ") + Why.toString();
  if (Options.mustNotFail())
    report(Options, Context, DS_Error, What);
  else
    report(Options, Context, DS_Warning, What + "; " + Instead.str());
}

void refuse(const Settings &Options, LLVMContext &Context, const Status &Why) {
  report(Options, Context, DS_Error, Why.message());
}

} // namespace mlbridge::advice
