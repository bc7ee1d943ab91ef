/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C interface: reinforcement learning inside the compiler. The pass is the environment, written
 * as two callbacks; the library asks its agents.
 */
#ifndef MLBRIDGE_C_ENVIRONMENT_H
#define MLBRIDGE_C_ENVIRONMENT_H

#include <mlbridge/c/model.h>
#include <mlbridge/c/server.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Used by one thread at a time. */
typedef struct mlbridge_environment mlbridge_environment;
/* What a callback sees; valid during the call. */
typedef struct mlbridge_observation mlbridge_observation;
/* What an agent decided; the same. */
typedef struct mlbridge_action mlbridge_action;

/* The Runner that holds the inputs of the agent that acts next: mlbridge_set, mlbridge_input and
 * mlbridge_runner_resize write them. It belongs to the library. A wrong name or type ends the
 * episode, whether its code is looked at or not. `for_agent` says who that is: without it the agent
 * that has acted acts again, after reset the first one. An agent that does not exist ends the
 * episode. */
mlbridge_runner *mlbridge_observation_runner(mlbridge_observation *observation);
mlbridge_runner *mlbridge_observation_for_agent(mlbridge_observation *observation, uint64_t agent);
mlbridge_runner *mlbridge_observation_for_agent_named(mlbridge_observation *observation,
                                                      const char *agent);

/* Who acted, and the Runner whose outputs (mlbridge_output) are the action. */
uint64_t mlbridge_action_agent(const mlbridge_action *action);
mlbridge_runner *mlbridge_action_runner(const mlbridge_action *action);
/* The first element of an output of int64 as one of 0 ... choices - 1. Errors:
 * MLBRIDGE_INVALID_ARGUMENT (name, type), MLBRIDGE_POLICY_FAILED (empty, another number); then the
 * message is the environment's, and the callback may return the code. */
mlbridge_code mlbridge_action_choice(const mlbridge_action *action, const char *name,
                                     uint64_t choices, int64_t *choice);

/* Starts an episode of mlbridge_environment_context and _seed, and writes the first observation;
 * applies the action, then writes the next one or calls set_done. What is returned, if it is not
 * MLBRIDGE_OK, ends the episode. */
typedef mlbridge_code (*mlbridge_reset_function)(mlbridge_environment *environment,
                                                 mlbridge_observation *first, void *data);
typedef mlbridge_code (*mlbridge_step_function)(mlbridge_environment *environment,
                                                const mlbridge_action *action,
                                                mlbridge_observation *next, void *data);

/* A pass that decides step by step. */
typedef struct mlbridge_environment_definition {
  uint64_t size; /* sizeof(mlbridge_environment_definition) */
  /* One agent's, or else several with their names: the inputs are the observation, the outputs the
   * action. */
  const mlbridge_signature *signature;
  const mlbridge_agent_spec *agents; /* null with a signature */
  uint64_t agents_size;              /* number of them */
  mlbridge_reset_function reset;     /* begins an episode */
  mlbridge_step_function step;       /* applies an action */
  void *data;                        /* handed to each call; the caller's */
} mlbridge_environment_definition;

/* What is wrong with the definition is its code. Everything but `data` is copied. */
mlbridge_environment *
mlbridge_environment_create(const mlbridge_environment_definition *definition);
void mlbridge_environment_destroy(mlbridge_environment *environment); /* once */
/* Of the definition, or of the last run or serve. The message lives until the next call. */
mlbridge_code mlbridge_environment_code(const mlbridge_environment *environment);
const char *mlbridge_environment_message(const mlbridge_environment *environment);

/* For the callbacks: what the episode is about, "" if nobody said; lives as long as the episode. */
const char *mlbridge_environment_context(const mlbridge_environment *environment);
/* What the episode's draws are to depend on; 0 if nobody said. */
uint64_t mlbridge_environment_seed(const mlbridge_environment *environment);
/* The episode ends with this call of reset or step; once. Truncated: because of a limit. */
void mlbridge_environment_set_done(mlbridge_environment *environment);
void mlbridge_environment_set_truncated(mlbridge_environment *environment);
bool mlbridge_environment_is_done(const mlbridge_environment *environment); /* has it ended? */
/* Of this step, for the agent that acted, or for any. An agent is told the sum since it acted. */
void mlbridge_environment_set_reward(mlbridge_environment *environment, double reward);
void mlbridge_environment_set_agent_reward(mlbridge_environment *environment, uint64_t agent,
                                           double reward);
