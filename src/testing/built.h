// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about the build that tests are part of. Only built.cpp is compiled with its
// paths, so that a compiler cache has the tests' other objects for a clone in another folder.
#ifndef MLBRIDGE_TESTING_BUILT_H
#define MLBRIDGE_TESTING_BUILT_H

#include <string>
#include <vector>

namespace mlbridge::testing {

/// The path of a file or folder of the source tree.
std::string sourceFile(const std::string &name);
/// The folder of what src/core/CMakeLists.txt makes of engine.c, whole and broken engines.
std::string testComponents();
/// The path of a library that the build makes: bucketize, old_runtime, empty_runtime, engine_onnx.
std::string library(const std::string &name);
/// The schemes of transports that any number of compilers can share, and the serdes that were
/// built.
std::vector<std::string> transports();
std::vector<std::string> serdes();

/// For INSTANTIATE_TEST_SUITE_P: a test has the name of its transport or serdes.
inline const auto nameOf = [](const auto &info) { return info.param; };

} // namespace mlbridge::testing

#endif
