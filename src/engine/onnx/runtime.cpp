// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime.h"

#include "core/message.h"
#include "core/resources.h"
#include "engine/onnx_guards.h"
#include "locate.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

namespace mlbridge::onnx {
namespace {

/// The oldest C API that has what this engine calls, so that old libraries work too.
constexpr uint32_t ApiVersion = 16;

/// Address space: about 100 MiB for the library and its heaps, the rest is the compiler's.
constexpr size_t MemoryOfRuntime = 192 << 20;

constexpr const char *WhatToInstall =
    "install it with 'pip install onnxruntime' (Debian's pip refuses outside of a virtual "
    "environment: 'python3 -m venv DIR', then 'DIR/bin/pip install onnxruntime'), or the package "
    "libonnxruntime1.21 of Debian 13, or set MLBRIDGE_ONNXRUNTIME to the library, its folder or "
    "that DIR";

/// The library must not write to a compiler's standard error. What goes wrong comes as a status.
void dropMessage(void *, OrtLoggingLevel, const char *, const char *, const char *, const char *) {}

char entry[] = "ORT_DISABLE_TELEMETRY=1";

/// Arrays that other threads may still read. Never destroyed.
std::vector<std::vector<char *>> &arrays() {
  static auto *const all = new std::vector<std::vector<char *>>;
  return *all;
}

/// Keeps ONNX Runtime from reporting home while it starts.
///
/// Since 1.29 the official builds of ONNX Runtime start a thread, write below the user's cache
/// folder and send what they see of models, unless ORT_DISABLE_TELEMETRY is in the environment when
/// they start. A compiler does none of that, and starts faster without. So the variable is there
/// while this object lives, except if the user has set it to whatever value.
///
/// setenv might move the strings under another thread's getenv; here that thread sees either the
/// old array of pointers or the new one, both of which stay valid.
class NoTelemetry {
public:
  NoTelemetry() {
    if (::secure_getenv("ORT_DISABLE_TELEMETRY") || !environ)
      return;
    for (char **each = environ; *each; ++each)
      entries_.push_back(*each);
    std::vector<char *> array = entries_;
    array.push_back(entry);
    array.push_back(nullptr);
    arrays().push_back(std::move(array));
    during_ = arrays().back().data();
    before_ = environ;
    __atomic_store_n(&environ, during_, __ATOMIC_RELEASE);
  }
  ~NoTelemetry() {
    // If another thread has changed the environment meanwhile, its change is worth more than
    // tidiness.
    if (before_ && environ == during_ && std::equal(entries_.begin(), entries_.end(), during_) &&
        during_[entries_.size()] == entry)
      __atomic_store_n(&environ, before_, __ATOMIC_RELEASE);
  }
  NoTelemetry(const NoTelemetry &) = delete;
  NoTelemetry &operator=(const NoTelemetry &) = delete;

private:
  char **before_ = nullptr; ///< null if nothing was changed
  char **during_ = nullptr;
  std::vector<char *> entries_; ///< of before_
};

Status load(const std::string &path, Runtime &runtime) {
  const NoTelemetry quiet;
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = ::dlerror();
    return {Code::NotFound, why ? why : path + " cannot be opened"};
  }
  using GetApiBase = const OrtApiBase *(*)();
  const auto getBase = reinterpret_cast<GetApiBase>(::dlsym(library, "OrtGetApiBase"));
  const OrtApiBase *base = getBase ? getBase() : nullptr;
  if (!base)
    return makeError(Code::NotFound, path, " is not ONNX Runtime: it has no OrtGetApiBase");

  const char *text = base->GetVersionString();
  runtime.path = path;
  runtime.version = text ? text : "";
  // Asked for an API that it does not have, the library prints; so ask only where it may be there.
  // Version 1.N has the API of version N.
  char *rest = nullptr;
  const long major = std::strtol(runtime.version.c_str(), &rest, 10);
  const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  const bool tooOld = major == 1 && minor < static_cast<long>(ApiVersion);
  runtime.api = tooOld ? nullptr : base->GetApi(ApiVersion);
  if (!runtime.api)
    return makeError(Code::Unsupported, path, " is ONNX Runtime ", runtime.version,
                     ", which lacks the C API of version ", ApiVersion,
                     " that is needed here; install version 1.", ApiVersion, " or newer");
  runtime.minor = major > 1 ? std::numeric_limits<int>::max() : static_cast<int>(minor);

