// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of an onnx: URI.
#include "model.h"

#include <charconv>

namespace mlbridge::onnx {
namespace {

constexpr int MostThreads = 1024;

Status wrong(std::string_view key, std::string_view value, std::string_view expected) {
  return {Code::InvalidArgument, "option " + std::string(key) + ": expected " +
                                     std::string(expected) + ", not '" + std::string(value) + "'"};
}

/// Read by the library itself, which hands all options of the URI on.
bool isForTheLibrary(std::string_view key) {
  return key == "deadline" || key == "agent" || key == "episode" || key == "context";
}

} // namespace

Expected<Options> Options::parse(const mlb_option *options, uint64_t size) {
  Options parsed;
  for (uint64_t i = 0; i < size; ++i) {
    const std::string_view key(options[i].key.data, options[i].key.size);
    const std::string_view value(options[i].value.data, options[i].value.size);
    if (key == "runtime") {
      if (value.empty())
        return wrong(key, value, "the path of ONNX Runtime's library or its folder");
      parsed.runtime = value;
    } else if (key == "threads") {
      const auto [stop, error] = std::from_chars(value.begin(), value.end(), parsed.threads);
      if (error != std::errc() || stop != value.end() || parsed.threads < 1 ||
          parsed.threads > MostThreads)
        return wrong(key, value, "1 to " + std::to_string(MostThreads));
    } else if (key == "prepack") {
      if (value != "0" && value != "1")
        return wrong(key, value, "0 or 1");
      parsed.prepack = value == "1";
    } else if (key == "optimize") {
      if (value == "all")
        parsed.optimize = ORT_ENABLE_ALL;
      else if (value == "extended")
        parsed.optimize = ORT_ENABLE_EXTENDED;
      else if (value == "basic")
        parsed.optimize = ORT_ENABLE_BASIC;
      else if (value == "none")
        parsed.optimize = ORT_DISABLE_ALL;
      else
        return wrong(key, value, "all, extended, basic or none");
    } else if (!isForTheLibrary(key)) {
      return Status(Code::InvalidArgument,
                    "unknown option '" + std::string(key) +
                        "' of an onnx model; it takes runtime, threads, prepack, optimize and, as "
                        "every model does, deadline, agent, episode and context");
    }
  }
  return parsed;
}

} // namespace mlbridge::onnx
