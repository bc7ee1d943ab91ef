// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "profile.h"

#include "models.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ProfileData/InstrProfReader.h"
#include "llvm/Support/VirtualFileSystem.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

using namespace llvm;

namespace mlbridge::hotness {

namespace {

/// Functions with a smaller share of all counts are compiled for the smallest size, or for size.
struct Limits {
  double SmallestSize, Size;
};
constexpr std::array<Limits, Goals.size()> LimitsOf = {
    {{0.001, 0.001}, {0.001, 0.01}, {0.01, 0.1}}};

class Profile {
public:
  static mlbridge::Expected<std::shared_ptr<const Profile>> read(const std::string &File) {
    const auto Wrong = [&](const std::string &Got) {
      return Status(Code::InvalidArgument,
                    File + ": expected a profile of llvm-profdata, got " + Got);
    };
    if (!vfs::getRealFileSystem()->exists(File))
      return Status(Code::NotFound, File + ": there is no such file");
    auto Reader = IndexedInstrProfReader::create(File, *vfs::getRealFileSystem());
    if (!Reader)
      return Wrong(toString(Reader.takeError()));
    auto Made = std::make_shared<Profile>();
    for (const NamedInstrProfRecord &Record : **Reader) {
      double Sum = 0;
      for (const uint64_t Count : Record.Counts)
        Sum += double(Count);
      Made->Counts[Record.Name] += Sum;
      Made->Total += Sum;
    }
    if ((*Reader)->hasError())
      return Wrong("'" + toString((*Reader)->getError()) + "'");
    if (Made->Total == 0)
      return Wrong("one in which nothing ran");
    return std::shared_ptr<const Profile>(std::move(Made));
  }

  /// The part of all counts that are this function's; nothing if the profile doesn't know it.
  std::optional<double> shareOf(StringRef Name) const {
    // Clang's own counters have another sign between the file and a static function of it.
    std::string Other = Name.str();
    if (const size_t Sign = Other.rfind(';'); Sign != std::string::npos)
      Other[Sign] = ':';
    for (const StringRef Each : {Name, StringRef(Other)})
      if (const auto Found = Counts.find(Each); Found != Counts.end())
        return Found->second / Total;
    return std::nullopt;
  }

private:
  StringMap<double> Counts;
  double Total = 0;
};

/// Once for the whole process.
mlbridge::Expected<std::shared_ptr<const Profile>> readOnce(const std::string &File) {
  static std::mutex Lock;
  // Never destroyed: other threads may still be compiling when the process exits.
  static auto &Known =
      *new std::map<std::string, mlbridge::Expected<std::shared_ptr<const Profile>>>;
  const std::lock_guard<std::mutex> Guard(Lock);
  const auto Found = Known.find(File);
  return Found != Known.end() ? Found->second
                              : Known.emplace(File, Profile::read(File)).first->second;
}

Status decide(const Profile &Counts, const std::string &File, FunctionCall &Call) {
  const Span<const std::string> Names = Call.in<std::string>("names");
  const auto Count = int64_t(Names.size());
  const auto To = Call.resizeOutput(0, {&Count, 1});
  if (!To)
    return To.status();
  const Limits &Below = LimitsOf[size_t(Call.in<int64_t>("goal")[0])];
  size_t Known = 0;
  for (size_t Row = 0; Row < Names.size(); ++Row) {
    const std::optional<double> Share = Counts.shareOf(Names[Row]);
    Known += Share.has_value();
    To->as<int64_t>()[Row] = int64_t(!Share || *Share >= Below.Size ? For::Speed
                                     : *Share < Below.SmallestSize  ? For::SmallestSize
                                                                    : For::Size);
  }
  if (Known * 4 >= Names.size())
    return Status();
  return {Code::Mismatch, File + " knows " + std::to_string(Known) + " of " +
                              std::to_string(Count) +
                              " functions; expected a profile of this program"};
}

} // namespace

mlbridge::Expected<FunctionModel> openProfile(const Uri &From) {
  if (Status Allowed = From.allowOnly({}); !Allowed)
    return Allowed;
  const auto Counts = readOnce(From.place);
  if (!Counts)
    return Counts.status();
  FunctionModel Made;
  Made.signature = signature();
  Made.newFunction = [Counts = *Counts, File = From.place] {
    return [=](FunctionCall &Call) { return decide(*Counts, File, Call); };
  };
  return Made;
}

} // namespace mlbridge::hotness
