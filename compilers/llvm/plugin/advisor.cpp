// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "advisor.h"

#include <mlbridge/uri.h>

#include <map>
#include <mutex>

using namespace llvm;

namespace mlbridge::plugin {

Model openForProcess(const Settings &Options) {
  static std::mutex Lock;
  // Never destroyed: other threads may still be compiling when the process exits.
  static auto &Models = *new std::map<std::string, Model>;
  const std::lock_guard<std::mutex> Guard(Lock);
  mlbridge::Expected<Uri> Parsed = Uri::parse(Options.Model);
  if (Parsed && !Options.Log.empty())
    Parsed->options["record"] = Options.Log;
  const std::string Address = Parsed ? Parsed->toString() : Options.Model;
  // Two optimizations may have one model, and different options.
  const auto [Entry, IsNew] = Models.try_emplace(Options.Deadline + " " + Address);
  if (IsNew)
    Entry->second = Model::open(Address, Options.opening());
  return Entry->second;
}

std::unique_ptr<LLVMModelRunner> newRunner(const Settings &Options, const Model &Policy,
                                           const Module &M,
                                           const std::vector<llvm::TensorSpec> &Features,
                                           const llvm::TensorSpec &Advice) {
  Signature Wanted = fromLLVM(Features, Advice);
  if (Options.Missing == "zero")
    Wanted = withMissingInputs(std::move(Wanted), Policy);
  return std::make_unique<LLVMModelRunner>(M.getContext(), Features, Advice, Policy, Wanted,
                                           CallContext{"", "", M.getSourceFileName()});
}

} // namespace mlbridge::plugin
