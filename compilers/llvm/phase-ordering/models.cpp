// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// function:sequence, function:stop, function:fail-at, and replay:, which finds the log of the
// module that asks and gives its answers; writes and reads these logs.
#include "environment.h"

#include <mlbridge/function.h>

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>

using namespace llvm;

namespace mlbridge::phase_ordering {

/// The index that means stop: the last one of the mask.
static Status answerStop(FunctionCall &Call) {
  const Span<const float> Mask = Call.in<float>("action_mask");
  const Span<int64_t> Action = Call.out<int64_t>("action");
  if (Mask.empty() || Action.empty())
    return Status(Code::Mismatch, "expected an input action_mask and an output action");
  Action[0] = int64_t(Mask.size()) - 1;
  return Status();
}

static Expected<FunctionModel> sequence(const Uri &From) {
  if (Status S = From.allowOnly({"actions", "list", "deadline", "agent", "episode", "context"}); !S)
    return S;
  const std::string Text = From.option("actions");
  SmallVector<StringRef> Parts;
  StringRef(Text).split(Parts, ',', -1, /*KeepEmpty=*/false);
  std::vector<int64_t> Answers;
  for (StringRef Part : Parts) {
    int64_t Answer = 0;
    if (!to_integer(Part, Answer, 10))
      return Status(Code::InvalidArgument,
                    "function:sequence: actions: '" + Part.str() + "' is not a number");
    Answers.push_back(Answer);
  }
  FunctionModel Model;
  if (const std::string List = From.option("list"); !List.empty()) {
    auto Buffer = MemoryBuffer::getFile(List);
    if (!Buffer)
      return Status(Code::NotFound,
                    "function:sequence: list: " + List + ": " + Buffer.getError().message());
    Model.metadata["phase-ordering.actions"] = (*Buffer)->getBuffer().str();
  }
  Model.newFunction = [Answers]() -> Function {
    return [Answers, Next = size_t(0)](FunctionCall &Call) mutable -> Status {
      if (Next == Answers.size())
        return answerStop(Call);
      const Span<int64_t> Action = Call.out<int64_t>("action");
      if (Action.empty())
        return Status(Code::Mismatch, "expected an output action");
      Action[0] = Answers[Next++];
      return Status();
    };
  };
  return Model;
}

static Expected<FunctionModel> stop(const Uri &From) {
  if (Status S = From.allowOnly({"deadline", "agent", "episode", "context"}); !S)
    return S;
  FunctionModel Model;
  Model.newFunction = []() -> Function { return answerStop; };
  return Model;
}

static Expected<FunctionModel> failAt(const Uri &From) {
  if (Status S = From.allowOnly({"step", "deadline", "agent", "episode", "context"}); !S)
    return S;
  const Expected<uint64_t> Step = From.number("step", 0);
  if (!Step)
    return Step.status();
  FunctionModel Model;
  Model.newFunction = [Last = *Step]() -> Function {
    return [Last, Now = uint64_t(0)](FunctionCall &Call) mutable -> Status {
      if (Now == Last)
        return Status(Code::PolicyFailed, "fails at step " + std::to_string(Now) + ", as asked");
      ++Now;
      const Span<const float> Mask = Call.in<float>("action_mask");
      const Span<const float> Taken = Call.in<float>("history");
      const Span<int64_t> Action = Call.out<int64_t>("action");
      if (Mask.empty() || Taken.size() != Mask.size() || Action.empty())
        return Status(Code::Mismatch, "expected action_mask, history and an output action");
      size_t Best = Mask.size() - 1;
      for (size_t I = Mask.size() - 1; I-- > 0;)
        if (Mask[I] > 0 && (Best == Mask.size() - 1 || Taken[I] <= Taken[Best]))
          Best = I;
      Action[0] = int64_t(Best);
      return Status();
    };
  };
  return Model;
}

static constexpr StringLiteral FormatName = "phase-ordering-log";
static constexpr StringLiteral LogExtension = ".jsonl";
static constexpr StringLiteral OutcomeNames[] = {"stop", "limit", "failed"};

static Error failure(StringRef Path, const Twine &Message) {
  return createStringError(inconvertibleErrorCode(), Path + ": " + Message);
}

static std::string logPrefix(StringRef Source) {
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
  OS << json::Value(json::Object{{"format", FormatName},
                                 {"version", 1},
                                 {"module", text(Log.Module)},
                                 {"source", text(Log.Source)},
                                 {"model", text(Log.Model)},
                                 {"observation", Log.Observation},
                                 {"actions_digest", Log.ActionsDigest},
                                 {"actions", Actions ? *Actions : json::Value(nullptr)}})
     << '\n';
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

Error EpisodeLog::write(StringRef Folder) const {
  if (std::error_code EC = sys::fs::create_directories(Folder))
    return failure(Folder, "cannot make the folder: " + EC.message());
  SmallString<256> Model(Folder), Path;
  sys::path::append(Model, logPrefix(Source) + "%%%%%%%%%%%%" + LogExtension);
  sys::fs::createUniquePath(Model, Path, /*MakeAbsolute=*/false);
  const auto Print = [this](raw_ostream &OS) {
    print(*this, OS);
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

namespace {

/// Errors of replay:FILE and replay:FOLDER.
Status failure(Code C, const std::string &Message) { return Status(C, "replay: " + Message); }

/// Complete logs only, in the order of their names.
std::vector<std::string> logsIn(const std::string &Folder) {
  std::vector<std::string> Paths;
  std::error_code EC;
  for (sys::fs::directory_iterator It(Folder, EC), End; It != End && !EC; It.increment(EC))
    if (StringRef(It->path()).ends_with(LogExtension))
      Paths.push_back(It->path());
  std::sort(Paths.begin(), Paths.end());
  return Paths;
}

/// What one Runner replays.
class Player {
public:
  Player(std::string Place, std::shared_ptr<const EpisodeLog> File, std::string Digest)
      : Place(std::move(Place)), File(std::move(File)), ListDigest(std::move(Digest)) {}

  Status operator()(FunctionCall &Call) {
    const Span<int64_t> Action = Call.out<int64_t>("action");
    const Span<const float> Features = Call.in<float>("features");
    const std::string Digest = featuresDigest({Features.data(), Features.size()});
    if (Action.empty())
      return failure(Code::Mismatch, "expected an output action");
    if (!Log)
      if (Status S = choose(Call.context().context, Digest); !S)
        return S;
    const size_t Size = Log->Decisions.size();
    if (Step == Size && Log->End == Outcome::Failed)
      return failure(Code::PolicyFailed, "the recorded episode failed here: " + Log->Message);
    if (Step == Size) // the recorded compiler had a lower limit on steps
      return answerStop(Call);
    const Decision &Recorded = Log->Decisions[Step];
    if (Recorded.Features != Digest)
      return failure(Code::Mismatch, "step " + std::to_string(Step) + " of the log of '" +
                                         Log->Source + "' was made for features " +
                                         Recorded.Features + ", got " + Digest +
                                         ": another module, compiler or flags");
    Action[0] = int64_t(Recorded.Action);
    ++Step;
    return Status();
  }

private:
  Status choose(const std::string &Source, const std::string &Digest) {
    if (File) {
      Log = File;
      return Status();
    }
    bool Any = false;
    for (const std::string &Path : logsIn(Place)) {
      if (!sys::path::filename(Path).starts_with(logPrefix(Source)))
        continue;
      llvm::Expected<EpisodeLog> Candidate = EpisodeLog::read(Path);
      if (!Candidate)
        return failure(Code::InvalidModel, toString(Candidate.takeError()));
      if (Candidate->Source != Source)
        continue;
      Any = true;
      if (Candidate->Decisions.empty() || Candidate->Decisions[0].Features != Digest)
        continue;
      if (Candidate->ActionsDigest != ListDigest)
        return failure(Code::Mismatch,
                       Path + ": its list of actions differs from that of the folder's first log");
      Log = std::make_shared<EpisodeLog>(std::move(*Candidate));
      return Status();
    }
    return failure(Any ? Code::Mismatch : Code::NotFound,
                   Any ? "the logs of '" + Source + "' in " + Place +
                             " were made for other features (another compiler, or other flags)"
                       : "no log of '" + Source + "' in " + Place);
  }

  std::string Place;
  std::shared_ptr<const EpisodeLog> File;
  std::string ListDigest;
  std::shared_ptr<const EpisodeLog> Log;
  size_t Step = 0;
};

} // namespace

/// The model of "replay:FILE" or "replay:FOLDER". Errors: NotFound, InvalidModel (damaged log).
/// Evaluating gives Mismatch if what the module looks like is not what the log says.
static mlbridge::Expected<FunctionModel> replay(const Uri &From) {
  if (Status S = From.allowOnly({"deadline", "agent", "episode", "context"}); !S)
    return S;
  sys::fs::file_status Kind;
  if (std::error_code EC = sys::fs::status(From.place, Kind))
    return failure(Code::NotFound, From.place + ": " + EC.message());
  const bool IsFolder = sys::fs::is_directory(Kind);
  std::string First = From.place;
  if (IsFolder) {
    const std::vector<std::string> Paths = logsIn(From.place);
    if (Paths.empty())
      return failure(Code::NotFound, "no log in " + From.place);
    First = Paths.front();
  }
  // The list of actions has to be known before a module asks; a folder's logs share one.
  llvm::Expected<EpisodeLog> Read = EpisodeLog::read(First);
  if (!Read)
    return failure(Code::InvalidModel, toString(Read.takeError()));
  FunctionModel Model;
  Model.metadata["phase-ordering.actions"] = Read->Actions;
  Model.metadata["phase-ordering.observation"] = Read->Observation;
  const std::string Digest = Read->ActionsDigest;
  auto File = IsFolder ? nullptr : std::make_shared<const EpisodeLog>(std::move(*Read));
  Model.newFunction = [Place = From.place, File, Digest]() -> Function {
    return Player(Place, File, Digest);
  };
  return Model;
}

void registerModels() {
  static std::once_flag Once;
  std::call_once(Once, [] {
    // Names that are taken belong to whoever took them.
    (void)registerFunction("sequence", sequence);
    (void)registerFunction("stop", stop);
    (void)registerFunction("fail-at", failAt);
    (void)registerScheme("replay", replay);
  });
}

} // namespace mlbridge::phase_ordering
