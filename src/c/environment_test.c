/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Environments, agents, servers and drivers as a C program uses them, and what it does wrong. Each
 * function returns 0, or the line of what failed. */
#include <mlbridge/c/mlbridge.h>

#include <string.h>

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return __LINE__;                                                                             \
  } while (0)

int test_environment(void);
int test_environment_mistakes(void);
int test_agents(void);
int test_server_and_driver(const char *uri);

static const mlbridge_tensor_spec inputs[] = {MLBRIDGE_SCALAR("left", MLBRIDGE_INT64)};
static const mlbridge_tensor_spec outputs[] = {MLBRIDGE_SCALAR("take", MLBRIDGE_INT64)};
static const mlbridge_signature countdown = MLBRIDGE_SIGNATURE(inputs, outputs);

enum mistake { None, Fails, FailsSilently, WrongName, DoneTwice, UnknownAgent, Truncates };

struct pass {
  int64_t left;
  enum mistake mistake;
};

static mlbridge_code reset(mlbridge_environment *environment, mlbridge_observation *first,
                           void *data) {
  struct pass *pass = data;
  pass->left = 3 + (int64_t)mlbridge_environment_seed(environment);
  if (strcmp(mlbridge_environment_unit(environment), "broken") == 0)
    return mlbridge_environment_fail(environment, MLBRIDGE_NOT_FOUND, "no such module");
  return mlbridge_set(mlbridge_observation_runner(first), "left", &pass->left, 1);
}

static mlbridge_code step(mlbridge_environment *environment, const mlbridge_action *action,
                          mlbridge_observation *next, void *data) {
  struct pass *pass = data;
  int64_t take = 0;
  const mlbridge_code code = mlbridge_action_choice(action, "take", 3, &take);
  if (code)
    return code;
  pass->left -= take;
  mlbridge_environment_set_reward(environment, -1);
  switch (pass->mistake) {
  case Fails:
    return mlbridge_environment_fail(environment, MLBRIDGE_POLICY_FAILED, "cannot be applied");
  case FailsSilently:
    return MLBRIDGE_INTERNAL;
  case WrongName:
    return mlbridge_set(mlbridge_observation_runner(next), "lift", &pass->left, 1);
  case DoneTwice:
    mlbridge_environment_set_done(environment);
    mlbridge_environment_set_done(environment);
    return MLBRIDGE_OK;
  case UnknownAgent:
    (void)mlbridge_observation_for_agent(next, 1);
    return MLBRIDGE_OK;
  case Truncates:
    mlbridge_environment_set_truncated(environment);
    return MLBRIDGE_OK;
  case None:
    break;
  }
  if (pass->left <= 0)
    mlbridge_environment_set_done(environment);
  return mlbridge_set(mlbridge_observation_runner(next), "left", &pass->left, 1);
}

static mlbridge_environment *make(struct pass *pass) {
  const mlbridge_environment_definition definition = {
      sizeof definition, &countdown, NULL, 0, reset, step, pass};
  return mlbridge_environment_create(&definition);
}

/* Takes as much as `data` says. */
static mlbridge_code take(mlbridge_call *call, void *data) {
  int64_t *action = mlbridge_call_output(call, "take", MLBRIDGE_INT64, NULL);
  if (!action || !mlbridge_call_input(call, "left", MLBRIDGE_INT64, NULL))
    return mlbridge_call_fail(call, MLBRIDGE_INTERNAL, "another signature");
  *action = *(const int64_t *)data;
  return MLBRIDGE_OK;
}

static void register_take(const char *name, int64_t *amount) {
  const mlbridge_function_model model = {sizeof model, NULL, take, amount, NULL, 0};
  (void)mlbridge_register_function(name, &model, NULL, 0);
}

