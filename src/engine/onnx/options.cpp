// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of an onnx: URI.
#include "model.h"

#include "core/nearest.h"

#include <charconv>

namespace mlbridge::onnx {
namespace {

constexpr int MostThreads = 1024;
constexpr std::string_view ConfigPrefix = "config.";
constexpr std::string_view Known[] = {"arena",   "config.KEY", "custom_ops", "optimize", "pattern",
                                      "prepack", "reload",     "runtime",    "spin",     "threads"};

Status wrong(std::string_view key, std::string_view value, std::string_view expected) {
  return makeError(Code::InvalidArgument, "option ", key, ": expected ", expected, ", not '", value,
                   "'");
}

template <typename Switch>
Status readSwitch(std::string_view key, std::string_view value, Switch &to) {
  if (value != "0" && value != "1")
    return wrong(key, value, "0 or 1");
  to = value == "1";
  return Status();
}

Status readThreads(std::string_view key, std::string_view value, int &to) {
  const auto [stop, error] = std::from_chars(value.begin(), value.end(), to);
  if (error != std::errc() || stop != value.end() || to < 1 || to > MostThreads)
    return wrong(key, value, "1 to " + std::to_string(MostThreads));
  return Status();
}

Status readLevel(std::string_view key, std::string_view value, GraphOptimizationLevel &to) {
  if (value == "all")
    to = ORT_ENABLE_ALL;
  else if (value == "extended")
    to = ORT_ENABLE_EXTENDED;
  else if (value == "basic")
    to = ORT_ENABLE_BASIC;
  else if (value == "none")
    to = ORT_DISABLE_ALL;
  else
    return wrong(key, value, "all, extended, basic or none");
  return Status();
}

/// Files separated by ':', as in LD_LIBRARY_PATH.
Status readLibraries(std::string_view key, std::string_view value, std::vector<std::string> &to) {
  while (true) {
    const size_t end = value.find(':');
    const std::string_view file = value.substr(0, end);
    if (file.empty())
      return wrong(key, value, "files of custom operators, with ':' between them");
    to.emplace_back(file);
    if (end == value.npos)
      return Status();
    value.remove_prefix(end + 1);
  }
}

/// Read by the library itself, which hands all options of the URI on.
bool isForTheLibrary(std::string_view key) {
  return key == "deadline" || key == "agent" || key == "episode" || key == "context";
}

Status readOne(std::string_view key, std::string_view value, Options &to) {
  if (key == "runtime") {
    if (value.empty())
      return wrong(key, value, "the path of ONNX Runtime's library or its folder");
    to.runtime = value;
    return Status();
  }
  if (key == "threads")
    return readThreads(key, value, to.threads);
  if (key == "prepack")
    return readSwitch(key, value, to.prepack);
  if (key == "spin")
    return readSwitch(key, value, to.spin);
  if (key == "arena")
    return readSwitch(key, value, to.arena);
  if (key == "pattern")
    return readSwitch(key, value, to.pattern);
  if (key == "optimize")
    return readLevel(key, value, to.optimize);
  if (key == "custom_ops")
    return readLibraries(key, value, to.customOps);
  if (key.substr(0, ConfigPrefix.size()) == ConfigPrefix && key.size() > ConfigPrefix.size()) {
    to.config.emplace_back(key.substr(ConfigPrefix.size()), value);
    return Status();
  }
  if (isForTheLibrary(key))
    return Status();
  return unknownOption("onnx", key, Known);
}

} // namespace

Expected<Options> Options::parse(const mlb_option *options, uint64_t size) {
  Options parsed;
  for (uint64_t i = 0; i < size; ++i) {
    const std::string_view key(options[i].key.data, options[i].key.size);
    const std::string_view value(options[i].value.data, options[i].value.size);
    if (Status s = readOne(key, value, parsed); !s)
      return s;
  }
  return parsed;
}

} // namespace mlbridge::onnx
