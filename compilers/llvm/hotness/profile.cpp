// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "profile.h"

#include "llvm/ProfileData/InstrProf.h"
#include "llvm/ProfileData/InstrProfReader.h"
#include "llvm/Support/VirtualFileSystem.h"

#include <map>
#include <mutex>

using namespace llvm;

namespace mlbridge::hotness {

/// The name without what ThinLTO appends to that of a static function.
static StringRef withoutPromotion(StringRef Name) { return Name.split(".llvm.").first; }

mlbridge::Expected<std::shared_ptr<const Profile>> Profile::open(const std::string &File) {
  static std::mutex Lock;
  // Never destroyed: other threads may still be compiling when the process exits.
  static auto &Known =
      *new std::map<std::string, mlbridge::Expected<std::shared_ptr<const Profile>>>;
  const std::lock_guard<std::mutex> Guard(Lock);
  if (const auto Found = Known.find(File); Found != Known.end())
    return Found->second;
  const auto Read = [&]() -> mlbridge::Expected<std::shared_ptr<const Profile>> {
    const auto Wrong = [&](const std::string &Why) {
      return Status(Code::InvalidArgument, File + ": expected a profile of llvm-profdata, " + Why);
    };
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
      return Wrong(toString((*Reader)->getError()));
    if (Made->Total == 0)
      return Wrong("got one in which nothing ran");
    return std::shared_ptr<const Profile>(std::move(Made));
  };
  return Known.emplace(File, Read()).first->second;
}

std::optional<double> Profile::shareOf(const llvm::Function &F) const {
  // Clang's own counters and those of IR name a static function differently.
  for (const std::string &Name : {getIRPGOFuncName(F), getPGOFuncName(F)})
    if (const auto Found = Counts.find(withoutPromotion(Name)); Found != Counts.end())
      return Found->second / Total;
  return std::nullopt;
}

} // namespace mlbridge::hotness
