// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "flags.h"

#include "llvm/Support/Process.h"

#include <algorithm>

using namespace llvm;

namespace mlbridge::plugin {

std::string Flag::value() const {
  if (Option.getNumOccurrences())
    return Option;
  std::string Variable = "MLBRIDGE_" + StringRef(Name).upper();
  std::replace(Variable.begin(), Variable.end(), '-', '_');
  return sys::Process::GetEnv(Variable).value_or(Option);
}

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