int test_environment(void) {
  static int64_t two = 2;
  struct pass pass = {0, None};
  mlbridge_episode_result result = {.size = sizeof result};
  register_take("c-take-two", &two);
  mlbridge_environment *environment = make(&pass);
  EXPECT(mlbridge_environment_code(environment) == MLBRIDGE_OK);
  mlbridge_agents *agents = mlbridge_agents_open(environment, "function:c-take-two", NULL);
  EXPECT(mlbridge_agents_code(agents) == MLBRIDGE_OK && !*mlbridge_agents_message(agents));
  EXPECT(mlbridge_agents_count(agents) == 1 && mlbridge_agents_has_model(agents, 0));
  EXPECT(!*mlbridge_agents_name(agents, 0) && !mlbridge_agents_name(agents, 1));
  EXPECT(mlbridge_environment_run(environment, agents, NULL, &result) == MLBRIDGE_OK);
  EXPECT(result.steps == 2 && result.total_reward == -2 && result.failed_agent == -1);
  EXPECT(!result.truncated && !result.reached_limit && mlbridge_environment_is_done(environment));
  EXPECT(mlbridge_environment_total_reward(environment, 0) == -2);
  mlbridge_episode_options options = {.size = sizeof options, .max_steps = 1, .seed = 9};
  EXPECT(mlbridge_environment_run(environment, agents, &options, &result) == MLBRIDGE_OK);
  EXPECT(result.steps == 1 && result.reached_limit && result.truncated && pass.left == 10);
  options = (mlbridge_episode_options){.size = sizeof options, .deadline = -1};
  EXPECT(mlbridge_environment_run(environment, agents, &options, &result) ==
         MLBRIDGE_DEADLINE_EXCEEDED);
  EXPECT(strstr(mlbridge_environment_message(environment), "step 0"));
  mlbridge_agents *others = mlbridge_agents_new(agents); /* for another thread */
  mlbridge_agents_close(agents);
  EXPECT(mlbridge_environment_run(environment, others, NULL, NULL) == MLBRIDGE_OK);
  mlbridge_agents_close(others);

  mlbridge_runner *runner = mlbridge_open("function:c-take-two", &countdown, NULL);
  EXPECT(mlbridge_environment_run_with(environment, &runner, 1, NULL, &result) == MLBRIDGE_OK);
  EXPECT(result.steps == 2);
  EXPECT(mlbridge_environment_run_with(environment, &runner, 0, NULL, NULL) == MLBRIDGE_MISMATCH);
  EXPECT(mlbridge_runner_code(runner) == MLBRIDGE_OK); /* it is still the caller's */
  mlbridge_runner_destroy(runner);
  mlbridge_environment_destroy(environment);
  return 0;
}

