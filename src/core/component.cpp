// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds components by file name, opens them once and checks their tables.
#include "core/component.h"

#include "core/component_values.h"
#include "core/message.h"
#include "core/registry.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

// The folder of the components of the package that find_package found: given by a file that its
// targets compile into whatever links them (cmake/MLBridgeConfig.cmake.in).
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const char *mlbridge_component_folder();

namespace mlbridge {

const char *name(ComponentKind kind) {
  constexpr const char *Names[] = {"engine", "serdes", "transport"};
  return Names[static_cast<size_t>(kind)];
}

// The folder of the object that this code is linked into: a compiler plugin, an extension module, a
// program.
static std::string ownFolder() {
  static const char anchor = 0;
  Dl_info info{};
  void *extra = nullptr;
  if (!::dladdr1(&anchor, &info, &extra, RTLD_DL_LINKMAP))
    return {};
  const auto *map = static_cast<const link_map *>(extra);
  // The program itself has an empty name here, and argv[0] in info.
  const bool isProgram = !map || !map->l_name || !map->l_name[0];
  std::error_code failed; // which leaves the path empty
  return fs::canonical(isProgram ? "/proc/self/exe" : map->l_name, failed).parent_path();
}

// In a program with more rights than its user (setuid), the folder may be that user's, with a link
// to the program.
static bool isTrusted(const std::string &folder) {
  struct stat info{};
  return !::getauxval(AT_SECURE) ||
         (::stat(folder.c_str(), &info) == 0 && (info.st_uid == 0 || info.st_uid == ::geteuid()) &&
          !(info.st_mode & S_IWOTH));
}

std::vector<std::string> componentFolders() {
  std::vector<std::string> folders;
  const auto add = [&](std::string folder) {
    if (!folder.empty() && std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  };
  if (const char *list = ::secure_getenv("MLBRIDGE_COMPONENT_PATH")) {
    std::string_view rest = list;
    while (!rest.empty()) {
      const size_t colon = std::min(rest.find(':'), rest.size());
      add(std::string(rest.substr(0, colon)));
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
  }
  static const std::string own = ownFolder();
  if (!own.empty() && isTrusted(own)) {
    add(own + "/mlbridge");
    add(own);
    add(own + "/components"); // the Python package: the extension, and
    const std::string above = fs::path(own).parent_path();
    add(above + "/components"); // the plugins one folder deeper
    add(above + "/lib/mlbridge");
  }
  if (mlbridge_component_folder)
    add(mlbridge_component_folder());
#ifdef MLBRIDGE_INSTALLED_COMPONENTS
  add(MLBRIDGE_INSTALLED_COMPONENTS);
#endif
  return folders;
}

static std::string filePrefix(ComponentKind kind) {
  return std::string("libmlbridge-") + name(kind) + "-";
}

static bool isComponentName(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-.") == name.npos;
}

std::vector<std::string> componentNames(ComponentKind kind) {
  std::vector<std::string> names;
  const std::string prefix = filePrefix(kind), suffix = ".so";
  for (const std::string &folder : componentFolders()) {
    std::error_code failed; // which leaves nothing to iterate over
    for (fs::directory_iterator at(folder, failed), end; at != end; at.increment(failed)) {
      const std::string file = at->path().filename();
      if (file.size() <= prefix.size() + suffix.size() || file.substr(0, prefix.size()) != prefix ||
          file.substr(file.size() - suffix.size()) != suffix)
        continue;
      std::string found = file.substr(prefix.size(), file.size() - prefix.size() - suffix.size());
      if (isComponentName(found))
        names.push_back(std::move(found));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// MLBridge's own components, and what each is built with.
static constexpr struct {
  ComponentKind kind;
  std::string_view name;
  const char *how;
} OwnComponents[] = {
    {ComponentKind::Engine, "onnx", "-DMLBRIDGE_ONNX=ON"},
    {ComponentKind::SerDes, "json", "-DMLBRIDGE_JSON=ON (needs simdjson, Debian: libsimdjson-dev)"},
    {ComponentKind::SerDes, "protobuf",
     "-DMLBRIDGE_PROTOBUF=ON (needs Protocol Buffers, Debian: libprotobuf-dev libprotoc-dev)"},
    {ComponentKind::Transport, "grpc",
     "-DMLBRIDGE_GRPC=ON (needs gRPC, Debian: libgrpc++-dev, protobuf-compiler-grpc)"}};

static std::string whatGivesIt(ComponentKind kind, std::string_view name) {
  for (const auto &own : OwnComponents)
    if (own.kind == kind && own.name == name)
      return std::string("it is built with ") + own.how +
             " and is part of the Python package mlbridge";
  return "it is not one of MLBridge's own: add the folder that it is in";
}

// How much of a table every component has.
template <typename Table> constexpr size_t NeededSize = sizeof(Table);
template <> constexpr size_t NeededSize<mlb_engine> = offsetof(mlb_engine, open_memory);
template <> constexpr size_t NeededSize<mlb_serdes> = offsetof(mlb_serdes, create_with);
template <> constexpr size_t NeededSize<mlb_transport> = offsetof(mlb_transport, understands);

// These functions, in their order.
template <typename Table> constexpr const char *Names[] = {nullptr};
template <>
constexpr const char *Names<mlb_engine>[] = {
    "open",           "close", "metadata", "signature", "create_runner",
    "destroy_runner", "input", "resize",   "evaluate",  "output"};
template <> constexpr const char *Names<mlb_serdes>[] = {"create", "destroy", "encode", "decode"};
template <>
constexpr const char *Names<mlb_transport>[] = {
    "connect", "listen", "accept",          "listener_descriptor", "stop_listening",
    "read",    "write",  "read_descriptor", "write_descriptor",    "close"};

// The name of a missing function that this library calls; a table must have all of them.
template <typename Table> static std::string missingIn(const Table *table) {
  static_assert(NeededSize<Table> == sizeof(uint64_t) + sizeof(Names<Table>));
  if (!table)
    return "it is missing";
  if (table->size < NeededSize<Table>)
    return "it has " + std::to_string(table->size) + " bytes, " +
           std::to_string(NeededSize<Table>) + " were expected";
  const char *at = reinterpret_cast<const char *>(table) + sizeof(uint64_t);
  for (const char *const name : Names<Table>) {
    uintptr_t function;
    std::memcpy(&function, at, sizeof function);
    if (!function)
      return "its function '" + std::string(name) + "' is null";
    at += sizeof function;
  }
  return {};
}

std::string missingInTable(const mlb_engine &table) { return missingIn(&table); }

static Status check(const mlb_component *component, ComponentKind kind, std::string_view name) {
  const auto wrong = [](const auto &...what) { return makeError(Code::Unsupported, what...); };
  if (!component)
    return wrong("the component does not support this library's ABI ", MLB_COMPONENT_ABI,
                 ": install the two from the same release");
  if (component->size < offsetof(mlb_component, version))
    return wrong("its table is ", component->size, " bytes long, too short");
  if (component->abi != MLB_COMPONENT_ABI)
    return wrong("the component has ABI ", component->abi, ", this library has ABI ",
                 MLB_COMPONENT_ABI, ": install the two from the same release");
  if (component->size < sizeof(mlb_component))
    return wrong("its table is ", component->size, " bytes long instead of ",
                 sizeof(mlb_component));
  const std::string_view own = fromComponent(component->name);
  if (own != name)
    return wrong("the component calls itself '", own, "'");
  const std::string missing = kind == ComponentKind::Engine   ? missingIn(component->engine)
                              : kind == ComponentKind::SerDes ? missingIn(component->serdes)
                                                              : missingIn(component->transport);
  if (!missing.empty())
    return wrong("the component has no complete ", mlbridge::name(kind), " table: ", missing);
  return Status();
}

static Expected<const mlb_component *> openFile(const std::string &path, ComponentKind kind,
                                                std::string_view name) {
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = ::dlerror();
    return makeError(Code::Unsupported, "cannot open component '", path, "': ", why ? why : "?");
  }
  const auto entry =
      reinterpret_cast<mlb_component_entry_fn>(::dlsym(library, MLB_COMPONENT_ENTRY));
  if (!entry) {
    ::dlclose(library);
    return makeError(Code::Unsupported, "'", path,
                     "' is not a component: it has no function " MLB_COMPONENT_ENTRY);
  }
  const mlb_component *component = entry(MLB_COMPONENT_ABI);
  if (Status s = check(component, kind, name); !s) {
    ::dlclose(library);
    return s.withContext(join("'", path, "'"));
  }
  return component;
}

/// The components that were opened or registered, by file name.
static Registry<const mlb_component *> &components() {
  static auto &all = *new Registry<const mlb_component *>;
  return all;
}

Status addComponent(const mlb_component &component) {
  const std::string name(fromComponent(component.name));
  constexpr std::string_view own[] = {"aot",  "bitstream", "function", "native",
                                      "pipe", "shm",       "tfaot",    "unix"};
  if (!isComponentName(name) || std::find(std::begin(own), std::end(own), name) != std::end(own))
    return makeError(Code::InvalidArgument, "'", name.substr(0, 64),
                     "' cannot name a component: it is reserved by the library, or has characters "
                     "other than lower-case letters, digits, '+', '-' and '.'");
  if (component.size < sizeof(mlb_component))
    return makeError(Code::Unsupported, "component '", name, "' has a table that is too short");
  std::vector<std::string> files;
  for (const auto &[kind, table] :
       {std::pair<ComponentKind, const void *>{ComponentKind::Engine, component.engine},
        {ComponentKind::SerDes, component.serdes},
        {ComponentKind::Transport, component.transport}}) {
    if (!table)
      continue;
    files.push_back(filePrefix(kind) + name + ".so");
    if (Status s = check(&component, kind, name); !s)
      return s.withContext(join("component '", name, "'"));
  }
  if (files.empty())
    return makeError(Code::Unsupported, "component '", name,
                     "' has no engine, serdes or transport");
  if (!components().addAll(files, &component))
    return makeError(Code::InvalidArgument, "a component '", name,
                     "' is already registered or loaded");
  return Status();
}

Expected<const mlb_component *> findComponent(ComponentKind kind, std::string_view name) {
  if (!isComponentName(name))
    return makeError(Code::InvalidArgument, "'", name.substr(0, 64),
                     "' cannot name a component: a name has only "
                     "lower-case letters, digits, '+', '-' and '.'");
  const std::string file = filePrefix(kind) + std::string(name) + ".so";
  if (const auto component = components().find(file))
    return *component;
  // One at a time, as dlopen is: a table may be filled in when it is asked for, and only once. Who
  // wants what is open already does not wait.
  static std::mutex opening;
  const std::lock_guard<std::mutex> one(opening);
  if (const auto component = components().find(file))
    return *component;
  std::string looked;
  for (const std::string &folder : componentFolders()) {
    const fs::path path = fs::path(folder) / file;
    std::error_code failed; // to look at it: then it is no file
    if (fs::is_regular_file(path, failed)) {
      Expected<const mlb_component *> component = openFile(path, kind, name);
      if (!component)
        return component;
      return components().findOrAdd(file, *component);
    }
    looked.append(looked.empty() ? "" : ", ").append(folder);
  }
  return makeError(Code::NotFound, "no component ", file, " in ",
                   looked.empty() ? "any folder" : looked, " (", whatGivesIt(kind, name),
                   "; MLBRIDGE_COMPONENT_PATH adds folders)");
}

} // namespace mlbridge
