// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin's command line options, for opt and for clang's -mllvm.
#include "settings.h"

#include <mlbridge/uri.h>

#include "llvm/Support/CommandLine.h"

using namespace llvm;

static cl::opt<std::string> ModelUriOption("phase-ordering-model", cl::value_desc("URI"),
                                           cl::desc("The model that chooses the passes"));
static cl::opt<std::string> ServeUriOption("phase-ordering-serve", cl::value_desc("URI"),
                                           cl::desc("Be driven at this address, for training"));
static cl::opt<unsigned> MaxStepsOption("phase-ordering-max-steps", cl::init(12),
                                        cl::value_desc("N"),
                                        cl::desc("The most groups of passes to run on a module"));
static cl::opt<std::string>
    DeadlineOption("phase-ordering-deadline", cl::init("5s"), cl::value_desc("TIME"),
                   cl::desc("The longest wait for the model: 5s, 250ms, or a "
                            "number of seconds"));
static cl::opt<std::string> OnFailureOption("phase-ordering-on-failure", cl::init("stock"),
                                            cl::value_desc("stock|fail"),
                                            cl::desc("If the model fails: the usual passes and a "
                                                     "warning, or an error"));
static cl::opt<std::string>
    LogFolderOption("phase-ordering-log", cl::value_desc("DIR"),
                    cl::desc("Write the decisions to a file of this folder"));
static cl::opt<std::string> LevelsOption("phase-ordering-levels", cl::init("Os,Oz"),
                                         cl::value_desc("LIST"),
                                         cl::desc("The -O levels at which the model is asked"));

namespace mlbridge::phase_ordering {

static Status wrong(const char *Option, const std::string &Want, const std::string &Got) {
  return Status(Code::InvalidArgument, std::string("-phase-ordering-") + Option + ": expected " +
                                           Want + ", got '" + Got + "'");
}

mlbridge::Expected<Settings> Settings::fromCommandLine() {
  Settings S;
  S.ModelUri = ModelUriOption;
  S.ServeUri = ServeUriOption;
  S.LogFolder = LogFolderOption;
  if (!S.ServeUri.empty() && !S.ModelUri.empty())
    return Status(Code::InvalidArgument,
                  "-phase-ordering-serve and -phase-ordering-model exclude each other");
  if (MaxStepsOption == 0)
    return wrong("max-steps", "1 or more", "0");
  S.MaxSteps = MaxStepsOption;
  if (OnFailureOption != "stock" && OnFailureOption != "fail")
    return wrong("on-failure", "stock or fail", OnFailureOption);
  S.FailIsError = OnFailureOption == "fail";
  const std::string Text = DeadlineOption;
  const mlbridge::Expected<Duration> Parsed = parseDuration(Text);
  if (!Parsed || Parsed->count() <= 0)
    return wrong("deadline", "a time such as 5s, 250ms or a number of seconds", Text);
  S.Deadline = *Parsed;
  SmallVector<StringRef> Levels;
  StringRef(LevelsOption).split(Levels, ',');
  for (StringRef Level : Levels) {
    if (!is_contained({"O1", "O2", "O3", "Os", "Oz"}, Level))
      return wrong("levels", "O1, O2, O3, Os, Oz, or several with commas between", LevelsOption);
    S.Levels.push_back(Level.str());
  }
  return S;
}

} // namespace mlbridge::phase_ordering
