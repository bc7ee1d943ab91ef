/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: reinforcement learning inside the compiler. The pass is the environment, written
 * as two callbacks; the library asks its agents. */
#ifndef MLBRIDGE_C_ENVIRONMENT_H
#define MLBRIDGE_C_ENVIRONMENT_H

#include <mlbridge/c/model.h>
#include <mlbridge/c/server.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Used by one thread at a time. */
typedef struct mlbridge_environment mlbridge_environment;
/* An observation, as a callback sees it; valid during the call. */
typedef struct mlbridge_observation mlbridge_observation;
/* The decision of an agent; valid during the call. */
typedef struct mlbridge_action mlbridge_action;

/* The Runner that holds the inputs of the agent that acts next, which belongs to the library. A
 * wrong name or type ends the episode, whether its code is looked at or not. `for_agent` chooses
 * the agent, as mlbridge::Observation::forAgent does. */
mlbridge_runner *mlbridge_observation_runner(mlbridge_observation *observation);
mlbridge_runner *mlbridge_observation_for_agent(mlbridge_observation *observation, uint64_t agent);
mlbridge_runner *mlbridge_observation_for_agent_named(mlbridge_observation *observation,
                                                      const char *agent);

/* The agent that acted, and the Runner whose outputs (mlbridge_output) are the action. */
uint64_t mlbridge_action_agent(const mlbridge_action *action);
mlbridge_runner *mlbridge_action_runner(const mlbridge_action *action);
/* mlbridge::Action::choice of an output of int64. A failure's message is the environment's, and the
 * callback may return the code. */
mlbridge_code mlbridge_action_choice(const mlbridge_action *action, const char *name,
                                     uint64_t choices, int64_t *choice);

/* reset starts an episode (see mlbridge_environment_unit and _seed) and writes the first
 * observation; step applies the action, then writes the next observation or calls set_done.
 * Returning anything but MLBRIDGE_OK ends the episode. */
typedef mlbridge_code (*mlbridge_reset_function)(mlbridge_environment *environment,
                                                 mlbridge_observation *first, void *data);
typedef mlbridge_code (*mlbridge_step_function)(mlbridge_environment *environment,
                                                const mlbridge_action *action,
                                                mlbridge_observation *next, void *data);

/* A pass that decides step by step. */
typedef struct mlbridge_environment_definition {
  uint64_t size; /* sizeof(mlbridge_environment_definition) */
  /* The signature of a single agent, or else several named agents: the inputs are the observation,
   * the outputs the action. */
  const mlbridge_signature *signature;
  const mlbridge_agent_spec *agents; /* null with a signature */
  uint64_t agents_size;              /* number of them */
  mlbridge_reset_function reset;     /* begins an episode */
  mlbridge_step_function step;       /* applies an action */
  void *data;                        /* handed to each call; the caller's */
} mlbridge_environment_definition;

/* An error of the definition is its code. Everything but `data` is copied. */
mlbridge_environment *
mlbridge_environment_create(const mlbridge_environment_definition *definition);
void mlbridge_environment_destroy(mlbridge_environment *environment); /* once */
/* The result of the last run or serve, or of the definition. Lives until the next call. */
mlbridge_code mlbridge_environment_code(const mlbridge_environment *environment);
const char *mlbridge_environment_message(const mlbridge_environment *environment);

/* For the callbacks: what the episode is about, "" if not given; lives as long as the episode. */
const char *mlbridge_environment_unit(const mlbridge_environment *environment);
/* The random seed of the episode; 0 if not given. */
uint64_t mlbridge_environment_seed(const mlbridge_environment *environment);
/* Ends the episode with the current call of reset or step; call it once. Truncated: because of a
 * limit. */
void mlbridge_environment_set_done(mlbridge_environment *environment);
void mlbridge_environment_set_truncated(mlbridge_environment *environment);
bool mlbridge_environment_is_done(const mlbridge_environment *environment); /* has it ended? */
/* Sets the reward of this step, for the agent that acted or for any. An agent receives the sum
 * since it last acted. */
void mlbridge_environment_set_reward(mlbridge_environment *environment, double reward);
void mlbridge_environment_set_agent_reward(mlbridge_environment *environment, uint64_t agent,
                                           double reward);
/* `return mlbridge_environment_fail(environment, MLBRIDGE_POLICY_FAILED, "why");` */
mlbridge_code mlbridge_environment_fail(mlbridge_environment *environment, mlbridge_code code,
                                        const char *message);

