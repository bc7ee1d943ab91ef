// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening a model for each agent.
#include <mlbridge/agent.h>
#include <mlbridge/uri.h>

#include "core/message.h"
#include "core/nearest.h"
#include "rl/player.h"

#include <algorithm>

namespace mlbridge {

struct Agents::State {
  Status failure; ///< of the whole
  std::vector<AgentSpec> specs;
  std::vector<std::optional<Model>> models;
  std::vector<Runner> runners;

  Status checkKnown(std::string_view agent) const {
    if (findAgent(specs, agent) >= 0)
      return Status();
    const std::vector<std::string_view> names = mlbridge::namesOf(specs);
    return Status(Code::InvalidArgument, "there is no agent '" + std::string(agent) + "'" +
                                             suggestion(agent, names, "agents"));
  }
  std::string nameOf(size_t agent) const {
    return specs[agent].name.empty() ? "the agent" : "agent '" + specs[agent].name + "'";
  }
};

namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  const size_t end = text.find_last_not_of(" \t\n");
  return begin == text.npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

std::string withName(std::string_view uri, std::string_view agent) {
  constexpr std::string_view Place = "{agent}";
  std::string text(uri);
  for (size_t at = text.find(Place); at != text.npos; at = text.find(Place, at + agent.size()))
    text.replace(at, Place.size(), agent);
  return text;
}

/// A model's address for each agent.
struct Addresses {
  std::map<std::string, std::string, std::less<>> named;
  std::string others;

  Status read(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find(';'), text.size());
      const std::string_view part = trimmed(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (part.empty())
        continue;
      const size_t equals = part.find('='), colon = part.find(':');
      const bool isNamed = equals < colon;
      const std::string name(isNamed ? trimmed(part.substr(0, equals)) : "*");
      const std::string uri(isNamed ? trimmed(part.substr(equals + 1)) : part);
      std::string &place = name == "*" ? others : named[name];
      if (!place.empty()) {
        std::string why = "agents: '";
        why.append(name).append("' is named twice, '").append(place).append("' and '").append(uri);
        return Status(Code::InvalidArgument, why.append("'"));
      }
      place = uri;
    }
    return Status();
  }
  std::string of(const std::string &agent) const {
    const auto it = named.find(agent);
    return withName(it == named.end() ? others : it->second, agent);
  }
};

} // namespace

Agents::Agents() : state_(std::make_unique<State>()) {
  state_->failure = Status(Code::InvalidArgument, "there are no agents");
}
Agents::~Agents() = default;
Agents::Agents(Agents &&) noexcept = default;
Agents &Agents::operator=(Agents &&) noexcept = default;

Agents Agents::open(Span<const AgentSpec> specs, std::string_view uris,
                    const OpenOptions &options) {
  return open(specs, uris, options, SignatureFor());
}

Agents Agents::open(Span<const AgentSpec> specs, std::string_view uris, const OpenOptions &options,
                    const SignatureFor &signatureFor) {
  Agents agents;
  State &s = *agents.state_;
  s.failure = specs.empty() ? Status(Code::InvalidArgument, "the environment states no agents")
                            : checkAgents(specs);
  Addresses addresses;
  if (s.failure)
    s.failure = addresses.read(uris);
  if (!s.failure)
    return agents;
  s.specs.assign(specs.begin(), specs.end());
  s.models.resize(specs.size());
  s.runners.resize(specs.size());
  for (const auto &[name, uri] : addresses.named)
    if (s.failure = s.checkKnown(name); !s.failure)
      return agents;
  std::map<std::string, Model> opened;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string uri = addresses.of(specs[i].name);
    if (uri.empty())
      continue;
    auto known = opened.find(uri);
    if (known == opened.end())
      known = opened.emplace(uri, Model::open(uri, options)).first;
    // The URI may name the agent of the server.
    const Expected<Uri> parsed = Uri::parse(uri);
    const bool isStated =
        !options.context.agent.empty() || (parsed && parsed->options.count("agent"));
    s.models[i] = known->second.boundTo(specs[i].signature, isStated ? "" : specs[i].name);
    if (signatureFor) {
      Expected<Signature> wanted = signatureFor(i, *s.models[i]);
      if (!wanted) {
        s.failure = wanted.status().withContext(s.nameOf(i));
        return agents;
      }
      s.specs[i].signature = std::move(*wanted);
      s.models[i] = s.models[i]->boundTo(s.specs[i].signature);
    }
    s.runners[i] = s.models[i]->newRunner();
  }
  return agents;
}

Agents Agents::open(const Environment &environment, std::string_view uris,
                    const OpenOptions &options) {
  const Span<const AgentSpec> several = environment.agents();
  if (!several.empty())
    return open(several, uris, options);
  const AgentSpec only{"", environment.signature()};
  return open(Span<const AgentSpec>(&only, 1), uris, options);
}

Status Agents::set(std::string_view agent, const Model &model) {
  if (!state_)
    return Status(Code::InvalidArgument, "there are no agents");
  State &s = *state_;
  if (Status known = s.checkKnown(agent); !known)
    return known;
  const auto i = static_cast<size_t>(findAgent(s.specs, agent));
  s.models[i] = model.boundTo(s.specs[i].signature, agent);
  s.runners[i] = s.models[i]->newRunner();
  return s.runners[i].status() ? Status() : s.runners[i].status().withContext(s.nameOf(i));
}

Span<const AgentSpec> Agents::specs() const {
  return state_ ? Span<const AgentSpec>(state_->specs) : Span<const AgentSpec>();
}

Status Agents::status() const {
  if (!state_)
    return Status(Code::InvalidArgument, "there are no agents");
  const State &s = *state_;
  if (!s.failure)
    return s.failure;
  for (size_t i = 0; i < s.specs.size(); ++i) {
    if (!s.models[i])
      return Status(Code::NotFound, "no model was given for " + s.nameOf(i));
    if (!s.models[i]->status())
      return s.models[i]->status().withContext(s.nameOf(i));
    if (!s.runners[i].status() && !s.runners[i].signature())
      return s.runners[i].status().withContext(s.nameOf(i));
  }
  return Status();
}

bool Agents::hasModel(size_t agent) const {
  return state_ && agent < state_->models.size() && state_->models[agent];
}

Runner &Agents::runner(size_t agent) { return state_->runners[agent]; }

Agents Agents::newAgents() const {
  Agents other;
  if (!state_)
    return other;
  State &to = *other.state_;
  to.failure = state_->failure;
  to.specs = state_->specs;
  to.models = state_->models;
  to.runners.resize(to.models.size());
  for (size_t i = 0; i < to.models.size(); ++i)
    if (to.models[i])
      to.runners[i] = to.models[i]->newRunner();
  return other;
}

std::vector<Runner *> EpisodePlayer::runnersOf(Agents &agents) {
  std::vector<Runner *> runners;
  if (!agents.state_ || !agents.state_->failure)
    return runners;
  for (size_t i = 0; i < agents.state_->runners.size(); ++i)
    runners.push_back(agents.state_->models[i] ? &agents.state_->runners[i] : nullptr);
  return runners;
}

} // namespace mlbridge
