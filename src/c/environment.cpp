// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Environments with callbacks, their agents, and episodes.
#include "c/handles.h"

#include <cstddef>

using namespace mlbridge;
using namespace mlbridge::c;

struct mlbridge_observation {
  mlbridge_environment &environment;
  Observation &observation;
};

struct mlbridge_action {
  mlbridge_environment &environment;
  const Action &action;
};

/// The pass, whose callbacks are given handles for what they see.
struct mlbridge_environment final : Environment {
  std::vector<AgentSpec> specs;
  Signature only;
  mlbridge_environment_definition definition{};
  Status wrong;         ///< of the definition, or of the call
  std::string message;  ///< of fail
  EpisodeResult played; ///< last

  const Signature &signature() const override { return only; }
  Span<const AgentSpec> agents() const override { return specs; }
  Status reset(Observation &first) override {
    mlbridge_observation shown{*this, first};
    message.clear();
    return outcomeOf(definition.reset(this, &shown, definition.data));
  }
  Status step(const Action &action, Observation &next) override {
    const mlbridge_action done{*this, action};
    mlbridge_observation shown{*this, next};
    if (!message.empty())
      message.clear();
    return outcomeOf(definition.step(this, &done, &shown, definition.data));
  }
  using Environment::setDone;
  using Environment::setReward;
  using Environment::setTruncated;

  /// The same for each Runner as long as the episode lasts.
  mlbridge_runner *handleOf(Runner &runner) {
    for (const std::unique_ptr<mlbridge_runner> &handle : handles_)
      if (&handle->runner == &runner)
        return handle.get();
    handles_.push_back(std::make_unique<mlbridge_runner>(runner));
    return handles_.back().get();
  }
  void forgetHandles() { handles_.clear(); }
  mlbridge_code ended(Status status) {
    forgetHandles();
    wrong = std::move(status);
    return codeOf(wrong);
  }

private:
  /// A callback may hand on the code of a Runner, whose message is then the reason.
  Status outcomeOf(mlbridge_code code) const {
    if (code == MLBRIDGE_OK)
      return Status();
    if (message.empty())
      for (const std::unique_ptr<mlbridge_runner> &handle : handles_)
        if (mlbridge_runner_code(handle.get()) == code)
          return statusOf(code, mlbridge_runner_message(handle.get()));
    return statusOf(code, message.c_str());
  }
  std::vector<std::unique_ptr<mlbridge_runner>> handles_;
};

Status mlbridge::c::readAgents(const mlbridge_agent_spec *agents, uint64_t size,
                               std::vector<AgentSpec> &to) {
  Status s = readArray(agents, size, "agent", "mlbridge_agent_spec", sizeof(mlbridge_agent_spec),
                       [&](const mlbridge_agent_spec &spec) {
                         if (!spec.signature)
                           return Status(Code::InvalidArgument, "no signature");
                         Expected<Signature> signature = signatureOf(*spec.signature);
                         if (signature)
                           to.push_back({textOf(spec.name), std::move(*signature)});
                         return signature.status();
                       });
  return s ? checkAgents(to) : s;
}

static Status readDefinition(const mlbridge_environment_definition *definition,
                             mlbridge_environment &to) {
  if (Status s = readKnown(definition, to.definition, "the definition's",
                           "mlbridge_environment_definition");
      !s)
    return s;
  const mlbridge_environment_definition &stated = to.definition;
  if (!stated.reset || !stated.step)
    return Status(Code::InvalidArgument, "an environment needs both callbacks, reset and step");
  if ((stated.signature != nullptr) == (stated.agents_size != 0))
    return Status(Code::InvalidArgument, "an environment needs either a signature or agents");
  if (!stated.signature)
    return readAgents(stated.agents, stated.agents_size, to.specs);
  Expected<Signature> signature = signatureOf(*stated.signature);
  if (signature)
    to.only = std::move(*signature);
  return signature.status();
}

static Status readOptions(const mlbridge_episode_options *stated, EpisodeOptions &to) {
  mlbridge_episode_options read;
  if (Status s = readOptional(stated, read, "mlbridge_episode_options"); !s)
    return s;
  to.maxSteps = read.max_steps;
  to.checkValues = read.check_values;
  if (read.deadline)
    to.deadline = Duration(read.deadline);
  to.episode = textOf(read.episode);
  to.unit = textOf(read.unit);
  to.seed = read.seed;
  return Status();
}

