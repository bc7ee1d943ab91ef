// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schemes and options: built in, registered by the program, or found as components.
#include "runner/registry.h"
#include "core/message.h"
#include "core/nearest.h"
#include "core/uri_options.h"

#include "conversation/remote.h"
#include "core/component.h"
#include "engine/backends.h"

#include <algorithm>

namespace mlbridge {

namespace {

/// With parts of MLBridge that may not be installed, onnx and grpc, or not linked in.
constexpr std::string_view Own[] = {"aot",  "function", "grpc", "native",
                                    "onnx", "pipe",     "shm",  "unix"};
// Models that a program may have linked in; see engine.h.
constexpr std::string_view Linked = "tfaot";

bool isOwn(std::string_view scheme) {
  return std::find(std::begin(Own), std::end(Own), scheme) != std::end(Own);
}

/// True if the place of such a URI is that of a server.
bool connects(std::string_view scheme) {
  return scheme == "grpc" || scheme == "pipe" || scheme == "shm" || scheme == "unix";
}

/// Weak functions, so that a constant won't do.
bool hasComponents() { return findComponent && openEngine; }

/// False for a scheme of our own whose part the program doesn't link. A connection's transport is
/// found, or not, when that is opened.
bool isLinked(std::string_view scheme) {
  if (scheme == "native")
    return openNative != nullptr;
  if (scheme == "aot")
    return openCompiled != nullptr;
  if (scheme == "onnx")
    return hasComponents();
  return !connects(scheme) || openRemote != nullptr;
}

Status checkLinked(std::string_view scheme) {
  return isLinked(scheme) ? Status()
                          : notLinked("scheme", scheme,
                                      scheme == "grpc"   ? "client"
                                      : scheme == "onnx" ? "components"
                                                         : scheme);
}

/// A server of MLBridge's, or a service of the user's own.
OpenedBackend openServer(const Uri &uri, const Opening &options) {
  const auto open = uri.options.count("call") ? openUnary : openRemote;
  return open ? open(uri, options) : notLinked("scheme", uri.scheme, "client");
}

/// True if the place of such a URI may be a file; functions have no place, servers another one.
bool mayBeFile(std::string_view scheme) { return scheme != "function" && !connects(scheme); }

OpenedBackend openMemory(Uri uri, Span<const uint8_t> bytes, const OpenOptions &options) {
  if (uri.options.count("reload"))
    return makeError(Code::InvalidArgument, "option reload: a model in memory has no file");
  if (uri.place.empty())
    uri.place = "the model in memory"; // for messages
  if (Status s = checkLinked(uri.scheme); !s)
    return s;
  if (uri.scheme == "native")
    return openNative(uri, options, &bytes);
  if (isOwn(uri.scheme) && uri.scheme != "onnx")
    return makeError(Code::Unsupported, "the scheme '", uri.scheme,
                     "' takes no model from memory; native and onnx do");
  if (!hasComponents())
    return notLinked("scheme", uri.scheme, "components");
  Expected<const mlb_component *> engine = findComponent(ComponentKind::Engine, uri.scheme);
  return engine ? openEngine(*(*engine)->engine, uri, &bytes) : engine.status();
}

Status unknownScheme(const std::string &scheme) {
  const std::vector<std::string> all = knownSchemes();
  const std::vector<std::string_view> known = viewsOf(all);
  return makeError(Code::InvalidArgument, "unknown scheme '", scheme, "'",
                   didYouMean(scheme, known), " (known: ", listOf(known),
                   "; others are files libmlbridge-engine-", scheme,
                   ".so in a folder of MLBRIDGE_COMPONENT_PATH",
                   hasComponents() ? ")" : ", if the program links MLBridge::components)");
}

OpenedBackend openPlain(const Uri &uri, const Opening &options) {
  if (Status s = checkLinked(uri.scheme); !s)
    return s;
  if (uri.scheme == "aot")
    return openCompiled(uri);
  if (uri.scheme == "native")
    return openNative(uri, options, nullptr);
  if (uri.scheme == "pipe" || uri.scheme == "shm" || uri.scheme == "unix")
    return openServer(uri, options);
  if (openRegistered) {
    OpenedBackend registered = openRegistered(uri);
    if (!registered || *registered)
      return registered;
  }
  if (uri.scheme == "function")
    return makeError(Code::NotFound, "no function is registered as '", uri.place, "'",
                     suggestion(uri.place, {}, "registered"));
  if (openLinked) {
    OpenedBackend linked = openLinked(uri);
    if (!linked || *linked)
      return linked;
  }
  if (uri.scheme == Linked)
    return makeError(Code::NotFound, "no model '", uri.place, "' is linked into this program",
                     suggestion(uri.place, {}, uri.scheme));
  if (!hasComponents())
    return uri.scheme == "grpc" ? notLinked("scheme", uri.scheme, "client")
                                : unknownScheme(uri.scheme);

  Expected<const mlb_component *> engine = findComponent(ComponentKind::Engine, uri.scheme);
  if (engine)
    return openEngine(*(*engine)->engine, uri, nullptr);
  if (engine.status().code() != Code::NotFound || uri.scheme == "onnx")
    return engine.status();
  Expected<const mlb_component *> transport = findComponent(ComponentKind::Transport, uri.scheme);
  if (transport)
    return openServer(uri, options);
  if (transport.status().code() != Code::NotFound || uri.scheme == "grpc")
    return transport.status();
  return unknownScheme(uri.scheme);
}

/// The refusal of an option, which knows only those of one engine, with those of every model.
Status withModelOptions(const Status &refused, const Uri &uri) {
  for (const auto &[key, value] : uri.options) {
    if (!isUnknownOption(refused, key))
      continue;
    if (std::count(std::begin(ChoosingOptions), std::end(ChoosingOptions), key))
      return makeError(refused.code(), refused.message(),
                       "; it goes with choose=argmax or choose=sample");
    std::vector<std::string_view> all(std::begin(ModelOptions), std::end(ModelOptions));
    if (mayBeFile(uri.scheme))
      all.emplace_back("reload");
    const std::string listed = " (every model: " + listOf(all) + ")";
    all.insert(all.end(), std::begin(ChoosingOptions), std::end(ChoosingOptions));
    const bool isNamed = refused.message().find("did you mean") != std::string::npos;
    return makeError(refused.code(), refused.message(), isNamed ? "" : didYouMean(key, all),
                     listed);
  }
  return refused;
}

/// What engines and connections have not to know of, in the order in which it is taken out of the
/// URI: a recording has what was chosen, and names that were changed.
const struct {
  const char *name;
  OptionOpener *open;
} Options[] = {{"record", openRecorded},
               {"choose", openChoosing},
               {"rename", openRenamed},
               {"reload", openReloading}};

} // namespace

Status checkNotReserved(std::string_view scheme) {
  return isOwn(scheme)
             ? makeError(Code::InvalidArgument, "scheme '", scheme, "' is reserved by the library")
             : Status();
}

std::vector<std::string> knownSchemes() {
  std::vector<std::string> all;
  for (const std::string_view own : Own)
    if (isLinked(own))
      all.emplace_back(own);
  const auto add = [&](const std::vector<std::string> &more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  if (registeredSchemes)
    add(registeredSchemes());
  if (linkedSchemes)
    add(linkedSchemes());
  if (hasComponents()) {
    add(componentNames(ComponentKind::Engine));
    add(componentNames(ComponentKind::Transport));
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

OpenedBackend ModelOpener::operator()(const Uri &stated) const {
  Uri uri = stated;
  for (size_t i = next_; i < std::size(Options); ++i) {
    const auto &[name, open] = Options[i];
    const bool isForFiles = std::string_view(name) == "reload";
    if (!uri.options.count(name) || (isForFiles && (memory_ || !mayBeFile(uri.scheme))))
      continue;
    if (!open)
      return notLinked("option", name, name);
    return open(uri, ModelOpener(options_, memory_, i + 1));
  }
  OpenedBackend model = memory_ ? openMemory(uri, *memory_, options_) : openPlain(uri, options_);
  return model ? std::move(model) : withModelOptions(model.status(), uri);
}

OpenedBackend openBackend(const Uri &uri, const Opening &options,
                          const Span<const uint8_t> *memory) {
  return ModelOpener(options, memory)(uri);
}

} // namespace mlbridge
