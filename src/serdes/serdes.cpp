// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds serdes by name.
#include "serdes/serdes.h"
#include "core/component.h"
#include "core/nearest.h"
#include "serdes/bitstream/bitstream.h"
#include "serdes/component_serdes.h"

#include <algorithm>
#include <map>
#include <mutex>

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

Expected<const SerDes *> serdesNamed(std::string_view name) {
  if (name == "bitstream")
    return &bitstreamSerDes();

  struct Opened {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<SerDes>, std::less<>> byName;
  };
  static Opened &opened = *new Opened; // lives for ever: threads may decode while the process ends
  {
    const std::lock_guard<std::mutex> lock(opened.mutex);
    if (auto it = opened.byName.find(name); it != opened.byName.end())
      return it->second.get();
  }
  Expected<const mlb_component *> component = findComponent(ComponentKind::SerDes, name);
  if (!component) {
    const std::vector<std::string> found = componentNames(ComponentKind::SerDes);
    std::vector<std::string_view> known(found.begin(), found.end());
    known.push_back("bitstream");
    known.push_back("json"); // these say themselves what they need
    known.push_back("protobuf");
    if (component.status().code() != Code::NotFound || name == "json" || name == "protobuf")
      return component.status();
    return Status(Code::NotFound, "no serializer '" + std::string(name) + "'" +
                                      didYouMean(name, known) + " (" +
                                      component.status().message() + ")");
  }
  auto made = newComponentSerDes(std::string(name), (*component)->serdes);
  if (!made)
    return made.status();
  const std::lock_guard<std::mutex> lock(opened.mutex);
  return opened.byName.emplace(name, std::move(*made)).first->second.get();
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
  static std::mutex mutex;
  static auto &known = *new std::map<std::string, std::unique_ptr<SerDes>>;
  const std::lock_guard<std::mutex> lock(mutex);
  options.scheme = chosen.name;
  std::unique_ptr<SerDes> &kept = known[options.toString()];
  if (!kept)
    kept = std::move(made);
  chosen.serdes = kept.get();
  chosen.name += ":" + uri.option("request") + "/" + uri.option("reply");
  return chosen;
}

} // namespace mlbridge