/* A model for each agent; used by one thread at a time. */
typedef struct mlbridge_agents mlbridge_agents;

/* `uris` are those of mlbridge::Agents::open; `options` may be null. */
mlbridge_agents *mlbridge_agents_open(const mlbridge_environment *environment, const char *uris,
                                      const mlbridge_open_options *options);
void mlbridge_agents_close(mlbridge_agents *agents); /* their models, too */
/* For another thread: the same models. */
mlbridge_agents *mlbridge_agents_new(const mlbridge_agents *agents);
/* The first failure. The message lives until the next call. */
mlbridge_code mlbridge_agents_code(mlbridge_agents *agents);
const char *mlbridge_agents_message(mlbridge_agents *agents);
uint64_t mlbridge_agents_count(const mlbridge_agents *agents); /* of the environment */
/* Null past the last one; lives as long as the agents. */
const char *mlbridge_agents_name(const mlbridge_agents *agents, uint64_t agent);
/* True if the agent has a model. */
bool mlbridge_agents_has_model(const mlbridge_agents *agents, uint64_t agent);
/* mlbridge::Agents::set. */
mlbridge_code mlbridge_agents_set(mlbridge_agents *agents, const char *agent,
                                  const mlbridge_model *model);

/* Zero stands for the default of each field. */
typedef struct mlbridge_episode_options {
  uint64_t size;       /* sizeof(mlbridge_episode_options) */
  uint32_t max_steps;  /* ends the episode, successfully, after this many; no limit */
  bool check_values;   /* NaN, infinities and masks that allow nothing are errors */
  int64_t deadline;    /* nanoseconds for the whole episode; default: no limit */
  const char *episode; /* an id */
  const char *unit;    /* module, function */
  uint64_t seed;       /* for the environment */
} mlbridge_episode_options;

/* How an episode went. */
typedef struct mlbridge_episode_result {
  uint64_t size;        /* to be set to sizeof(mlbridge_episode_result) by the caller */
  uint64_t steps;       /* actions applied */
  double total_reward;  /* of all agents */
  bool reached_limit;   /* ended by max_steps */
  bool truncated;       /* by that or by set_truncated */
  int32_t failed_agent; /* whose turn it was when the episode failed; -1 if none */
} mlbridge_episode_result;

/* Runs one episode, as mlbridge::run. An error is returned and becomes the environment's code and
 * message; the pass then falls back. `options` and `result` may be null. */
mlbridge_code mlbridge_environment_run(mlbridge_environment *environment, mlbridge_agents *agents,
                                       const mlbridge_episode_options *options,
                                       mlbridge_episode_result *result);
/* With a Runner for each agent, which the caller keeps. */
mlbridge_code mlbridge_environment_run_with(mlbridge_environment *environment,
                                            mlbridge_runner *const *runners, uint64_t size,
                                            const mlbridge_episode_options *options,
                                            mlbridge_episode_result *result);
/* The rewards of an agent in the last episode that was run. */
double mlbridge_environment_total_reward(const mlbridge_environment *environment, uint64_t agent);

/* Zero stands for the default of each field. */
typedef struct mlbridge_serve_options {
  uint64_t size;      /* sizeof(mlbridge_serve_options) */
  uint32_t max_steps; /* of an episode; default: no limit */
  bool keep_serving;  /* waits for another driver when one has left, until mlbridge_server_stop */
  int64_t idle;       /* nanoseconds to wait for a driver; default: no limit */
} mlbridge_serve_options;

/* How serving an environment ended. */
typedef struct mlbridge_serve_result {
  uint64_t size;     /* to be set to sizeof(mlbridge_serve_result) by the caller */
  uint64_t episodes; /* begun */
  uint64_t steps;    /* actions applied */
} mlbridge_serve_result;

/* For training, as mlbridge::serve: waits for a driver that resets and steps the environment.
 * Agents that the server does not name are asked, by `others`. `others`, `options` and `result` may
 * be null. MLBRIDGE_OK: the driver has left; MLBRIDGE_DEADLINE_EXCEEDED: none came;
 * MLBRIDGE_CANCELLED: the server was stopped. */
mlbridge_code mlbridge_environment_serve(mlbridge_environment *environment, mlbridge_server *server,
                                         mlbridge_agents *others,
                                         const mlbridge_serve_options *options,
                                         mlbridge_serve_result *result);

#ifdef __cplusplus
}
#endif

#endif
