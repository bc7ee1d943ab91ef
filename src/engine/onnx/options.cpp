// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of an onnx: URI.
#include "model.h"

#include "core/message.h"
#include "core/uri_options.h"

#include <charconv>

namespace mlbridge::onnx {
namespace {

constexpr int MostThreads = 1024;
constexpr std::pair<std::string_view, GraphOptimizationLevel> Levels[] = {
    {"all", ORT_ENABLE_ALL},
    {"extended", ORT_ENABLE_EXTENDED},
    {"basic", ORT_ENABLE_BASIC},
    {"none", ORT_DISABLE_ALL}};
constexpr std::string_view ConfigPrefix = "config.";
constexpr std::string_view Known[] = {"arena",   "config.KEY", "custom_ops", "optimize", "pattern",
                                      "prepack", "runtime",    "spin",       "threads"};

Status readOne(std::string_view key, std::string_view value, Options &to) {
  const auto wrong = [&](const auto &...expected) {
    return makeError(Code::InvalidArgument, "option ", key, ": expected ", expected..., ", not '",
                     value, "'");
  };
  if (key == "runtime") {
    to.runtime = value;
    return value.empty() ? wrong("the path of ONNX Runtime's library or its folder") : Status();
  }
  if (key == "prepack" || key == "spin" || key == "arena" || key == "pattern") {
    const bool isOn = value == "1";
    if (!isOn && value != "0")
      return wrong("0 or 1");
    if (key == "prepack")
      to.prepack = isOn;
    else
      (key == "spin" ? to.spin : key == "arena" ? to.arena : to.pattern) = isOn;
    return Status();
  }
  if (key == "threads") {
    const auto [stop, error] = std::from_chars(value.begin(), value.end(), to.threads);
    const bool isRead = error == std::errc() && stop == value.end();
    return isRead && to.threads >= 1 && to.threads <= MostThreads ? Status()
                                                                  : wrong("1 to ", MostThreads);
  }
  if (key == "optimize") {
    for (const auto &[name, level] : Levels)
      if (value == name) {
        to.optimize = level;
        return Status();
      }
    return wrong("all, extended, basic or none");
  }
  if (key == "custom_ops") // separated by ':', as in LD_LIBRARY_PATH
    while (true) {
      const size_t end = value.find(':');
      const std::string_view file = value.substr(0, end);
      if (file.empty())
        return wrong("files of custom operators, with ':' between them");
      to.customOps.emplace_back(file);
      if (end == value.npos)
        return Status();
      value.remove_prefix(end + 1);
    }
  if (key.substr(0, ConfigPrefix.size()) == ConfigPrefix && key.size() > ConfigPrefix.size()) {
    to.config.emplace_back(key.substr(ConfigPrefix.size()), value);
    return Status();
  }
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
