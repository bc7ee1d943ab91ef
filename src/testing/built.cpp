// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "testing/built.h"

#include <gtest/gtest.h>

#include <sstream>

namespace mlbridge::testing {
namespace {

std::vector<std::string> split(const char *list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');)
    words.push_back(word);
  return words;
}

} // namespace

std::string sourceFile(const std::string &name) { return MLBRIDGE_SOURCE_DIR + ("/" + name); }

std::string testComponents() { return MLBRIDGE_TEST_COMPONENTS; }

std::string library(const std::string &name) {
  for (const std::string &one : split(MLBRIDGE_TEST_LIBRARIES))
    if (one.compare(0, name.size() + 1, name + "=") == 0)
      return one.substr(name.size() + 1);
  ADD_FAILURE() << name << " was not built";
  return "";
}

std::vector<std::string> transports() { return split(MLBRIDGE_TESTED_TRANSPORTS); }

std::vector<std::string> serdes() { return split(MLBRIDGE_TESTED_SERDES); }

} // namespace mlbridge::testing
