// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport of a scheme: one of those that are built in, or a component's.
#include "transport/builtin.h"

#include "core/component.h"
#include "core/message.h"
#include "core/nearest.h"
#include "transport/component_transport.h"

namespace mlbridge {

namespace {

const std::pair<std::string_view, const Transport &(*)()> BuiltIn[] = {
    {"pipe", pipeTransport}, {"shm", shmTransport}, {"unix", unixTransport}};

} // namespace

Expected<const Transport *> transportFor(std::string_view scheme) {
  for (const auto &[name, transport] : BuiltIn)
    if (name == scheme)
      return transport ? Expected(&transport()) : notLinked("scheme", scheme, scheme);
  if (!findComponent)
    return notLinked("transport", scheme, "components");
  Expected<const Transport *> found = componentTransport(scheme);
  if (found || found.status().code() != Code::NotFound)
    return found;
  std::vector<std::string> known = componentNames(ComponentKind::Transport);
  for (const auto &[name, transport] : BuiltIn)
    if (transport)
      known.emplace_back(name);
  return makeError(Code::NotFound, "no transport '", scheme, "'",
                   didYouMean(scheme, viewsOf(known)), " (", found.status().message(), ")");
}

} // namespace mlbridge
