// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the onnx engine's tests: golden files, and folders that go away.
#ifndef MLBRIDGE_ENGINE_ONNX_TEST_MODELS_H
#define MLBRIDGE_ENGINE_ONNX_TEST_MODELS_H

#include "testing/built.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace mlbridge::onnx {

inline std::string goldenFile(const std::string &name) {
  return testing::sourceFile("tests/golden/onnx/" + name);
}
/// The URI of tests/golden/onnx/NAME.onnx.
inline std::string golden(const std::string &name) { return "onnx:" + goldenFile(name + ".onnx"); }

inline std::string readFileText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void writeFile(const std::string &path, const std::string &bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

/// An empty folder for as long as this object lives.
class ScratchFolder {
public:
  ScratchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "mlbridge-onnx-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

/// The working folder of the process is another one for as long as this object lives.
class WorkingFolder {
public:
  explicit WorkingFolder(const std::string &path) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  WorkingFolder(const WorkingFolder &) = delete;
  WorkingFolder &operator=(const WorkingFolder &) = delete;
  ~WorkingFolder() { std::filesystem::current_path(before_); }

private:
  std::filesystem::path before_;
};

/// An environment variable has another value, or none, for as long as this object lives.
class Variable {
public:
  Variable(const char *name, const char *value) : name_(name) {
    if (const char *before = ::secure_getenv(name)) {
      before_ = before;
      had_ = true;
    }
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;
  ~Variable() { had_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }

private:
  const char *name_;
  std::string before_;
  bool had_ = false;
};

} // namespace mlbridge::onnx

#endif
