// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "options.h"

#include "plugin/flags.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
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
const plugin::Flag RewardsFlag(Prefix, "rewards", "each", "each|last",
                               "With -phase-ordering-serve: generate code after each step, or "
                               "when an episode ends, for one reward");
const plugin::Flag LogFlag(Prefix, "log", "", "DIR",
                           "Write how candidates were compared, or why the model failed, to a "
                           "file in this folder");
cl::opt<bool> KeepStatesOption("phase-ordering-keep-states",
                               cl::desc("With -phase-ordering-serve: an episode can begin in a "
                                        "state of the last one"));
const plugin::Flag MaxStepsFlag(Prefix, "max-steps", "", "N",
                                "The maximum number of groups of passes to run on a module");
const plugin::Flag
    EffortFlag(Prefix, "effort", "0", "N",
               "How many candidates are compared with the usual passes, whose code is kept unless "
               "theirs is smaller; 0: the model is believed");

/// The number that a flag states; false if it states something else.
bool readNumber(const std::string &Text, uint32_t &Number) {
  return Text.empty() || to_integer(Text, Number, 10);
}

Status check(const Options &Given, const std::string &Observation) {
  const auto Invalid = [](const char *Why) { return Status(Code::InvalidArgument, Why); };
  if (Given.Serves && ModelFlags.given())
    return Invalid("-phase-ordering-serve and -phase-ordering-model cannot be given together");
  if (!Given.Serves && !Given.Actions.empty())
    return Invalid("-phase-ordering-actions is for -phase-ordering-serve; a model has the groups "
                   "in its metadata");
  if (!Given.Serves && !Given.StateFile.empty())
    return Invalid("-phase-ordering-state is for -phase-ordering-serve");
  if (!Given.Serves && Given.RewardsLast)
    return Invalid("-phase-ordering-rewards is for -phase-ordering-serve");
  if (!Given.Serves && Observation != "counts")
    return Invalid("-phase-ordering-observation is for -phase-ordering-serve; a model says it in "
                   "its metadata");
  if (!Given.Observation || Observation != Given.Observation->Name)
    return Given.invalid("observation", "counts, ir2vec or ir2vec-symbolic", Observation);
  return Given.checkValues();
}

} // namespace

void Options::giveUpOn(const Module &M, const Twine &Why) const {
  giveUp(M.getContext(), Why, "the module is left to the usual passes");
}

bool hasModel() { return ModelFlags.given(); }

bool isModelSafe() {
  static constexpr StringLiteral Data[] = {"candidates", "native", "function", "unix",
                                           "shm",        "pipe",   "grpc"};
  return ModelFlags.stated() ||
         is_contained(Data, StringRef(ModelFlags.settings().Model).split(':').first);
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
  const std::string Rewards = RewardsFlag.value();
  Given.RewardsLast = Rewards == "last";
  const std::string MaxSteps = MaxStepsFlag.value(), Effort = EffortFlag.value();
  Status Valid = check(Given, Observation);
  if (!readNumber(MaxSteps, Given.MaxSteps) || (!MaxSteps.empty() && Given.MaxSteps == 0))
    Valid = Given.invalid("max-steps", "1 or more", MaxSteps);
  else if (Rewards != "each" && Rewards != "last")
    Valid = Given.invalid("rewards", "each or last", Rewards);
  else if (!readNumber(Effort, Given.Effort))
    Valid = Given.invalid("effort", "0 or more", Effort);
  if (!Valid) {
    Given.refuse(Context, Valid);
    return std::nullopt;
  }
  return Given;
}

} // namespace mlbridge::phase_ordering
