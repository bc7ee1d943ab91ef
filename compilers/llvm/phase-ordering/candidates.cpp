// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a list of candidates; writes down how a module's trials ended.
#include "trials.h"

#include "environment.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static Error failure(const Twine &Message) {
  return createStringError(inconvertibleErrorCode(), "phase-ordering.candidates: " + Message);
}

/// Lists are written for LLVM 22.
static constexpr bool IsOlder = LLVM_VERSION_MAJOR < 22;

static Error readOptions(const json::Value &Given, std::vector<std::string> &To) {
  const json::Array *Items = Given.getAsArray();
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
  for (const json::Value &Item : *Items) {
    const json::Object *Way = Item.getAsObject();
    const std::optional<StringRef> Name = Way ? Way->getString("name") : std::nullopt;
    const std::optional<StringRef> Passes = Way ? Way->getString("passes") : std::nullopt;
    if (!Name || Name->empty() || !Passes)
      return failure("candidate " + Twine(List.size()) +
                     ": expected strings \"name\" and \"passes\"");
    for (const auto &[Key, Value] : *Way)
      if (!is_contained({"name", "passes", "after_stock", "options"}, StringRef(Key)))
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
    if (const json::Value *Given = Way->get("options"))
      if (Error E = readOptions(*Given, Options))
        return failure("candidate '" + *Name + "': " + toString(std::move(E)));
    const json::Value *After = Way->get("after_stock");
    if (After && !After->getAsBoolean())
      return failure("candidate '" + *Name + "': \"after_stock\": expected true or false");
    List.push_back({Name->str(),
                    {Passes->str()},
                    After && *After->getAsBoolean(),
                    std::move(Options),
                    Refused.empty()});
  }
  if (none_of(List, [](const Candidate &Way) { return Way.IsKnown; }))
    return failure(Reason);
  return List;
}

static constexpr StringLiteral EndNames[] = {"not tried",       "measured", "refused",   "crashed",
                                             "too many passes", "too long", "bad option"};

static void write(const Trial &Its, const std::string &Prefix, json::Object &To) {
  To[Prefix + "bytes"] = Its.Bytes;
  To[Prefix + "pass_seconds"] = Its.PassSeconds;
  To[Prefix + "measuring_seconds"] = Its.MeasuringSeconds;
}

/// The source's file name with everything but letters, digits, '.', '_' and '-' replaced.
static std::string fileNameFor(StringRef Source) {
  std::string Name = sys::path::filename(Source).take_back(100).str();
  for (char &C : Name)
    if (!isAlnum(C) && C != '.' && C != '_' && C != '-')
      C = '_';
  return (Name.empty() ? "module" : Name) + "-%%%%%%%%%%%%.trials.json";
}

static Error writeNew(StringRef Folder, StringRef Source, StringRef Text) {
  if (std::error_code EC = sys::fs::create_directories(Folder))
    return createStringError(Folder + ": cannot make the folder: " + EC.message());
  SmallString<256> Model(Folder), Path;
  sys::path::append(Model, fileNameFor(Source));
  sys::fs::createUniquePath(Model, Path, /*MakeAbsolute=*/false);
  const auto Print = [Text](raw_ostream &OS) {
    OS << Text;
    OS.flush();
    // The stream's destructor would abort.
    auto &File = static_cast<raw_fd_ostream &>(OS);
    const std::error_code Failed = File.error();
    File.clear_error();
    return errorCodeToError(Failed);
  };
  if (Error E = writeToOutput(Path, Print))
    return createStringError(Path + ": cannot write: " + toString(std::move(E)));
  return Error::success();
}

Error writeSelection(StringRef Folder, StringRef Source, StringRef Model, const Selection &Its) {
  json::Array Trials;
  for (const auto &[Way, Trial] : zip(Its.Candidates, Its.Trials)) {
    json::Object One{{"name", Way.Name}, {"end", EndNames[unsigned(Trial.End)]}};
    if (Trial.End == TrialEnd::Measured)
      write(Trial, "", One);
    Trials.push_back(std::move(One));
  }
  json::Object Top{{"format", "phase-ordering-trials"},
                   {"version", 1},
                   {"source", json::fixUTF8(Source)},
                   {"model", json::fixUTF8(Model)},
                   {"trials", std::move(Trials)}};
  write(Its.Stock, "stock_", Top);
  Top["winner"] = Its.Winner ? json::Value(Its.Candidates[*Its.Winner].Name) : json::Value(nullptr);
  if (!Its.Problem.empty())
    Top["problem"] = json::fixUTF8(Its.Problem);
  std::string Text;
  raw_string_ostream(Text) << json::Value(std::move(Top)) << '\n';
  return writeNew(Folder, Source, Text);
}

} // namespace mlbridge::phase_ordering
