// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schemes: built in, registered by the program, or found as components.
#include "runner/registry.h"
#include "core/nearest.h"
#include "core/uri_options.h"

#include "conversation/remote.h"
#include "core/component.h"
#include "core/registry.h"
#include "engine/backends.h"

#include <mlbridge/engine.h>

#include <algorithm>

namespace mlbridge {

namespace {

using Factory = std::function<Expected<FunctionModel>(const Uri &)>;
using Factories = Registry<Factory>;
using Engines = Registry<const mlb_engine *>;

Factories &functions() {
  static auto &all = *new Factories;
  return all;
}
Factories &schemes() {
  static auto &all = *new Factories;
  return all;
}
/// By scheme, and by name.
Registry<std::shared_ptr<Engines>> &linkedEngines() {
  static auto &all = *new Registry<std::shared_ptr<Engines>>;
  return all;
}

/// With parts of MLBridge that may not be installed, onnx and grpc, or not linked in.
constexpr std::string_view Own[] = {"aot",  "function", "grpc", "native",
                                    "onnx", "pipe",     "shm",  "unix"};
// Models that a program may have linked in; see engine.h.
constexpr std::string_view Linked = "tfaot";

bool isOwn(std::string_view scheme) {
  return std::find(std::begin(Own), std::end(Own), scheme) != std::end(Own);
}

/// False for a scheme of our own whose part the program doesn't link. A connection's transport is
/// found, or not, when that is opened.
bool isLinked(std::string_view scheme) {
  if (scheme == "native")
    return openNative != nullptr;
  if (scheme == "aot")
    return openCompiled != nullptr;
  const bool connects = scheme == "grpc" || scheme == "pipe" || scheme == "shm" || scheme == "unix";
  return !connects || openRemote != nullptr;
}

Status checkLinked(std::string_view scheme) {
  return isLinked(scheme) ? Status() : notLinked(scheme, scheme == "grpc" ? "client" : scheme);
}

Status alreadyOwn(const std::string &scheme) {
  return makeError(Code::InvalidArgument, "scheme '", scheme, "' is reserved by the library");
}

OpenedBackend openWith(const Factory &factory, const Uri &uri) {
  Expected<FunctionModel> model = caught("opening it", [&] { return factory(uri); });
  return model ? functionBackend(std::move(*model)) : model.status();
}

OpenedBackend openFunction(const Uri &uri) {
  if (const std::optional<Factory> factory = functions().find(uri.place))
    return openWith(*factory, uri);
  return makeError(Code::NotFound, "no function is registered as '", uri.place, "'",
                   functions().suggestion(uri.place));
}

Status add(Factories &factories, const char *what, std::string name, Factory factory) {
  const std::string whose = std::string(what) + " '" + name + "'";
  if (!factory)
    return makeError(Code::InvalidArgument, whose, " has no factory");
  if (!factories.add(std::move(name), std::move(factory)))
    return makeError(Code::InvalidArgument, whose, " is registered already");
  return Status();
}

/// The engine linked in under this scheme and name; null if nothing is linked in under the scheme.
Expected<const mlb_engine *> linkedEngine(const Uri &uri) {
  const std::optional<std::shared_ptr<Engines>> engines = linkedEngines().find(uri.scheme);
  if (!engines && uri.scheme != Linked)
    return nullptr;
  if (engines)
    if (const auto engine = (*engines)->find(uri.place))
      return *engine;
  return makeError(Code::NotFound, "no model '", uri.place, "' is linked into this program",
                   engines ? (*engines)->suggestion(uri.place, uri.scheme)
                           : suggestion(uri.place, {}, uri.scheme));
}

/// A server of MLBridge's, or a service of the user's own.
OpenedBackend openServer(const Uri &uri, const OpenOptions &options) {
  const auto open = uri.options.count("call") ? openUnary : openRemote;
  return open ? open(uri, options) : notLinked(uri.scheme, "client");
}

/// True if the place of such a URI may be a file; functions have no place, servers another one.
bool mayBeFile(std::string_view scheme) {
  return scheme != "function" && scheme != "pipe" && scheme != "shm" && scheme != "unix" &&
         scheme != "grpc";
}

} // namespace

static OpenedBackend openPlain(const Uri &uri, const OpenOptions &options);

static OpenedBackend openMemory(Uri uri, const OpenOptions &options, Span<const uint8_t> bytes) {
  if (uri.options.count("reload"))
    return Status(Code::InvalidArgument, "option reload: a model in memory has no file");
  if (uri.place.empty())
    uri.place = "the model in memory"; // for messages
  if (Status s = checkLinked(uri.scheme); !s)
    return s;
  if (uri.scheme == "native")
    return openNative(uri, options, &bytes);
  if (isOwn(uri.scheme) && uri.scheme != "onnx")
    return makeError(Code::Unsupported, "the scheme '", uri.scheme,
                     "' takes no model from memory; native and onnx do");
  Expected<const mlb_component *> engine = findComponent(ComponentKind::Engine, uri.scheme);
  return engine ? openEngine(*(*engine)->engine, uri, &bytes) : engine.status();
}

Status registerFunction(std::string name, Factory factory) {
  if (name.empty())
    return Status(Code::InvalidArgument, "a function was registered without a name");
  return add(functions(), "function", std::move(name), std::move(factory));
}

Status registerFunction(std::string name, Signature signature, Function function,
                        Metadata metadata) {
  if (!function)
    return makeError(Code::InvalidArgument, "function ", name, " is empty");
  return registerFunction(std::move(name),
                          [model = functionModel(std::move(signature), std::move(function),
                                                 std::move(metadata))](const Uri &uri) {
                            const Status allowed = uri.allowOnly({});
                            return allowed ? Expected<FunctionModel>(model) : allowed;
                          });
}

Status registerScheme(std::string scheme, Factory factory) {
  if (isOwn(scheme))
    return alreadyOwn(scheme);
  Expected<Uri> probe = Uri::parse(scheme + ":");
  if (!probe || probe->scheme != scheme)
    return makeError(Code::InvalidArgument, "'", scheme,
                     "' cannot be a scheme: it must begin with a lower-case letter and have only "
                     "lower-case letters, digits, '+', '-' and '.'");
  return add(schemes(), "scheme", std::move(scheme), std::move(factory));
}

Status registerEngine(const std::string &scheme, std::string name, const mlb_engine &engine) {
  if (isOwn(scheme))
    return alreadyOwn(scheme);
  if (name.empty())
    return Status(Code::InvalidArgument, "an engine was registered without a name");
  if (const std::string missing = missingInTable(engine); !missing.empty())
    return makeError(Code::InvalidArgument, "engine ", scheme, ":", name,
                     " has no complete table: ", missing);
  if (!linkedEngines()
           .findOrAdd(scheme, std::make_shared<Engines>())
           ->add(std::move(name), &engine))
    return Status(Code::InvalidArgument, "an engine is registered under the same name already");
  return Status();
}

std::vector<std::string> knownSchemes() {
  std::vector<std::string> all;
  for (const std::string_view own : Own)
    if (isLinked(own))
      all.emplace_back(own);
  for (const std::vector<std::string> &more :
       {schemes().names(), linkedEngines().names(), componentNames(ComponentKind::Engine),
        componentNames(ComponentKind::Transport)})
    all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// The refusal of an option, which knows only those of one engine, with those of every model.
static Status withModelOptions(const Status &refused, const Uri &uri) {
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

// Options that engines and connections have not to know of are taken out of the URI first.
OpenedBackend openBackend(const Uri &stated, const OpenOptions &options,
                          const Span<const uint8_t> *memory) {
  Uri uri = stated;
  Expected<std::optional<Choosing>> choosing = Choosing::take(uri);
  if (!choosing)
    return choosing.status();
  Expected<Renames> names = takeRenames(uri);
  if (!names)
    return names.status();
  const std::optional<std::string> record = takeOption(uri, "record");
  if (record && record->empty())
    return Status(Code::InvalidArgument, "option record: expected a folder");
  Expected<std::optional<Duration>> reload = std::optional<Duration>();
  if (mayBeFile(uri.scheme) && !memory)
    reload = takeReload(uri);
  if (!reload)
    return reload.status();
  const auto open = [options, memory](const Uri &plain) {
    return memory ? openMemory(plain, options, *memory) : openPlain(plain, options);
  };
  OpenedBackend model = *reload ? openReloading(uri, **reload, open) : open(uri);
  if (!model)
    return withModelOptions(model.status(), uri);
  if (!names->empty())
    model = rename(std::move(*model), std::move(*names), options.context.agent);
  if (model && *choosing)
    model = chooseFrom(std::move(*model), **choosing, options.context.agent);
  if (!model || !record)
    return model;
  return recordTo(std::move(*model), *record, uri.scheme + ":" + uri.place);
}

static OpenedBackend openPlain(const Uri &uri, const OpenOptions &options) {
  if (uri.scheme == "function")
    return openFunction(uri);
  if (Status s = checkLinked(uri.scheme); !s)
    return s;
  if (uri.scheme == "aot")
    return openCompiled(uri);
  if (uri.scheme == "native")
    return openNative(uri, options, nullptr);
  if (uri.scheme == "pipe" || uri.scheme == "shm" || uri.scheme == "unix")
    return openServer(uri, options);
  if (const std::optional<Factory> factory = schemes().find(uri.scheme))
    return openWith(*factory, uri);
  Expected<const mlb_engine *> linked = linkedEngine(uri);
  if (!linked)
    return linked.status();
  if (*linked)
    return openEngine(**linked, uri);

  Expected<const mlb_component *> engine = findComponent(ComponentKind::Engine, uri.scheme);
  if (engine)
    return openEngine(*(*engine)->engine, uri);
  if (engine.status().code() != Code::NotFound || uri.scheme == "onnx")
    return engine.status();
  Expected<const mlb_component *> transport = findComponent(ComponentKind::Transport, uri.scheme);
  if (transport)
    return openServer(uri, options);
  if (transport.status().code() != Code::NotFound || uri.scheme == "grpc")
    return transport.status();

  const std::vector<std::string> all = knownSchemes();
  const std::vector<std::string_view> known = viewsOf(all);
  return makeError(Code::InvalidArgument, "unknown scheme '", uri.scheme, "'",
                   didYouMean(uri.scheme, known), " (known: ", listOf(known),
                   "; others are files libmlbridge-engine-", uri.scheme,
                   ".so in a folder of MLBRIDGE_COMPONENT_PATH)");
}

} // namespace mlbridge