int test_environment_mistakes(void) {
  static int64_t two = 2, nine = 9;
  struct pass pass = {0, None};
  mlbridge_episode_result result = {.size = sizeof result};
  register_take("c-take", &two);
  register_take("c-take-nine", &nine);
  mlbridge_environment *environment = make(&pass);
  mlbridge_agents *agents = mlbridge_agents_open(environment, "function:c-take", NULL);
#define ENDS_WITH(what, code, text)                                                                \
  do {                                                                                             \
    pass.mistake = (what);                                                                         \
    EXPECT(mlbridge_environment_run(environment, agents, NULL, &result) == (code));                \
    EXPECT(mlbridge_environment_code(environment) == (code));                                      \
    EXPECT(strstr(mlbridge_environment_message(environment), (text)));                             \
  } while (0)
  ENDS_WITH(Fails, MLBRIDGE_POLICY_FAILED, "step 0: cannot be applied");
  EXPECT(result.failed_agent == 0 && result.steps == 0);
  ENDS_WITH(FailsSilently, MLBRIDGE_INTERNAL, "step 0");
  ENDS_WITH(WrongName, MLBRIDGE_INVALID_ARGUMENT, "did you mean 'left'?");
  ENDS_WITH(DoneTwice, MLBRIDGE_INVALID_ARGUMENT, "setDone() twice");
  ENDS_WITH(UnknownAgent, MLBRIDGE_INVALID_ARGUMENT,
            "there is no agent number 1; there are 1, numbered from 0");
  ENDS_WITH(Truncates, MLBRIDGE_OK, "");
  EXPECT(result.truncated && result.steps == 1);
  ENDS_WITH(None, MLBRIDGE_OK, "");
  mlbridge_episode_options options = {.size = sizeof options, .unit = "broken"};
  EXPECT(mlbridge_environment_run(environment, agents, &options, NULL) == MLBRIDGE_NOT_FOUND);
  EXPECT(strstr(mlbridge_environment_message(environment), "reset: no such module"));
  options.size = 0;
  EXPECT(mlbridge_environment_run(environment, agents, &options, NULL) ==
         MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_agents_close(agents);
  agents = mlbridge_agents_open(environment, "function:c-take-nine", NULL);
  ENDS_WITH(None, MLBRIDGE_POLICY_FAILED,
            "step 0: output 'take' is 9; there are 3 choices, numbered from 0");
#undef ENDS_WITH
  mlbridge_agents_close(agents);
  mlbridge_environment_destroy(environment);

  /* Definitions that are none, and no objects at all. */
  const mlbridge_environment_definition wrong[] = {
      {0, &countdown, NULL, 0, reset, step, NULL},
      {sizeof *wrong, &countdown, NULL, 0, reset, NULL, NULL},
      {sizeof *wrong, NULL, NULL, 0, reset, step, NULL},
      {sizeof *wrong, NULL, NULL, 3, reset, step, NULL},
      {sizeof *wrong, NULL, &(mlbridge_agent_spec)MLBRIDGE_AGENT("a", NULL), 1, reset, step, NULL}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    environment = mlbridge_environment_create(&wrong[i]);
    EXPECT(mlbridge_environment_code(environment) == MLBRIDGE_INVALID_ARGUMENT);
    EXPECT(*mlbridge_environment_message(environment));
    agents = mlbridge_agents_open(environment, "function:c-take", NULL);
    EXPECT(mlbridge_agents_code(agents) == MLBRIDGE_INVALID_ARGUMENT);
    EXPECT(mlbridge_environment_run(environment, agents, NULL, NULL) == MLBRIDGE_INVALID_ARGUMENT);
    mlbridge_agents_close(agents);
    mlbridge_environment_destroy(environment);
  }
  EXPECT(mlbridge_environment_run(NULL, NULL, NULL, NULL) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_environment_serve(NULL, NULL, NULL, NULL, NULL) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(!mlbridge_observation_for_agent(NULL, 0) && !mlbridge_action_runner(NULL));
  mlbridge_environment_set_done(NULL);
  mlbridge_environment_destroy(NULL);
  mlbridge_agents_close(NULL);
  environment = make(&pass);
  EXPECT(mlbridge_environment_run(environment, NULL, NULL, NULL) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_environment_serve(environment, NULL, NULL, NULL, NULL) ==
         MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_environment_destroy(environment);
  return 0;
}

/* Two agents in turn: the one looks, the other takes. */
static mlbridge_code reset_two(mlbridge_environment *environment, mlbridge_observation *first,
                               void *data) {
  int64_t *left = data;
  (void)environment;
  *left = 4;
  return mlbridge_set(mlbridge_observation_for_agent_named(first, "look"), "left", left, 1);
}

static mlbridge_code step_two(mlbridge_environment *environment, const mlbridge_action *action,
                              mlbridge_observation *next, void *data) {
  int64_t *left = data;
  const int64_t *take = mlbridge_output(mlbridge_action_runner(action), "take", take, NULL);
  if (!take)
    return mlbridge_runner_code(mlbridge_action_runner(action));
  if (mlbridge_action_agent(action) == 0)
    return mlbridge_set(mlbridge_observation_for_agent(next, 1), "left", left, 1);
  *left -= *take;
  mlbridge_environment_set_reward(environment, 1);
  mlbridge_environment_set_agent_reward(environment, 0, 0.25);
  if (*left <= 0)
    mlbridge_environment_set_done(environment);
  return mlbridge_set(mlbridge_observation_for_agent(next, 0), "left", left, 1);
}

int test_agents(void) {
  static int64_t one = 1;
  int64_t left = 0;
  mlbridge_episode_result result = {.size = sizeof result};
  const mlbridge_agent_spec specs[] = {MLBRIDGE_AGENT("look", &countdown),
                                       MLBRIDGE_AGENT("take", &countdown)};
  const mlbridge_environment_definition definition = {sizeof definition, NULL,     specs, 2,
                                                      reset_two,         step_two, &left};
  register_take("c-take-one", &one);
  mlbridge_environment *environment = mlbridge_environment_create(&definition);
  EXPECT(mlbridge_environment_code(environment) == MLBRIDGE_OK);
  mlbridge_agents *agents = mlbridge_agents_open(environment, "take=function:c-take-one", NULL);
  EXPECT(mlbridge_agents_code(agents) == MLBRIDGE_NOT_FOUND);
  EXPECT(strstr(mlbridge_agents_message(agents), "'look'"));
  EXPECT(!mlbridge_agents_has_model(agents, 0) && mlbridge_agents_has_model(agents, 1));
  EXPECT(mlbridge_environment_run(environment, agents, NULL, NULL) == MLBRIDGE_NOT_FOUND);
  mlbridge_model *model = mlbridge_model_open("function:c-take-one", NULL);
  EXPECT(mlbridge_agents_set(agents, "lock", model) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_agents_set(agents, "look", model) == MLBRIDGE_OK);
  mlbridge_model_close(model);
  EXPECT(mlbridge_environment_run(environment, agents, NULL, &result) == MLBRIDGE_OK);
  EXPECT(result.steps == 8 && result.total_reward == 5);
  EXPECT(mlbridge_environment_total_reward(environment, 0) == 1);
  EXPECT(mlbridge_environment_total_reward(environment, 1) == 4);
  mlbridge_agents_close(agents);
  mlbridge_environment_destroy(environment);
  return 0;
}

/* An environment of events, answered one by one, and what a driver sees of it; and no server. */
int test_server_and_driver(const char *uri) {
  mlbridge_server_options options = {.size = sizeof options, .environment = true};
  mlbridge_server *server = mlbridge_server_listen(uri, &options);
  EXPECT(mlbridge_server_code(server) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(strstr(mlbridge_server_message(server), "only be served with its signature"));
  EXPECT(!mlbridge_server_next(server, 0) && mlbridge_server_is_stopped(server));
  EXPECT(mlbridge_server_serve(server, take, NULL) == MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_server_close(server);
  mlbridge_driver *driver = mlbridge_driver_open(uri, 1000000000);
  EXPECT(mlbridge_driver_code(driver) == MLBRIDGE_UNAVAILABLE);
  EXPECT(mlbridge_driver_reset(driver, NULL, 0) == MLBRIDGE_UNAVAILABLE);
  EXPECT(mlbridge_driver_step(driver) == MLBRIDGE_UNAVAILABLE);
  EXPECT(!mlbridge_driver_action(driver, "take", MLBRIDGE_INT64, NULL));
  EXPECT(mlbridge_driver_agents(driver) == 0 && !mlbridge_driver_signature(driver, 0));
  mlbridge_driver_close(driver);

  options = (mlbridge_server_options){.size = sizeof options, .signature = &countdown};
  server = mlbridge_server_listen(uri, &options);
  EXPECT(mlbridge_server_code(server) == MLBRIDGE_OK &&
         strcmp(mlbridge_server_uri(server), uri) == 0);
  EXPECT(!mlbridge_server_next(server, 0));
  EXPECT(mlbridge_server_code(server) == MLBRIDGE_DEADLINE_EXCEEDED);
  EXPECT(mlbridge_server_statistic(server, "requests") == 0);
  EXPECT(mlbridge_server_wake_descriptor(server) >= 0);
  EXPECT(!mlbridge_server_is_stopped(server));
  mlbridge_server_stop(server);
  EXPECT(!mlbridge_server_next(server, -1));
  EXPECT(mlbridge_server_code(server) == MLBRIDGE_CANCELLED && mlbridge_server_is_stopped(server));
  mlbridge_server_close(server);

  options =
      (mlbridge_server_options){.size = sizeof options, .signature = &countdown, .stateless = true};
  server = mlbridge_server_listen(uri, &options);
  mlbridge_server_drain(server, 3600000000000);
  EXPECT(!mlbridge_server_next(server, -1)); /* nobody needs it */
  EXPECT(mlbridge_server_code(server) == MLBRIDGE_CANCELLED && mlbridge_server_is_stopped(server));
  mlbridge_server_close(server);
  mlbridge_server_drain(NULL, 0);
  mlbridge_server_close(NULL);
  mlbridge_event_destroy(NULL);
  EXPECT(mlbridge_event_reply(NULL) == MLBRIDGE_INVALID_ARGUMENT && !mlbridge_event_call(NULL));
  EXPECT(mlbridge_server_code(NULL) == MLBRIDGE_INVALID_ARGUMENT);
  EXPECT(mlbridge_event_send_last(NULL) == MLBRIDGE_INVALID_ARGUMENT);
  mlbridge_driver_close(NULL);
  EXPECT(!mlbridge_driver_show_last(NULL, 0));
  EXPECT(mlbridge_driver_step(NULL) == MLBRIDGE_INVALID_ARGUMENT);
  return 0;
}
