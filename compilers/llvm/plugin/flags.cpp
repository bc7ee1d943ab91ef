// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "flags.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Metadata.h"
#include "llvm/Support/Process.h"

#include <algorithm>
#include <vector>

using namespace llvm;

namespace mlbridge::plugin {

/// All flags of this plugin.
static std::vector<const Flag *> &flags() {
  static std::vector<const Flag *> All;
  return All;
}

static thread_local StringMap<std::string> OfModule;

Flag::Flag(StringRef Prefix, StringRef Option, StringRef Default, StringRef ValueName,
           StringRef Description)
    : Name((Prefix + "-" + Option).str()),
      Option(StringRef(Name), cl::init(Default.str()), cl::value_desc(ValueName),
             cl::desc(Description)) {
  flags().push_back(this);
}

std::optional<std::string> Flag::stated() const {
  if (Option.getNumOccurrences())
    return Option;
  std::string Variable = "MLBRIDGE_" + StringRef(Name).upper();
  std::replace(Variable.begin(), Variable.end(), '-', '_');
  return sys::Process::GetEnv(Variable);
}

std::string Flag::value() const {
  if (std::optional<std::string> Stated = stated())
    return *Stated;
  const auto Found = OfModule.find(Name);
  return Found == OfModule.end() ? std::string(Option) : Found->second;
}

static std::string keyOf(StringRef Prefix) { return ("mlbridge." + Prefix).str(); }

void OptionsOfModule::write(Module &M, StringRef Prefix) {
  LLVMContext &Context = M.getContext();
  SmallVector<llvm::Metadata *> Options;
  for (const Flag *One : flags())
    if (const std::optional<std::string> Value = One->stated())
      Options.push_back(MDString::get(Context, (One->name() + "=" + *Value).str()));
  if (Options.empty() || M.getModuleFlag(keyOf(Prefix)))
    return;
  // The outer node is a set, to which linking adds those of other modules.
  llvm::Metadata *const All = MDNode::get(Context, Options);
  M.addModuleFlag(Module::AppendUnique, keyOf(Prefix), MDNode::get(Context, All));
}

bool OptionsOfModule::read(const Module &M, StringRef Prefix) {
  forget();
  const auto *Sets = dyn_cast_or_null<MDNode>(M.getModuleFlag(keyOf(Prefix)));
  if (!Sets || Sets->getNumOperands() == 0)
    return true;
  const auto *Options = dyn_cast_or_null<MDNode>(Sets->getOperand(0));
  if (!Options || Sets->getNumOperands() > 1)
    return false;
  for (const MDOperand &Option : Options->operands())
    if (const auto *Text = dyn_cast_or_null<MDString>(Option)) {
      const auto [Name, Value] = Text->getString().split('=');
      OfModule[Name] = Value.str();
    }
  return true;
}

void OptionsOfModule::forget() { OfModule.clear(); }

Flags::Flags(StringRef Prefix, StringRef Models, StringRef Levels)
    : Prefix(Prefix), Model(Prefix, "model", "", "URI", Models),
      Deadline(Prefix, "deadline", "5s", "TIME",
               "The longest wait for the model: 5s, 250ms, or a number of seconds"),
      OnFailure(Prefix, "on-failure", "stock", "stock|fail",
                "If the model fails: what LLVM does, and a warning, or an error"),
      Levels(Prefix, "levels", Levels, "LIST",
             "The -O levels of the functions for which the model is asked"),
      Fingerprint(Prefix, "fingerprint", "", "HASH",
                  "Ignored: of plugin and model, for compiler caches") {}

Settings Flags::settings() const {
  Settings Options;
  Options.Prefix = Prefix.str();
  Options.Model = Model.value();
  Options.Deadline = Deadline.value();
  Options.OnFailure = OnFailure.value();
  Options.Levels = Levels.value();
  return Options;
}

AdvisorFlags::AdvisorFlags(StringRef Prefix, StringRef Models, StringRef Levels)
    : Flags(Prefix, Models, Levels),
      Missing(Prefix, "missing", "refuse", "refuse|zero",
              "Inputs of the model that LLVM does not have: an error, or zero"),
      Log(Prefix, "log", "", "DIR", "Record what is asked and answered") {}

Settings AdvisorFlags::advisorSettings() const {
  Settings Options = Flags::settings();
  Options.Missing = Missing.value();
  Options.Log = Log.value();
  return Options;
}

} // namespace mlbridge::plugin
