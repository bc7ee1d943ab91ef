// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "options.h"

#include "plugin/flags.h"

#include "llvm/Support/CommandLine.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

namespace {

constexpr const char *Prefix = "phase-ordering";

const plugin::Flags ModelFlags(Prefix, "The model that chooses the passes", "Os,Oz");
const plugin::Flag
    ServeFlag(Prefix, "serve", "", "URI",
              "For training: wait at this address for a driver that resets and steps the pass");
const plugin::Flag ActionsFlag(Prefix, "actions", "", "FILE",
                               "With -phase-ordering-serve: the groups of passes, as JSON");
const plugin::Flag ObservationFlag(Prefix, "observation", "counts", "KIND",
                                   "With -phase-ordering-serve: what is observed");
const plugin::Flag VocabularyFlag(Prefix, "vocabulary", "", "FILE",
                                  "The vocabulary for IR2Vec instead of the built-in one");
const plugin::Flag
    StateFlag(Prefix, "state", "", "FILE",
              "With -phase-ordering-serve: write the module as it is there before each reply");
const plugin::Flag LogFlag(Prefix, "log", "", "DIR",
                           "Write how candidates were compared, or why the model failed, to a "
                           "file in this folder");
cl::opt<bool> KeepStatesOption("phase-ordering-keep-states",
                               cl::desc("With -phase-ordering-serve: an episode can begin in a "
                                        "state of the last one"));
cl::opt<unsigned> MaxStepsOption("phase-ordering-max-steps", cl::value_desc("N"),
                                 cl::desc("The maximum number of groups of passes to run on a "
                                          "module"));
cl::opt<unsigned>
    EffortOption("phase-ordering-effort", cl::value_desc("N"),
                 cl::desc("How many candidates are compared with the usual passes, whose code is "
                          "kept unless theirs is smaller; 0: the model is believed"));

Status check(const Options &Given, const std::string &Observation) {
  const auto Invalid = [](const char *Why) { return Status(Code::InvalidArgument, Why); };
  if (Given.Serves && ModelFlags.given())
    return Invalid("-phase-ordering-serve and -phase-ordering-model cannot be given together");
  if (!Given.Serves && !Given.Actions.empty())
    return Invalid("-phase-ordering-actions is for -phase-ordering-serve; a model has the groups "
                   "in its metadata");
  if (!Given.Serves && !Given.StateFile.empty())
    return Invalid("-phase-ordering-state is for -phase-ordering-serve");
  if (!Given.Serves && Observation != "counts")
    return Invalid("-phase-ordering-observation is for -phase-ordering-serve; a model says it in "
                   "its metadata");
  if (!Given.Observation || Observation != Given.Observation->Name)
    return Given.invalid("observation", "counts, ir2vec or ir2vec-symbolic", Observation);
  if (MaxStepsOption.getNumOccurrences() && Given.MaxSteps == 0)
    return Given.invalid("max-steps", "1 or more", "0");
  return Given.checkValues();
}

} // namespace

void Options::giveUpOn(const Module &M, const Twine &Why) const {
  giveUp(M.getContext(), Why, "the module is left to the usual passes");
}

std::optional<Options> readOptions(LLVMContext &Context) {
  const std::string Serve = ServeFlag.value(), Observation = ObservationFlag.value();
  Options Given(ModelFlags.settings());
  Given.Serves = !Serve.empty();
  if (Given.Serves)
    Given.Model = Serve;
  Given.Log = LogFlag.value();
  Given.Actions = ActionsFlag.value();
  Given.Observation = findObservation(Observation);
  Given.Vocabulary = VocabularyFlag.value();
  Given.KeepStates = KeepStatesOption;
  Given.StateFile = StateFlag.value();
  Given.MaxSteps = MaxStepsOption;
  Given.Effort = EffortOption;
  if (const Status Valid = check(Given, Observation); !Valid) {
    Given.refuse(Context, Valid);
    return std::nullopt;
  }
  return Given;
}

} // namespace mlbridge::phase_ordering