/// Plays with what `start` calls; a bad call before it is an outcome, too.
template <typename Start>
static mlbridge_code play(mlbridge_environment *environment, const mlbridge_episode_options *stated,
                          mlbridge_episode_result *result, const Start &start) {
  if (!environment)
    return MLBRIDGE_INVALID_ARGUMENT;
  EpisodeOptions options;
  environment->played = EpisodeResult();
  environment->played.status = readOptions(stated, options);
  if (environment->played.status && !environment->definition.reset)
    environment->played.status = environment->wrong;
  if (environment->played.status)
    environment->played = start(options);
  const EpisodeResult &played = environment->played;
  giveResult(result,
             mlbridge_episode_result{sizeof(mlbridge_episode_result), played.steps,
                                     played.totalReward, played.reachedLimit, played.truncated,
                                     static_cast<int32_t>(played.failedAgent)});
  return environment->ended(played.status);
}

extern "C" {

mlbridge_environment *
mlbridge_environment_create(const mlbridge_environment_definition *definition) {
  auto *environment = new mlbridge_environment;
  environment->wrong = readDefinition(definition, *environment);
  if (!environment->wrong)
    environment->definition.reset = nullptr;
  return environment;
}

void mlbridge_environment_destroy(mlbridge_environment *environment) { delete environment; }

mlbridge_code mlbridge_environment_code(const mlbridge_environment *environment) {
  return environment ? codeOf(environment->wrong) : MLBRIDGE_INVALID_ARGUMENT;
}
const char *mlbridge_environment_message(const mlbridge_environment *environment) {
  return environment ? environment->wrong.message().c_str() : "no environment was given";
}

mlbridge_runner *mlbridge_observation_runner(mlbridge_observation *observation) {
  return observation ? observation->environment.handleOf(observation->observation.runner())
                     : nullptr;
}
mlbridge_runner *mlbridge_observation_for_agent(mlbridge_observation *observation, uint64_t agent) {
  if (observation)
    observation->observation.forAgent(agent);
  return mlbridge_observation_runner(observation);
}
mlbridge_runner *mlbridge_observation_for_agent_named(mlbridge_observation *observation,
                                                      const char *agent) {
  if (observation)
    observation->observation.forAgent(std::string_view(agent ? agent : ""));
  return mlbridge_observation_runner(observation);
}

uint64_t mlbridge_action_agent(const mlbridge_action *action) {
  return action ? action->action.agent() : 0;
}
mlbridge_runner *mlbridge_action_runner(const mlbridge_action *action) {
  return action ? action->environment.handleOf(action->action.runner()) : nullptr;
}
mlbridge_code mlbridge_action_choice(const mlbridge_action *action, const char *name,
                                     uint64_t choices, int64_t *choice) {
  if (!action || !choice || !name)
    return MLBRIDGE_INVALID_ARGUMENT;
  const Expected<int64_t> chosen = action->action.choice(name, choices);
  if (chosen)
    *choice = *chosen;
  else
    action->environment.message = chosen.status().message();
  return codeOf(chosen.status());
}

const char *mlbridge_environment_unit(const mlbridge_environment *environment) {
  return environment ? environment->unit().c_str() : "";
}
uint64_t mlbridge_environment_seed(const mlbridge_environment *environment) {
  return environment ? environment->seed() : 0;
}
void mlbridge_environment_set_done(mlbridge_environment *environment) {
  if (environment)
    environment->setDone();
}
void mlbridge_environment_set_truncated(mlbridge_environment *environment) {
  if (environment)
    environment->setTruncated();
}
bool mlbridge_environment_is_done(const mlbridge_environment *environment) {
  return environment && environment->isDone();
}
void mlbridge_environment_set_reward(mlbridge_environment *environment, double reward) {
  if (environment)
    environment->setReward(reward);
}
void mlbridge_environment_set_agent_reward(mlbridge_environment *environment, uint64_t agent,
                                           double reward) {
  if (environment)
    environment->setReward(agent, reward);
}
mlbridge_code mlbridge_environment_fail(mlbridge_environment *environment, mlbridge_code code,
                                        const char *message) {
  if (environment)
    environment->message = textOf(message);
  return code;
}

mlbridge_agents *mlbridge_agents_open(const mlbridge_environment *environment, const char *uris,
                                      const mlbridge_open_options *options) {
  auto *agents = new mlbridge_agents;
  const OpenOptions read = optionsOf(options, agents->wrong);
  if (!environment)
    agents->wrong = Status(Code::InvalidArgument, "no environment was given");
  else if (!environment->definition.reset)
    agents->wrong = environment->wrong;
  if (agents->wrong)
    agents->agents = Agents::open(*environment, textOf(uris), read);
  return agents;
}
void mlbridge_agents_close(mlbridge_agents *agents) { delete agents; }

mlbridge_agents *mlbridge_agents_new(const mlbridge_agents *agents) {
  auto *other = new mlbridge_agents;
  if (agents) {
    other->agents = agents->agents.newAgents();
    other->wrong = agents->wrong;
  }
  return other;
}

mlbridge_code mlbridge_agents_code(mlbridge_agents *agents) {
  if (!agents)
    return MLBRIDGE_INVALID_ARGUMENT;
  agents->current = agents->wrong ? agents->agents.status() : agents->wrong;
  return codeOf(agents->current);
}
const char *mlbridge_agents_message(mlbridge_agents *agents) {
  (void)mlbridge_agents_code(agents);
  return agents ? agents->current.message().c_str() : "no agents were given";
}
uint64_t mlbridge_agents_count(const mlbridge_agents *agents) {
  return agents ? agents->agents.specs().size() : 0;
}
const char *mlbridge_agents_name(const mlbridge_agents *agents, uint64_t agent) {
  return agent < mlbridge_agents_count(agents) ? agents->agents.specs()[agent].name.c_str()
                                               : nullptr;
}
bool mlbridge_agents_has_model(const mlbridge_agents *agents, uint64_t agent) {
  return agents && agents->agents.hasModel(agent);
}
mlbridge_code mlbridge_agents_set(mlbridge_agents *agents, const char *agent,
                                  const mlbridge_model *model) {
  if (!agents || !agent || !model)
    return MLBRIDGE_INVALID_ARGUMENT;
  return codeOf(agents->agents.set(agent, model->model));
}

mlbridge_code mlbridge_environment_run(mlbridge_environment *environment, mlbridge_agents *agents,
                                       const mlbridge_episode_options *options,
                                       mlbridge_episode_result *result) {
  return play(environment, options, result, [&](const EpisodeOptions &read) {
    if (agents && agents->wrong)
      return run(*environment, agents->agents, read);
    EpisodeResult failed;
    failed.status = agents ? agents->wrong : Status(Code::InvalidArgument, "no agents were given");
    return failed;
  });
}

mlbridge_code mlbridge_environment_run_with(mlbridge_environment *environment,
                                            mlbridge_runner *const *runners, uint64_t size,
                                            const mlbridge_episode_options *options,
                                            mlbridge_episode_result *result) {
  return play(environment, options, result, [&](const EpisodeOptions &read) {
    std::vector<Runner *> all;
    for (uint64_t i = 0; runners && i < size; ++i)
      all.push_back(runners[i] ? &runners[i]->runner : nullptr);
    return run(*environment, Span<Runner *const>(all), read);
  });
}

double mlbridge_environment_total_reward(const mlbridge_environment *environment, uint64_t agent) {
  return environment && agent < environment->played.agentRewards.size()
             ? environment->played.agentRewards[agent]
             : 0;
}

mlbridge_code mlbridge_environment_serve(mlbridge_environment *environment, mlbridge_server *server,
                                         mlbridge_agents *others,
                                         const mlbridge_serve_options *stated,
                                         mlbridge_serve_result *result) {
  if (!environment)
    return MLBRIDGE_INVALID_ARGUMENT;
  mlbridge_serve_options read;
  if (Status s = readOptional(stated, read, "mlbridge_serve_options"); !s)
    return environment->ended(std::move(s));
  if (!environment->definition.reset)
    return codeOf(environment->wrong);
  if (!server || !server->server)
    return environment->ended(server ? server->last
                                     : Status(Code::InvalidArgument, "no server was given"));
  ServeOptions options;
  options.maxSteps = read.max_steps;
  options.keepServing = read.keep_serving;
  if (read.idle)
    options.idle = Duration(read.idle);
  ServeResult served = others ? serve(*environment, *server->server, others->agents, options)
                              : serve(*environment, *server->server, options);
  giveResult(result,
             mlbridge_serve_result{sizeof(mlbridge_serve_result), served.episodes, served.steps});
  return environment->ended(std::move(served.status));
}

} // extern "C"
