// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes and reads the log of one module's decisions.
#include "environment.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static constexpr StringLiteral FormatName = "phase-ordering-log";
static constexpr StringLiteral OutcomeNames[] = {"stop", "limit", "failed"};

static Error failure(StringRef Path, const Twine &Message) {
  return createStringError(inconvertibleErrorCode(), Path + ": " + Message);
}

std::string logPrefix(StringRef Source) {
  std::string Name = sys::path::filename(Source).take_back(100).str();
  for (char &C : Name)
    if (!isAlnum(C) && C != '.' && C != '_' && C != '-')
      C = '_';
  return (Name.empty() ? "module" : Name) + "-";
}

static json::Value text(StringRef S) { return json::fixUTF8(S); }

static void print(const EpisodeLog &Log, raw_ostream &OS) {
  llvm::Expected<json::Value> Actions = json::parse(Log.Actions);
  if (!Actions)
    consumeError(Actions.takeError());
  json::Object Head{{"format", FormatName},
                    {"version", 1},
                    {"module", text(Log.Module)},
                    {"source", text(Log.Source)},
                    {"model", text(Log.Model)},
                    {"observation", Log.Observation},
                    {"actions_digest", Log.ActionsDigest},
                    {"actions", Actions ? *Actions : json::Value(nullptr)}};
  if (!Log.Vocabulary.empty())
    Head["vocabulary"] = Log.Vocabulary;
  OS << json::Value(std::move(Head)) << '\n';
  for (const auto &[Step, D] : enumerate(Log.Decisions))
    OS << json::Value(json::Object{{"step", int64_t(Step)},
                                   {"action", D.Action},
                                   {"name", text(D.Name)},
                                   {"features", D.Features},
                                   {"instructions", D.Instructions}})
       << '\n';
  json::Object End{{"outcome", OutcomeNames[unsigned(Log.End)]},
                   {"decisions", int64_t(Log.Decisions.size())}};
  if (Log.End == Outcome::Failed)
    End["message"] = text(Log.Message);
  OS << json::Value(std::move(End)) << '\n';
}

Error writeNew(StringRef Folder, StringRef Source, StringRef Extension, StringRef Text) {
  if (std::error_code EC = sys::fs::create_directories(Folder))
    return failure(Folder, "cannot make the folder: " + EC.message());
  SmallString<256> Model(Folder), Path;
  sys::path::append(Model, logPrefix(Source) + "%%%%%%%%%%%%" + Extension);
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
    return failure(Path, "cannot write: " + toString(std::move(E)));
  return Error::success();
}

Error EpisodeLog::write(StringRef Folder) const {
  std::string Text;
  raw_string_ostream OS(Text);
  print(*this, OS);
  return writeNew(Folder, Source, LogExtension, Text);
}

static bool readHeader(const json::Value &Line, EpisodeLog &Log) {
  json::Path::Root Root;
  json::ObjectMapper Map(Line, Root);
  const json::Object &Object = *Line.getAsObject();
  const json::Object *Actions = Object.getObject("actions");
  if (!Actions || Object.getString("format") != FormatName || Object.getInteger("version") != 1)
    return false;
  raw_string_ostream(Log.Actions) << json::Value(json::Object(*Actions));
  return Map.map("module", Log.Module) && Map.map("source", Log.Source) &&
         Map.mapOptional("model", Log.Model) && Map.map("observation", Log.Observation) &&
         Map.mapOptional("vocabulary", Log.Vocabulary) &&
         Map.map("actions_digest", Log.ActionsDigest);
}

static bool readDecision(const json::Value &Line, EpisodeLog &Log) {
  json::Path::Root Root;
  json::ObjectMapper Map(Line, Root);
  uint64_t Step = 0;
  Decision &D = Log.Decisions.emplace_back();
  return Map.map("step", Step) && Step == Log.Decisions.size() - 1 && Map.map("action", D.Action) &&
         Map.map("features", D.Features) && Map.mapOptional("name", D.Name) &&
         Map.mapOptional("instructions", D.Instructions);
}

static bool readEnd(const json::Object &Line, EpisodeLog &Log) {
  const std::optional<StringRef> Name = Line.getString("outcome");
  const auto *Found = Name ? llvm::find(OutcomeNames, *Name) : std::end(OutcomeNames);
  if (Found == std::end(OutcomeNames) ||
      Line.getInteger("decisions") != int64_t(Log.Decisions.size()))
    return false;
  Log.End = Outcome(Found - std::begin(OutcomeNames));
  Log.Message = Line.getString("message").value_or("").str();
  return true;
}

llvm::Expected<EpisodeLog> EpisodeLog::read(StringRef Path) {
  auto Buffer = MemoryBuffer::getFile(Path);
  if (!Buffer)
    return failure(Path, Buffer.getError().message());
  EpisodeLog Log;
  bool Complete = false;
  int64_t Number = 0;
  for (line_iterator Line(**Buffer); !Line.is_at_eof(); ++Line) {
    Number = Line.line_number();
    llvm::Expected<json::Value> Value = json::parse(*Line);
    if (!Value)
      return failure(Path, "line " + Twine(Number) + ": " + toString(Value.takeError()));
    const json::Object *Object = Value->getAsObject();
    const bool Good = Object && !Complete &&
                      (Number == 1              ? readHeader(*Value, Log)
                       : Object->get("outcome") ? (Complete = readEnd(*Object, Log))
                                                : readDecision(*Value, Log));
    if (!Good)
      return failure(Path, "line " + Twine(Number) +
                               ": not a valid line of a phase-ordering log of version 1");
  }
  if (!Complete)
    return failure(Path,
                   "line " + Twine(Number + 1) + ": expected the outcome, got the end of the file");
  return Log;
}

} // namespace mlbridge::phase_ordering
