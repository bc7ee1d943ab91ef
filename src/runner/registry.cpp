// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schemes: built in, registered by the program, or found as components.
#include "runner/registry.h"

#include "conversation/remote.h"
#include "conversation/unary.h"
#include "core/component.h"
#include "core/nearest.h"
#include "engine/aot/backend.h"
#include "engine/function/function.h"
#ifdef MLBRIDGE_HAS_NATIVE
#include "engine/native/backend.h"
#endif
#include "runner/choose.h"
#include "runner/engine_component.h"
#include "runner/reload.h"
#include "runner/rename.h"

#include <mlbridge/engine.h>

#include <algorithm>
#include <mutex>

namespace mlbridge {

namespace {

using Factory = std::function<Expected<FunctionModel>(const Uri &)>;

struct Registered {
  std::mutex lock;
  std::map<std::string, std::map<std::string, const mlb_engine *, std::less<>>, std::less<>>
      engines; ///< by scheme and name
  std::map<std::string, Factory, std::less<>> functions, schemes;
};

// Never destroyed, so that threads may run until the process has ended.
Registered &registered() {
  static auto *all = new Registered;
  return *all;
}

constexpr std::string_view BuiltIn[] = {"aot",    "function",
#ifdef MLBRIDGE_HAS_NATIVE
                                        "native",
#endif
                                        "pipe",   "shm",      "unix"};
// Parts of MLBridge that may not be installed; asking for them is no spelling mistake.
constexpr std::string_view OptionalEngines[] = {"onnx"};
constexpr std::string_view OptionalTransports[] = {"grpc"};
// Models that a program may have linked in; see engine.h.
constexpr std::string_view Linked[] = {"tfaot"};

bool contains(Span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Factory findFactory(const std::map<std::string, Factory, std::less<>> &factories,
                    std::string_view name) {
  const std::lock_guard<std::mutex> guard(registered().lock);
  const auto it = factories.find(name);
  return it == factories.end() ? Factory() : it->second;
}

Expected<std::shared_ptr<ModelBackend>> openWith(const Factory &factory, const Uri &uri) {
  try {
    Expected<FunctionModel> model = factory(uri);
    if (!model)
      return model.status();
    return functionBackend(std::move(*model));
  } catch (const std::exception &e) {
    return Status(Code::PolicyFailed, "opening it raised an exception: " + std::string(e.what()));
  } catch (...) {
    return Status(Code::PolicyFailed, "opening it raised an exception");
  }
}

Expected<std::shared_ptr<ModelBackend>> openFunction(const Uri &uri) {
  if (const Factory factory = findFactory(registered().functions, uri.place))
    return openWith(factory, uri);
  std::vector<std::string> names;
  {
    const std::lock_guard<std::mutex> guard(registered().lock);
    for (const auto &[name, factory] : registered().functions)
      names.push_back(name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  return Status(Code::NotFound, "no function is registered as '" + uri.place + "'" +
                                    didYouMean(uri.place, views) +
                                    " (registered: " + listOf(views) + ")");
}

Status add(std::map<std::string, Factory, std::less<>> &factories, const char *what,
           std::string name, Factory factory) {
  if (!factory)
    return Status(Code::InvalidArgument, std::string(what) + " '" + name + "' has no factory");
  const std::lock_guard<std::mutex> guard(registered().lock);
  const auto [it, isNew] = factories.emplace(std::move(name), std::move(factory));
  if (!isNew)
    return Status(Code::InvalidArgument,
                  std::string(what) + " '" + it->first + "' is registered already");
  return Status();
}

/// Engines linked in under this scheme and name; null if nothing is linked in under the scheme.
Expected<const mlb_engine *> linkedEngine(const Uri &uri) {
  std::vector<std::string> names;
  {
    const std::lock_guard<std::mutex> guard(registered().lock);
    const auto scheme = registered().engines.find(uri.scheme);
    if (scheme != registered().engines.end()) {
      const auto engine = scheme->second.find(uri.place);
      if (engine != scheme->second.end())
        return engine->second;
      for (const auto &[name, table] : scheme->second)
        names.push_back(name);
    } else if (!contains(Linked, uri.scheme)) {
      return nullptr;
    }
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  return Status(Code::NotFound, "no model '" + uri.place + "' is linked into this program" +
                                    didYouMean(uri.place, views) + " (" + uri.scheme + ": " +
                                    listOf(views) + ")");
}

/// A server of MLBridge's, or a service of the user's own.
Expected<std::shared_ptr<ModelBackend>> openServer(const Uri &uri, const OpenOptions &options) {
  return uri.options.count("call") ? openUnary(uri, options) : openRemote(uri, options);
}

/// Whether the place of such a URI may be a file; functions have no place, servers another one.
bool mayBeFile(std::string_view scheme) {
  return scheme != "function" && scheme != "pipe" && scheme != "shm" && scheme != "unix" &&
         !contains(OptionalTransports, scheme);
}

} // namespace

static Expected<std::shared_ptr<ModelBackend>> openPlain(const Uri &uri,
                                                         const OpenOptions &options);

static Expected<std::shared_ptr<ModelBackend>> openMemory(Uri uri, const OpenOptions &options,
                                                          Span<const uint8_t> bytes) {
  if (uri.options.count("reload"))
    return Status(Code::InvalidArgument, "option reload: a model in memory has no file");
  if (uri.place.empty())
    uri.place = "the model in memory"; // for messages
#ifdef MLBRIDGE_HAS_NATIVE
  if (uri.scheme == "native")
    return openNative(uri, options, &bytes);
#endif
  if (!mayBeFile(uri.scheme) || contains(BuiltIn, uri.scheme))
    return Status(Code::Unsupported,
                  "the scheme '" + uri.scheme + "' takes no model from memory; native and onnx do");
  Expected<const mlb_component *> engine = findComponent(ComponentKind::Engine, uri.scheme);
  return engine ? openEngine(*(*engine)->engine, uri, &bytes) : engine.status();
}

Status registerFunction(std::string name, Factory factory) {
  if (name.empty())
    return Status(Code::InvalidArgument, "a function was registered without a name");
  return add(registered().functions, "function", std::move(name), std::move(factory));
}

Status registerScheme(std::string scheme, Factory factory) {
  if (contains(BuiltIn, scheme) || contains(OptionalEngines, scheme) ||
      contains(OptionalTransports, scheme))
    return Status(Code::InvalidArgument, "scheme '" + scheme + "' is the library's own");
  Expected<Uri> probe = Uri::parse(scheme + ":");
  if (!probe || probe->scheme != scheme)
    return Status(Code::InvalidArgument, "'" + scheme + "' cannot be a scheme");
  return add(registered().schemes, "scheme", std::move(scheme), std::move(factory));
}

Status registerEngine(const std::string &scheme, std::string name, const mlb_engine &engine) {
  if (contains(BuiltIn, scheme) || contains(OptionalEngines, scheme) ||
      contains(OptionalTransports, scheme))
    return Status(Code::InvalidArgument, "scheme '" + scheme + "' is the library's own");
  if (name.empty())
    return Status(Code::InvalidArgument, "an engine was registered without a name");
  if (const std::string missing = missingInTable(engine); !missing.empty())
    return Status(Code::InvalidArgument,
                  "engine " + scheme + ":" + name + " has no complete table: " + missing);
  const std::lock_guard<std::mutex> guard(registered().lock);
  if (!registered().engines[scheme].emplace(std::move(name), &engine).second)
    return Status(Code::InvalidArgument, "an engine is registered under the same name already");
  return Status();
}

std::vector<std::string> knownSchemes() {
  std::vector<std::string> all(std::begin(BuiltIn), std::end(BuiltIn));
  all.insert(all.end(), std::begin(OptionalEngines), std::end(OptionalEngines));
  all.insert(all.end(), std::begin(OptionalTransports), std::end(OptionalTransports));
  {
    const std::lock_guard<std::mutex> guard(registered().lock);
    for (const auto &[scheme, factory] : registered().schemes)
      all.push_back(scheme);
    for (const auto &[scheme, engines] : registered().engines)
      all.push_back(scheme);
  }
  for (ComponentKind kind : {ComponentKind::Engine, ComponentKind::Transport})
    for (std::string &found : componentNames(kind))
      all.push_back(std::move(found));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Options that engines and connections have not to know of are taken out of the URI first.
Expected<std::shared_ptr<ModelBackend>> openBackend(const Uri &stated, const OpenOptions &options,
                                                    const Span<const uint8_t> *memory) {
  Uri uri = stated;
  Expected<std::optional<Choosing>> choosing = Choosing::take(uri);
  if (!choosing)
    return choosing.status();
  Expected<Renames> names = takeRenames(uri);
  if (!names)
    return names.status();
  Expected<std::optional<Duration>> reload = std::optional<Duration>();
  if (mayBeFile(uri.scheme) && !memory)
    reload = takeReload(uri);
  if (!reload)
    return reload.status();
  const auto open = [options, memory](const Uri &plain) {
    return memory ? openMemory(plain, options, *memory) : openPlain(plain, options);
  };
  Expected<std::shared_ptr<ModelBackend>> model =
      *reload ? openReloading(uri, **reload, open) : open(uri);
  if (model && !names->empty())
    model = rename(std::move(*model), std::move(*names), options.agent);
  if (!model || !*choosing)
    return model;
  return chooseFrom(std::move(*model), **choosing, options.agent);
}

static Expected<std::shared_ptr<ModelBackend>> openPlain(const Uri &uri,
                                                         const OpenOptions &options) {
  if (uri.scheme == "function")
    return openFunction(uri);
  if (uri.scheme == "aot")
    return openCompiled(uri);
#ifdef MLBRIDGE_HAS_NATIVE
  if (uri.scheme == "native")
    return openNative(uri, options);
#endif
  if (uri.scheme == "pipe" || uri.scheme == "shm" || uri.scheme == "unix")
    return openServer(uri, options);
  if (const Factory factory = findFactory(registered().schemes, uri.scheme))
    return openWith(factory, uri);
  Expected<const mlb_engine *> linked = linkedEngine(uri);
  if (!linked)
    return linked.status();
  if (*linked)
    return openEngine(**linked, uri);

  Expected<const mlb_component *> engine = findComponent(ComponentKind::Engine, uri.scheme);
  if (engine)
    return openEngine(*(*engine)->engine, uri);
  if (engine.status().code() != Code::NotFound || contains(OptionalEngines, uri.scheme))
    return engine.status();
  Expected<const mlb_component *> transport = findComponent(ComponentKind::Transport, uri.scheme);
  if (transport)
    return openServer(uri, options);
  if (transport.status().code() != Code::NotFound || contains(OptionalTransports, uri.scheme))
    return transport.status();

  const std::vector<std::string> known = knownSchemes();
  const std::vector<std::string_view> views(known.begin(), known.end());
  return Status(Code::InvalidArgument,
                "unknown scheme '" + uri.scheme + "'" + didYouMean(uri.scheme, views) +
                    " (known: " + listOf(views) + "; others are files libmlbridge-engine-" +
                    uri.scheme + ".so in a folder of MLBRIDGE_COMPONENT_PATH)");
}

} // namespace mlbridge