  const OrtApi *api = runtime.api;
  const std::string where = "ONNX Runtime " + runtime.version + " (" + path + ") cannot start";
  Status s;
  const auto ok = [&](OrtStatus *status) {
    s = take(api, status, Code::Internal, where);
    return s.ok();
  };
  (void)(ok(api->CreateEnvWithCustomLogger(dropMessage, nullptr, ORT_LOGGING_LEVEL_ERROR,
                                           "mlbridge", &runtime.env)) &&
         ok(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &runtime.memory)) &&
         ok(api->GetAllocatorWithDefaultOptions(&runtime.allocator)) &&
         ok(api->CreateRunOptions(&runtime.runOptions)));
  return s;
}

struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Runtime>> byPath;
};

/// Never destroyed; see Runtime.
Loaded &loaded() {
  static auto *const all = new Loaded;
  return *all;
}

Expected<const Runtime *> loadOnce(Loaded &all, const std::string &path) {
  std::error_code failed;
  std::string key = path.find('/') == std::string::npos ? fs::path() : fs::canonical(path, failed);
  if (key.empty())
    key = path;
  if (const auto known = all.byPath.find(key); known != all.byPath.end())
    return known->second.get();
  // The rest of the limit must do for the compiler.
  if (Status s = Reserved(MemoryOfRuntime).status("ONNX Runtime"); !s)
    return s;
  auto fresh = std::make_unique<Runtime>();
  if (Status s = load(key, *fresh); !s)
    return s;
  return all.byPath.emplace(std::move(key), std::move(fresh)).first->second.get();
}

} // namespace

Expected<const Runtime *> loadRuntime(std::string_view named) {
  Loaded &all = loaded();
  const std::lock_guard<std::mutex> lock(all.mutex);

  std::string place(named);
  std::string origin = "the option runtime";
  if (place.empty()) {
    const char *value = ::secure_getenv("MLBRIDGE_ONNXRUNTIME");
    place = value ? value : "";
    origin = "MLBRIDGE_ONNXRUNTIME";
  }
  if (!place.empty()) {
    const std::string path = libraryAt(place);
    if (path.empty())
      return makeError(Code::NotFound, "ONNX Runtime is not at ", place, ", which ", origin,
                       " names; ", WhatToInstall);
    // A path without a slash would be looked up elsewhere.
    Expected<const Runtime *> runtime =
        loadOnce(all, path.find('/') == std::string::npos ? "./" + path : path);
    if (!runtime && runtime.status().code() == Code::NotFound)
      return makeError(Code::NotFound, "ONNX Runtime cannot be opened at ", place, ", which ",
                       origin, " names: ", runtime.status().message());
    return runtime;
  }

  const Runtime *taken = nullptr;
  std::vector<std::string> looked;
  Status unusable;
  const bool isLoaded = searchLibraries(
      [&](const std::string &path) {
        Expected<const Runtime *> runtime = loadOnce(all, path);
        if (runtime)
          taken = *runtime;
        else if (unusable.ok() && path.find('/') != std::string::npos)
          unusable = runtime.status();
        return taken != nullptr;
      },
      looked);
  if (isLoaded)
    return taken;
  if (!unusable.ok())
    return unusable.code() == Code::NotFound
               ? makeError(Code::NotFound,
                           "ONNX Runtime was found but cannot be opened: ", unusable.message(),
                           "; ", WhatToInstall)
               : unusable;
  std::string places;
  for (const std::string &place : looked)
    places += (places.empty() ? "" : ", ") + place;
  return makeError(Code::NotFound, "ONNX Runtime was not found; ", WhatToInstall, " (looked in ",
                   places, ")");
}

Status take(const OrtApi *api, OrtStatus *failure, Code code, std::string_view where) {
  if (!failure)
    return Status();
  const OrtErrorCode kind = api->GetErrorCode(failure);
  const std::string message = engine::plainMessage(api->GetErrorMessage(failure));
  api->ReleaseStatus(failure);
  return {kind == ORT_NOT_IMPLEMENTED ? Code::Unsupported : code,
          std::string(where) + ": " + message};
}

} // namespace mlbridge::onnx
