// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and checks the list of actions, and runs one of them.
#include "actions.h"

#include "builtin_actions.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static Error failure(const Twine &Message) {
  return createStringError(inconvertibleErrorCode(), "phase-ordering.actions: " + Message);
}

StringRef ActionList::builtin() { return BuiltinActions; }

Expected<ActionList> ActionList::parse(StringRef Text) {
  Expected<json::Value> Root = json::parse(Text);
  if (!Root)
    return failure("not JSON: " + toString(Root.takeError()));
  const json::Object *Top = Root->getAsObject();
  if (!Top)
    return failure("expected an object with \"version\" and \"actions\"");
  const std::optional<int64_t> Version = Top->getInteger("version");
  if (!Version || *Version != 1)
    return failure(Version ? "expected version 1, got " + Twine(*Version)
                           : Twine("expected \"version\": 1, got none"));
  const json::Array *Items = Top->getArray("actions");
  if (!Items || Items->empty())
    return failure("expected a non-empty array \"actions\"");

  ActionList List;
  List.Text = Text.str();
  List.Builder = std::make_unique<PassBuilder>();
  StringSet<> Names;
  for (const json::Value &Item : *Items) {
    const json::Object *Group = Item.getAsObject();
    const std::optional<StringRef> Name = Group ? Group->getString("name") : std::nullopt;
    const std::optional<StringRef> Passes = Group ? Group->getString("passes") : std::nullopt;
    if (!Name || Name->empty() || !Passes || Passes->empty())
      return failure("action " + Twine(List.Groups.size()) +
                     ": expected non-empty strings \"name\" and \"passes\"");
    if (*Name == "stop" || !Names.insert(*Name).second)
      return failure("action " + Twine(List.Groups.size()) + ": the name '" + *Name +
                     (*Name == "stop" ? "' is reserved" : "' occurs twice"));
    ModulePassManager Parsed;
    if (Error E = List.Builder->parsePassPipeline(Parsed, *Passes))
      return failure("action '" + *Name + "': LLVM refuses '" + *Passes +
                     "': " + toString(std::move(E)));
    List.Groups.push_back({Name->str(), Passes->str()});
  }
  if (Error E = List.readRules(*Top))
    return E;
  return List;
}

Error ActionList::readRules(const json::Object &Top) {
  if (const json::Value *Rule = Top.get("repeat")) {
    const std::optional<StringRef> Text = Rule->getAsString();
    const auto Known = StringSwitch<std::optional<Repeat>>(Text.value_or(""))
                           .Case("later", Repeat::Later)
                           .Case("never", Repeat::Never)
                           .Case("always", Repeat::Always)
                           .Default(std::nullopt);
    if (!Known)
      return failure("\"repeat\": expected \"later\", \"never\" or \"always\"");
    Repeats = *Known;
  }
  if (const json::Value *Rule = Top.get("stop")) {
    const std::optional<bool> May = Rule->getAsBoolean();
    if (!May)
      return failure("\"stop\": expected true or false");
    Stops = *May;
  }
  if (!Stops && Repeats == Repeat::Later && Groups.size() == 1)
    return failure("a single action that may not be repeated needs \"stop\"");
  if (const json::Value *Rule = Top.get("max_steps")) {
    const std::optional<int64_t> Most = Rule->getAsInteger();
    if (!Most || *Most < 1 || *Most > 100000)
      return failure("\"max_steps\": expected 1 to 100000");
    Steps = uint32_t(*Most);
  }
  return Error::success();
}

Error runPipeline(PassBuilder &Builder, StringRef Passes, Module &M, ModuleAnalysisManager &MAM) {
  ModulePassManager Pipeline;
  if (Error E = Builder.parsePassPipeline(Pipeline, Passes))
    return E;
  MAM.invalidate(M, Pipeline.run(M, MAM));
  return Error::success();
}

Error ActionList::run(size_t Index, Module &M, ModuleAnalysisManager &MAM) const {
  // Parsed anew each time: some passes keep state of the module they last saw.
  return runPipeline(*Builder, Groups[Index].Passes, M, MAM);
}

} // namespace mlbridge::phase_ordering
