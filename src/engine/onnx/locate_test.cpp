// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "locate.h"
#include "test_models.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mlbridge::onnx {
namespace {

TEST(Locate, TakesAFileAsItIs) {
  const ScratchFolder folder;
  writeFile(folder.path() + "/any-name.so", "x");
  EXPECT_EQ(libraryAt(folder.path() + "/any-name.so"), folder.path() + "/any-name.so");
  EXPECT_EQ(libraryAt(folder.path() + "/other.so"), "");
  EXPECT_EQ(libraryAt(folder.path()), "");
}

TEST(Locate, TakesTheNewestLibraryOfAFolder) {
  const ScratchFolder folder;
  for (const char *name : {"libonnxruntime.so.1.9.0", "libonnxruntime.so.1.22.1",
                           "libonnxruntime.so.1.22.0", "libonnxruntime_providers_shared.so"})
    writeFile(folder.path() + "/" + name, "x");
  EXPECT_EQ(libraryAt(folder.path()), folder.path() + "/libonnxruntime.so.1.22.1");
}

TEST(Locate, KnowsAReleaseAWheelAndAVirtualEnvironment) {
  for (const char *place :
       {"lib", "capi", "onnxruntime/capi", "lib/python3.11/site-packages/onnxruntime/capi",
        "lib/python3/dist-packages/onnxruntime/capi"}) {
    const ScratchFolder folder;
    const std::string library = folder.path() + "/" + place + "/libonnxruntime.so.1.22.0";
    writeFile(library, "x");
    EXPECT_EQ(libraryAt(folder.path()), library);
  }
}

/// All candidates of a search that takes none.
std::vector<std::string> candidates(std::vector<std::string> &looked) {
  std::vector<std::string> seen;
  EXPECT_FALSE(searchLibraries(
      [&](const std::string &path) {
        seen.push_back(path);
        return false;
      },
      looked));
  return seen;
}

TEST(Locate, PrefersWhatTheUserSetUpToWhatTheSystemHas) {
  const ScratchFolder root, environment, home;
  writeFile(root.path() + "/lib/libonnxruntime.so", "x");
  writeFile(environment.path() +
                "/lib/python3.9/site-packages/onnxruntime/capi/libonnxruntime.so.1",
            "x");
  writeFile(home.path() +
                "/.local/lib/python3.9/site-packages/onnxruntime/capi/libonnxruntime.so.1",
            "x");
  const Variable a("ONNXRUNTIME_ROOT", root.path().c_str());
  const Variable b("VIRTUAL_ENV", environment.path().c_str());
  const Variable c("HOME", home.path().c_str());
  std::vector<std::string> looked;
  const std::vector<std::string> seen = candidates(looked);
  const auto at = [&](const std::string &prefix) {
    return std::find_if(seen.begin(), seen.end(), [&](const std::string &path) {
      return path.compare(0, prefix.size(), prefix) == 0;
    });
  };
  ASSERT_NE(at(home.path()), seen.end());
  EXPECT_LT(at(root.path()), at(environment.path()));
  EXPECT_LT(at(environment.path()), at(home.path()));
  EXPECT_LT(at(home.path()), at("libonnxruntime.so.1"));
  EXPECT_NE(std::find(seen.begin(), seen.end(), "libonnxruntime.so"), seen.end());
}

TEST(Locate, SaysWhereItLooked) {
  const ScratchFolder empty;
  const Variable a("ONNXRUNTIME_ROOT", empty.path().c_str());
  const Variable b("VIRTUAL_ENV", nullptr);
  std::vector<std::string> looked;
  candidates(looked);
  ASSERT_FALSE(looked.empty());
  EXPECT_EQ(looked.front(), empty.path() + " (ONNXRUNTIME_ROOT)");
  EXPECT_EQ(std::count(looked.begin(), looked.end(), "VIRTUAL_ENV (not set)"), 1);
  const Variable c("VIRTUAL_ENV", empty.path().c_str());
  looked.clear();
  candidates(looked);
  EXPECT_EQ(std::count(looked.begin(), looked.end(), empty.path() + " (VIRTUAL_ENV)"), 1);
}

} // namespace
} // namespace mlbridge::onnx
