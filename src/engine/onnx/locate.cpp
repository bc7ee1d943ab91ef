// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for ONNX Runtime reads folders only: no program is run, so that a compiler that opens
// a model starts nothing.
#include "locate.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <string_view>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace mlbridge::onnx {
namespace {

/// From the component's folder up to the root of a build tree or of site-packages.
constexpr int AncestorLevels = 6;

std::string environment(const char *name) {
  const char *value = ::secure_getenv(name);
  return value ? value : "";
}

// A file that can't be looked at is not there.

bool isFile(const std::string &path) {
  std::error_code failed;
  return fs::is_regular_file(path, failed);
}

/// A folder that anyone may write to is no place to load code from unasked. In a program with more
/// rights than its user (setuid) neither is one of that user's: a link to the program may be there.
bool isTrustedFolder(const std::string &path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_mode & S_IWOTH)
    return false;
  return !::getauxval(AT_SECURE) || info.st_uid == 0 || info.st_uid == ::geteuid();
}

/// Names in a folder that start with `prefix`, the newest version first.
std::vector<std::string> entries(const std::string &folder, std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; at != end; at.increment(failed))
    if (std::string name = at->path().filename(); name.compare(0, prefix.size(), prefix) == 0)
      names.push_back(std::move(name));
  std::sort(names.begin(), names.end(), [](const std::string &a, const std::string &b) {
    return ::strverscmp(a.c_str(), b.c_str()) > 0;
  });
  return names;
}

std::string join(std::string path, std::string_view name) { return path.append("/").append(name); }

std::string libraryIn(const std::string &folder) {
  for (const std::string &name : entries(folder, "libonnxruntime.so"))
    if (std::string path = join(folder, name); isFile(path))
      return path;
  return {};
}

std::string wheelIn(const std::string &sitePackages) {
  return libraryIn(join(sitePackages, "onnxruntime/capi"));
}

/// A virtual environment or another Python prefix.
std::string wheelBelow(const std::string &prefix) {
  const std::string lib = join(prefix, "lib");
  for (const std::string &python : entries(lib, "python3"))
    for (const char *packages : {"site-packages", "dist-packages"})
      if (std::string library = wheelIn(join(join(lib, python), packages)); !library.empty())
        return library;
  return {};
}

/// The folder of the library that has what is at an address; empty if that isn't known.
std::string folderOf(const void *address) {
  Dl_info info;
  if (!::dladdr(address, &info) || !info.dli_fname)
    return {};
  std::error_code failed;
  const fs::path real = fs::canonical(info.dli_fname, failed);
  return (failed ? fs::path(info.dli_fname) : real).parent_path();
}

std::string folderOfThisComponent() {
  static const char anchor = 0;
  return folderOf(&anchor);
}

/// The system's libraries lie where the C library does.
std::string systemFolder() { return folderOf(reinterpret_cast<const void *>(&::getauxval)); }

} // namespace

std::string libraryAt(const std::string &path) {
  if (isFile(path))
    return path;
  if (std::string library = libraryIn(path); !library.empty())
    return library;
  for (const char *below : {"lib", "capi", "onnxruntime/capi"})
    if (std::string library = libraryIn(join(path, below)); !library.empty())
      return library;
  return wheelBelow(path);
}

bool searchLibraries(const std::function<bool(const std::string &)> &tryOne,
                     std::vector<std::string> &looked) {
  const auto offer = [&](const std::string &library, const std::string &place) {
    if (!library.empty() && tryOne(library))
      return true;
    if (library.empty())
      looked.push_back(place);
    return false;
  };

  if (const std::string root = environment("ONNXRUNTIME_ROOT"); !root.empty())
    if (offer(libraryAt(root), root + " (ONNXRUNTIME_ROOT)"))
      return true;

  const std::string own = folderOfThisComponent();
  std::string folder = own;
  for (int level = 0; level < AncestorLevels && folder.size() > 1; ++level) {
    if (isTrustedFolder(folder)) {
      if (std::string library = wheelIn(folder); !library.empty() && tryOne(library))
        return true;
      for (const char *venv : {"venv", ".venv"})
        if (std::string library = wheelBelow(join(folder, venv));
            !library.empty() && tryOne(library))
          return true;
    }
    folder.resize(folder.rfind('/'));
  }
  looked.push_back("beside and above " + own);

  for (const char *name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = environment(name);
    if (prefix.empty())
      looked.push_back(std::string(name) + " (not set)");
    else if (offer(libraryAt(prefix), prefix + " (" + name + ")"))
      return true;
  }
  if (const std::string home = environment("HOME"); !home.empty())
    if (offer(wheelBelow(join(home, ".local")), join(home, ".local")))
      return true;
  for (const char *prefix : {"/usr/local", "/usr"})
    if (offer(wheelBelow(prefix), std::string(prefix) + "/lib/python3*"))
      return true;
  // Names without a slash are looked up by the dynamic linker.
  for (const char *system : {"libonnxruntime.so.1", "libonnxruntime.so"})
    if (tryOne(system))
      return true;
  // Debian's has another name for each version.
  if (const std::string library = libraryIn(systemFolder()); !library.empty() && tryOne(library))
    return true;
  looked.emplace_back("the system's libonnxruntime.so.1");
  return false;
}

} // namespace mlbridge::onnx
