// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "candidates.h"

#include "candidate_options.h"
#include "nooutline_hot.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static Error failure(const Twine &Message) {
  return createStringError(inconvertibleErrorCode(), "phase-ordering.candidates: " + Message);
}

/// Lists are written for LLVM 22.
static constexpr bool IsOlder = LLVM_VERSION_MAJOR < 22;

static Error readOptions(const json::Value &Listed, std::vector<std::string> &To) {
  const json::Array *Items = Listed.getAsArray();
  if (!Items)
    return createStringError("\"options\": expected an array of strings");
  for (const json::Value &Item : *Items) {
    const std::optional<StringRef> Setting = Item.getAsString();
    if (Setting && IsOlder && !findOption(*Setting))
      continue;
    if (!Setting || !findOption(*Setting))
      return createStringError("\"options\": expected options of LLVM, got " +
                               formatv("{0}", Item).str());
    To.push_back(Setting->str());
  }
  return Error::success();
}

llvm::Expected<std::vector<Candidate>> parseCandidates(StringRef Text) {
  llvm::Expected<json::Value> Root = json::parse(Text);
  if (!Root)
    return failure("not JSON: " + toString(Root.takeError()));
  const json::Object *Top = Root->getAsObject();
  const json::Array *Items = Top ? Top->getArray("candidates") : nullptr;
  if (!Items || Items->empty())
    return failure("expected an object with \"version\" and a non-empty array \"candidates\"");
  if (const std::optional<int64_t> Version = Top->getInteger("version"); Version != 1)
    return failure("expected \"version\": 1, got " + (Version ? std::to_string(*Version) : "none"));
  std::vector<Candidate> List;
  StringSet<> Names;
  std::string Reason;
  PassBuilder Builder;
  NoOutlineHot::registerIn(Builder);
  for (const json::Value &Item : *Items) {
    const json::Object *Entry = Item.getAsObject();
    const std::optional<StringRef> Name = Entry ? Entry->getString("name") : std::nullopt;
    const std::optional<StringRef> Passes = Entry ? Entry->getString("passes") : std::nullopt;
    if (!Name || Name->empty() || !Passes)
      return failure("candidate " + Twine(List.size()) +
                     ": expected strings \"name\" and \"passes\"");
    for (const auto &[Key, Value] : *Entry)
      if (!is_contained({"name", "passes", "after_stock", "options", "target"}, StringRef(Key)))
        return failure("candidate '" + *Name + "': unknown key \"" + StringRef(Key) + "\"");
    if (!Names.insert(*Name).second)
      return failure("candidate " + Twine(List.size()) + ": the name '" + *Name + "' occurs twice");
    ModulePassManager Parsed;
    std::string Refused;
    if (Error E = Builder.parsePassPipeline(Parsed, *Passes)) {
      Refused = ("candidate '" + *Name + "': LLVM refuses '" + *Passes + "': ").str() +
                toString(std::move(E));
      if (!IsOlder)
        return failure(Refused);
      if (Reason.empty())
        Reason = Refused;
    }
    std::vector<std::string> Options;
    if (const json::Value *Listed = Entry->get("options"))
      if (Error E = readOptions(*Listed, Options))
        return failure("candidate '" + *Name + "': " + toString(std::move(E)));
    const json::Value *After = Entry->get("after_stock");
    if (After && !After->getAsBoolean())
      return failure("candidate '" + *Name + "': \"after_stock\": expected true or false");
    Triple::ArchType Target = Triple::UnknownArch;
    if (const json::Value *Given = Entry->get("target")) {
      const std::optional<StringRef> Architecture = Given->getAsString();
      if (Architecture)
        Target = Triple(*Architecture).getArch();
      if (Target == Triple::UnknownArch)
        return failure("candidate '" + *Name +
                       "': \"target\": expected the architecture of a triple, " +
                       "such as \"aarch64\", got " + formatv("{0}", *Given).str());
    }
    List.push_back({Name->str(),
                    {Passes->str()},
                    After && *After->getAsBoolean(),
                    std::move(Options),
                    Target,
                    Refused.empty()});
  }
  if (none_of(List, [](const Candidate &One) { return One.IsKnown; }))
    return failure(Reason);
  return List;
}

} // namespace mlbridge::phase_ordering
