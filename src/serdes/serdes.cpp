// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds serdes by name.
#include "serdes/serdes.h"
#include "core/component.h"
#include "core/registry.h"
#include "serdes/component_serdes.h"

#include <algorithm>

namespace mlbridge {

TensorSink::~TensorSink() = default;
Codec::~Codec() = default;
SerDes::~SerDes() = default;

Status Codec::decodeAround(Span<const uint8_t> message, Span<const Gap> gaps,
                           TensorSink &sink) const {
  if (!gaps.empty())
    return Status(Code::Protocol, "this serdes has no tensors outside of its messages");
  return decode(message, sink);
}

Status checkViews(const std::string &serdes, Span<const TensorSpec> specs,
                  Span<const TensorView> tensors) {
  const auto wrong = [&](const std::string &why) {
    return Status(Code::InvalidArgument, serdes + ": " + why);
  };
  if (tensors.size() != specs.size())
    return wrong("expected " + std::to_string(specs.size()) + " tensors, got " +
                 std::to_string(tensors.size()));
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorView &view = tensors[i];
    const auto about = [&] { return "tensor '" + specs[i].name + "' "; };
    if (view.type != specs[i].type)
      return wrong(about() + "is " + name(specs[i].type) + ", got " + name(view.type));
    if (Status s = checkShape(specs[i], view.shape); !s)
      return wrong(s.message());
    if (elementCount(view.shape) != view.count)
      return wrong(about() + "of shape " + toString(view.shape) + " has " +
                   std::to_string(view.count) + " elements");
  }
  return Status();
}

size_t findNoBool(const uint8_t *bytes, size_t count) {
  uint8_t all = 0;
  for (size_t k = 0; k < count; ++k)
    all |= bytes[k];
  if (all <= 1)
    return count;
  return static_cast<size_t>(std::find_if(bytes, bytes + count, [](uint8_t b) { return b > 1; }) -
                             bytes);
}

/// Those of components: by name, and by the URI of their options.
static Registry<std::shared_ptr<const SerDes>> &opened() {
  static auto &all = *new Registry<std::shared_ptr<const SerDes>>;
  return all;
}

Expected<const SerDes *> serdesNamed(std::string_view name) {
  if (name == "bitstream")
    return &bitstreamSerDes();
  if (const auto known = opened().find(name))
    return known->get();
  Expected<const mlb_component *> component = findComponent(ComponentKind::SerDes, name);
  if (!component) {
    // What belongs to MLBridge says itself what it needs.
    if (component.status().code() != Code::NotFound || name == "json" || name == "protobuf")
      return component.status();
    std::vector<std::string> known = componentNames(ComponentKind::SerDes);
    known.insert(known.end(), {"bitstream", "json", "protobuf"});
    return Status(Code::NotFound, "no serializer '" + std::string(name) + "'" +
                                      didYouMean(name, viewsOf(known)) + " (" +
                                      component.status().message() + ")");
  }
  auto made = newComponentSerDes(std::string(name), (*component)->serdes);
  if (!made)
    return made.status();
  return opened().findOrAdd(name, std::move(*made)).get();
}

constexpr std::string_view MessageOptions[] = {"proto", "request", "reply"};

bool isSerDesOption(std::string_view key) {
  return key == "serdes" || std::find(std::begin(MessageOptions), std::end(MessageOptions), key) !=
                                std::end(MessageOptions);
}

Expected<ChosenSerDes> serdesOf(const Uri &uri) {
  ChosenSerDes chosen;
  chosen.name = uri.option("serdes", "bitstream");
  Expected<const SerDes *> plain = serdesNamed(chosen.name);
  if (!plain)
    return plain.status();
  chosen.serdes = *plain;
  Uri options;
  std::string_view missing;
  for (const std::string_view key : MessageOptions) {
    const std::string value = uri.option(key);
    if (value.empty())
      missing = key;
    else
      options.options[std::string(key)] = value;
  }
  if (options.options.empty())
    return chosen;
  std::unique_ptr<SerDes> made = chosen.serdes->withOptions(options);
  if (!made)
    return Status(Code::InvalidArgument, "serdes '" + chosen.name + "' takes no option '" +
                                             options.options.begin()->first + "'");
  if (!missing.empty())
    return Status(Code::InvalidArgument,
                  "messages of one's own take the options 'proto', 'request' and 'reply'; '" +
                      std::string(missing) + "' is missing");
  chosen.hasMessages = true;
  options.scheme = chosen.name;
  chosen.serdes = opened().findOrAdd(options.toString(), std::move(made)).get();
  chosen.name += ":" + uri.option("request") + "/" + uri.option("reply");
  return chosen;
}

} // namespace mlbridge
