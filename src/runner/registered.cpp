// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions and schemes of the program's own. A program that registers none doesn't link this.
#include "runner/registry.h"

#include "core/message.h"
#include "core/registry.h"
#include "engine/backends.h"

namespace mlbridge {

namespace {

using Factory = std::function<Expected<FunctionModel>(const Uri &)>;
using Factories = Registry<Factory>;

Factories &functions() {
  static auto &all = *new Factories;
  return all;
}
Factories &schemes() {
  static auto &all = *new Factories;
  return all;
}

Status add(Factories &factories, const char *what, std::string name, Factory factory) {
  const std::string whose = std::string(what) + " '" + name + "'";
  if (!factory)
    return makeError(Code::InvalidArgument, whose, " has no factory");
  if (!factories.add(std::move(name), std::move(factory)))
    return makeError(Code::InvalidArgument, whose, " is registered already");
  return Status();
}

} // namespace

OpenedBackend openRegistered(const Uri &uri) {
  const bool isFunction = uri.scheme == "function";
  const std::optional<Factory> factory =
      isFunction ? functions().find(uri.place) : schemes().find(uri.scheme);
  if (!factory && isFunction)
    return makeError(Code::NotFound, "no function is registered as '", uri.place, "'",
                     functions().suggestion(uri.place));
  if (!factory)
    return std::shared_ptr<ModelBackend>();
  Expected<FunctionModel> model = caught("opening it", [&] { return (*factory)(uri); });
  return model ? functionBackend(std::move(*model)) : model.status();
}

std::vector<std::string> registeredSchemes() { return schemes().names(); }

Status registerFunction(std::string name, Factory factory) {
  if (name.empty())
    return makeError(Code::InvalidArgument, "a function was registered without a name");
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
  if (Status s = checkNotReserved(scheme); !s)
    return s;
  Expected<Uri> probe = Uri::parse(scheme + ":");
  if (!probe || probe->scheme != scheme)
    return makeError(Code::InvalidArgument, "'", scheme,
                     "' cannot be a scheme: it must begin with a lower-case letter and have only "
                     "lower-case letters, digits, '+', '-' and '.'");
  return add(schemes(), "scheme", std::move(scheme), std::move(factory));
}

} // namespace mlbridge
