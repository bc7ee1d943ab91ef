// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "flags.h"

#include "llvm/Support/Process.h"

#include <algorithm>

using namespace llvm;

namespace mlbridge::advice {

std::string Flags::value(const cl::opt<std::string> &Option) {
  if (Option.getNumOccurrences())
    return Option;
  std::string Name = "MLBRIDGE_" + Option.ArgStr.upper();
  std::replace(Name.begin(), Name.end(), '-', '_');
  return sys::Process::GetEnv(Name).value_or(Option);
}

Flags::Flags(StringRef Prefix, StringRef What, StringRef Levels)
    : Prefix(Prefix),
      Names{named(Prefix, "model"), named(Prefix, "deadline"), named(Prefix, "on-failure"),
            named(Prefix, "levels"), named(Prefix, "fingerprint")},
      Model(StringRef(Names[0]), cl::value_desc("URI"), cl::desc(What)),
      Deadline(StringRef(Names[1]), cl::init("5s"), cl::value_desc("TIME"),
               cl::desc("The longest wait for the model: 5s, 250ms, or a number of seconds")),
      OnFailure(StringRef(Names[2]), cl::init("stock"), cl::value_desc("stock|fail"),
                cl::desc("If the model fails: what LLVM does, and a warning, or an error")),
      Levels(StringRef(Names[3]), cl::init(Levels.str()), cl::value_desc("LIST"),
             cl::desc("The -O levels of the functions for which the model is asked")),
      Fingerprint(StringRef(Names[4]), cl::value_desc("HASH"),
                  cl::desc("Ignored: of plugin and model, for compiler caches")) {}

QuestionFlags::QuestionFlags(StringRef Prefix, StringRef What, StringRef Levels)
    : Flags(Prefix, What, Levels), Names{named(Prefix, "missing"), named(Prefix, "log")},
      Missing(StringRef(Names[0]), cl::init("refuse"), cl::value_desc("refuse|zero"),
              cl::desc("Inputs of the model that LLVM does not have: an error, or zero")),
      Log(StringRef(Names[1]), cl::value_desc("DIR"),
          cl::desc("Record what is asked and answered")) {}

std::string Flags::named(StringRef Prefix, StringRef Option) {
  return (Prefix + "-" + Option).str();
}

bool Flags::given() const { return !value(Model).empty(); }

Settings Flags::settings() const {
  Settings Its;
  Its.Prefix = Prefix;
  Its.Model = value(Model);
  Its.Deadline = value(Deadline);
  Its.OnFailure = value(OnFailure);
  Its.Levels = value(Levels);
  return Its;
}

Settings QuestionFlags::questionSettings() const {
  Settings Its = settings();
  Its.Missing = value(Missing);
  Its.Log = value(Log);
  return Its;
}

} // namespace mlbridge::advice
