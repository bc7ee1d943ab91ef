// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "selection_log.h"

#include "remarks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static constexpr StringLiteral EndNames[] = {"not tried",       "measured", "refused",    "crashed",
                                             "too many passes", "too long", "bad option", "killed"};

static void write(const CandidateRun &Run, const std::string &Prefix, json::Object &To) {
  To[Prefix + "bytes"] = Run.Bytes;
  To[Prefix + "pass_seconds"] = Run.PassSeconds;
  To[Prefix + "measuring_seconds"] = Run.MeasuringSeconds;
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

static std::string asJson(StringRef Source, StringRef Model, const Selection &Result) {
  json::Array Runs;
  for (const auto &[Candidate, Run] : zip(Result.Candidates, Result.Runs)) {
    json::Object One{{"name", Candidate.Name}, {"end", EndNames[unsigned(Run.End)]}};
    if (Run.End == RunEnd::Measured)
      write(Run, "", One);
    Runs.push_back(std::move(One));
  }
  json::Object Top{{"format", "phase-ordering-trials"},
                   {"version", 1},
                   {"source", json::fixUTF8(Source)},
                   {"model", json::fixUTF8(Model)},
                   {"trials", std::move(Runs)}};
  write(Result.Stock, "stock_", Top);
  Top["winner"] =
      Result.Winner ? json::Value(Result.Candidates[*Result.Winner].Name) : json::Value(nullptr);
  if (!Result.Problem.empty())
    Top["problem"] = json::fixUTF8(Result.Problem);
  std::string Text;
  raw_string_ostream(Text) << json::Value(std::move(Top)) << '\n';
  return Text;
}

void logSelection(const Options &Given, Module &M, const Selection &Result) {
  if (Given.Log.empty())
    return;
  const std::string &Source = M.getSourceFileName();
  if (Error E = writeNew(Given.Log, Source, asJson(Source, Given.Model, Result)))
    Given.report(M.getContext(), DS_Warning, "log: " + toString(std::move(E)));
}

} // namespace mlbridge::phase_ordering
