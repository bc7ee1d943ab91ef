// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "options.h"

#include <mlbridge/uri.h>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"

using namespace llvm;

static cl::opt<std::string> ModelUriOption("phase-ordering-model", cl::value_desc("URI"),
                                           cl::desc("The model that chooses the passes"));
static cl::opt<std::string> ServeUriOption(
    "phase-ordering-serve", cl::value_desc("URI"),
    cl::desc("For training: wait at this address for a driver that resets and steps the pass"));
static cl::opt<std::string>
    ActionsOption("phase-ordering-actions", cl::value_desc("FILE"),
                  cl::desc("With -phase-ordering-serve: the groups of passes, as JSON"));
static cl::opt<std::string>
    ObservationOption("phase-ordering-observation", cl::init("counts"), cl::value_desc("KIND"),
                      cl::desc("With -phase-ordering-serve: what is observed"));
static cl::opt<std::string>
    VocabularyOption("phase-ordering-vocabulary", cl::value_desc("FILE"),
                     cl::desc("The vocabulary for IR2Vec instead of the built-in one"));
static cl::opt<bool> KeepStatesOption("phase-ordering-keep-states",
                                      cl::desc("With -phase-ordering-serve: an episode can begin "
                                               "in a state of the last one"));
static cl::opt<std::string> StateOption(
    "phase-ordering-state", cl::value_desc("FILE"),
    cl::desc("With -phase-ordering-serve: write the module as it is there before each reply"));
static cl::opt<unsigned>
    MaxStepsOption("phase-ordering-max-steps", cl::value_desc("N"),
                   cl::desc("The maximum number of groups of passes to run on a module"));
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
                    cl::desc("Write how candidates were compared, or why the model failed, to a "
                             "file in this folder"));
static cl::opt<unsigned>
    EffortOption("phase-ordering-effort", cl::value_desc("N"),
                 cl::desc("How many candidates are compared with the usual passes, whose code is "
                          "kept unless theirs is smaller; 0: the model is believed"));
static cl::opt<std::string>
    FingerprintOption("phase-ordering-fingerprint", cl::value_desc("HASH"),
                      cl::desc("Ignored: of plugin and model, for compiler caches"));
static cl::opt<std::string> LevelsOption("phase-ordering-levels", cl::init("Os,Oz"),
                                         cl::value_desc("LIST"),
                                         cl::desc("The -O levels at which the model is asked"));

namespace mlbridge::phase_ordering {

static Status invalid(const Twine &Message) { return Status(Code::InvalidArgument, Message.str()); }

static Status wrong(StringRef Option, const char *Expected, const std::string &Value) {
  return invalid("-phase-ordering-" + Option + ": expected " + Expected + ", got '" + Value + "'");
}

bool Options::hasLevel(StringRef Level) const { return is_contained(split(Levels, ','), Level); }

mlbridge::Expected<Options> readOptions() {
  if (!ServeUriOption.empty() && !ModelUriOption.empty())
    return invalid("-phase-ordering-serve and -phase-ordering-model cannot be given together");
  if (!ActionsOption.empty() && ServeUriOption.empty())
    return invalid("-phase-ordering-actions is for -phase-ordering-serve; a model has the groups "
                   "in its metadata");
  if (StateOption.getNumOccurrences() && ServeUriOption.empty())
    return invalid("-phase-ordering-state is for -phase-ordering-serve");
  if (ObservationOption != "counts" && ServeUriOption.empty())
    return invalid("-phase-ordering-observation is for -phase-ordering-serve; a model says it in "
                   "its metadata");
  const ObservationKind *Kind = findObservation(ObservationOption);
  if (!Kind || ObservationOption != Kind->Name)
    return wrong("observation", "counts, ir2vec or ir2vec-symbolic", ObservationOption);
  if (MaxStepsOption.getNumOccurrences() && MaxStepsOption == 0)
    return wrong("max-steps", "1 or more", "0");
  if (OnFailureOption != "stock" && OnFailureOption != "fail")
    return wrong("on-failure", "stock or fail", OnFailureOption);
  const mlbridge::Expected<Duration> Deadline = parseDuration(DeadlineOption);
  if (!Deadline || Deadline->count() <= 0)
    return wrong("deadline", "a time such as 5s, 250ms or a number of seconds", DeadlineOption);
  for (StringRef Level : split(LevelsOption, ','))
    if (!is_contained({"O1", "O2", "O3", "Os", "Oz"}, Level))
      return wrong("levels", "O1, O2, O3, Os, Oz, or several with commas between", LevelsOption);
  Options Given;
  Given.Model = ModelUriOption;
  Given.Serve = ServeUriOption;
  Given.Actions = ActionsOption;
  Given.Observation = Kind;
  Given.Vocabulary = VocabularyOption;
  Given.KeepStates = KeepStatesOption;
  Given.StateFile = StateOption;
  Given.MaxSteps = MaxStepsOption;
  Given.Deadline = *Deadline;
  Given.MustNotFail = OnFailureOption == "fail";
  Given.LogFolder = LogFolderOption;
  Given.Effort = EffortOption;
  Given.Levels = LevelsOption;
  return Given;
}

} // namespace mlbridge::phase_ordering