/* `return mlbridge_environment_fail(environment, MLBRIDGE_POLICY_FAILED, "why");` */
mlbridge_code mlbridge_environment_fail(mlbridge_environment *environment, mlbridge_code code,
                                        const char *message);

/* A model for each agent; used by one thread at a time. */
typedef struct mlbridge_agents mlbridge_agents;

/* `uris`: one URI for all agents, in which "{agent}" stands for the name; or NAME=URI for some and
 * *=URI for the others, with ';' between. mlbridge::Agents::open has the details. `options` may be
 * null. */
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
/* Whether somebody decides for the agent. */
bool mlbridge_agents_has_model(const mlbridge_agents *agents, uint64_t agent);
/* Lets this model decide for the agent. Errors: MLBRIDGE_INVALID_ARGUMENT (no such agent),
 * MLBRIDGE_MISMATCH, the model's failure. */
mlbridge_code mlbridge_agents_set(mlbridge_agents *agents, const char *agent,
                                  const mlbridge_model *model);

/* Zero stands for the default of each field. */
typedef struct mlbridge_episode_options {
  uint64_t size;       /* sizeof(mlbridge_episode_options) */
  uint32_t max_steps;  /* ends the episode, successfully, after so many actions; no limit */
  bool check_values;   /* NaN, infinities and masks that allow nothing are errors */
  int64_t deadline;    /* nanoseconds for the whole episode; none */
  const char *episode; /* an id */
  const char *context; /* module, function */
  uint64_t seed;       /* for the environment */
} mlbridge_episode_options;

/* How an episode went. */
typedef struct mlbridge_episode_result {
  uint64_t size;        /* to be set to sizeof(mlbridge_episode_result) by the caller */
  uint64_t steps;       /* actions applied */
  double total_reward;  /* of all agents */
  bool reached_limit;   /* ended by max_steps */
  bool truncated;       /* by that or by set_truncated */
  int32_t failed_agent; /* whose turn it was when the episode failed; -1 */
} mlbridge_episode_result;

/* Resets, then asks and steps until done, the limit, the deadline or an error, which is returned
 * and is the environment's code and message: which agent, which step. Then the pass falls back.
 * `options` and `result` may be null. */
mlbridge_code mlbridge_environment_run(mlbridge_environment *environment, mlbridge_agents *agents,
                                       const mlbridge_episode_options *options,
                                       mlbridge_episode_result *result);
/* With a Runner for each agent, which the caller keeps. */
mlbridge_code mlbridge_environment_run_with(mlbridge_environment *environment,
                                            mlbridge_runner *const *runners, uint64_t size,
                                            const mlbridge_episode_options *options,
                                            mlbridge_episode_result *result);
/* What an agent was given in the last episode that was run. */
double mlbridge_environment_total_reward(const mlbridge_environment *environment, uint64_t agent);

/* Zero stands for the default of each field. */
typedef struct mlbridge_serve_options {
  uint64_t size;      /* sizeof(mlbridge_serve_options) */
  uint32_t max_steps; /* of an episode; no limit */
  bool keep_serving;  /* goes on when a driver has left, until mlbridge_server_stop */
  int64_t idle;       /* nanoseconds to wait for a driver; no limit */
} mlbridge_serve_options;

/* How serving an environment ended. */
typedef struct mlbridge_serve_result {
  uint64_t size;     /* to be set to sizeof(mlbridge_serve_result) by the caller */
  uint64_t episodes; /* begun */
  uint64_t steps;    /* actions applied */
} mlbridge_serve_result;

/* For training: waits for a driver (driver.h, or Python's mlbridge.drive) that resets and steps the
 * environment. The server was made with `environment` and the environment's signature or agents;
 * agents that it does not name are asked, by `others`, which may be null. `options` and `result`
 * may be null. MLBRIDGE_OK: the driver has left; MLBRIDGE_DEADLINE_EXCEEDED: none came;
 * MLBRIDGE_CANCELLED: the server was stopped. */
mlbridge_code mlbridge_environment_serve(mlbridge_environment *environment, mlbridge_server *server,
                                         mlbridge_agents *others,
                                         const mlbridge_serve_options *options,
                                         mlbridge_serve_result *result);

#ifdef __cplusplus
}
#endif

#endif
