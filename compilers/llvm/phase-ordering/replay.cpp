// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the log of the module that asks, and gives its answers.
#include "episode_log.h"
#include "ir_features.h"
#include "models.h"

#include <mlbridge/function.h>

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <memory>
#include <optional>

using namespace llvm;

namespace mlbridge::phase_ordering {

namespace {

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

std::string digestOf(Span<const float> Values) {
  return featuresDigest(ArrayRef(Values.data(), Values.size()));
}

/// What one Runner replays.
class Player {
public:
  Player(std::string Place, std::shared_ptr<const EpisodeLog> File, std::string Digest)
      : Place(std::move(Place)), File(std::move(File)), ListDigest(std::move(Digest)) {}

  Status operator()(FunctionCall &Call) {
    const Span<const float> Mask = Call.in<float>("action_mask");
    const Span<int64_t> Action = Call.out<int64_t>("action");
    const std::string Digest = digestOf(Call.in<float>("features"));
    if (Mask.empty() || Action.empty())
      return failure(Code::Mismatch, "expected an input action_mask and an output action");
    if (!Log)
      if (Status S = choose(Call.context().context, Digest); !S)
        return S;
    const size_t Size = Log->Decisions.size();
    if (Step == Size && Log->End == Outcome::Failed)
      return failure(Code::PolicyFailed, "the recorded episode failed here: " + Log->Message);
    if (Step == Size) { // the recorded compiler had a lower limit on steps
      Action[0] = int64_t(Mask.size()) - 1;
      return Status();
    }
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
        return failure(Code::InvalidModel, llvm::toString(Candidate.takeError()));
      if (Candidate->Source != Source)
        continue;
      Any = true;
      if (Candidate->Decisions.empty() || Candidate->Decisions[0].Features != Digest)
        continue;
      if (Candidate->ActionsDigest != ListDigest)
        return failure(Code::Mismatch,
                       Path + ": its list of actions is not that of the folder's first log");
      Log = std::make_shared<EpisodeLog>(std::move(*Candidate));
      return Status();
    }
    return failure(Any ? Code::Mismatch : Code::NotFound,
                   Any ? "the logs of '" + Source + "' in " + Place +
                             " were made for other features"
                       : "no log of '" + Source + "' in " + Place);
  }

  std::string Place;
  std::shared_ptr<const EpisodeLog> File;
  std::string ListDigest;
  std::shared_ptr<const EpisodeLog> Log;
  size_t Step = 0;
};

} // namespace

mlbridge::Expected<FunctionModel> replay(const Uri &From) {
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
    return failure(Code::InvalidModel, llvm::toString(Read.takeError()));
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

} // namespace mlbridge::phase_ordering
