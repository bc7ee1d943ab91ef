// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SerDes/baseSerDes.h"
#include "SerDes/bitstreamSerDes.h"
#include "SerDes/jsonSerDes.h"

#include <mutex>

namespace MLBridge {

using mlbridge::Code;
using mlbridge::Status;

BaseSerDes::~BaseSerDes() = default;

void BaseSerDes::fail(Code code, std::string message) {
  if (Failure.ok())
    Failure = Status(code, std::move(message));
}

Status BaseSerDes::takeStatus() { return std::exchange(Failure, Status()); }

void BaseSerDes::notSupported(const std::string &name, const char *type) {
  fail(Code::Unsupported, "this SerDes has no features of the type " + std::string(type) +
                              ", which '" + name + "' has");
}

#define SET_FEATURE(TYPE, NAME)                                                                    \
  void BaseSerDes::setFeature(const std::string &name, const TYPE) { notSupported(name, #NAME); }  \
  void BaseSerDes::setFeature(const std::string &name, const std::vector<TYPE> &) {                \
    notSupported(name, "vector of " #NAME);                                                        \
  }
// The signatures are the published ones.
SUPPORTED_TYPES(SET_FEATURE) // NOLINT(performance-unnecessary-value-param)
#undef SET_FEATURE

void BaseSerDes::setFeature(const std::string &name, const google::protobuf::Message *) {
  notSupported(name, "message");
}
void BaseSerDes::setFeature(const std::string &name,
                            const std::vector<google::protobuf::Message *> &) {
  notSupported(name, "vector of messages");
}

namespace {

using Maker = std::function<std::unique_ptr<BaseSerDes>()>;

struct Registry {
  std::mutex mutex;
  std::map<SerDesKind, Maker> makers{
      {SerDesKind::Json, [] { return std::make_unique<JsonSerDes>(); }},
      {SerDesKind::Bitstream, [] { return std::make_unique<BitstreamSerDes>(); }},
  };
  // Never destroyed: runners may be made while a program ends.
  static Registry &get() {
    static auto *registry = new Registry;
    return *registry;
  }
};

} // namespace

void registerSerDes(SerDesKind kind, Maker make) {
  Registry &registry = Registry::get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.makers[kind] = std::move(make);
}

std::unique_ptr<BaseSerDes> makeSerDes(SerDesKind kind) {
  Maker make;
  {
    Registry &registry = Registry::get();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    const auto found = registry.makers.find(kind);
    if (found == registry.makers.end())
      return nullptr;
    make = found->second;
  }
  return make ? make() : nullptr;
}

} // namespace MLBridge
