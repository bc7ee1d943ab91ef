/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "allocator_c.h"

#include <string.h>

#define ANY MLBRIDGE_DYNAMIC

const mlbridge_agent_spec *allocator_agents(void) {
  static const int64_t any[] = {ANY}, states[] = {ANY, StateSize}, notes[] = {ANY, 3},
                       pairs[] = {ANY, 2}, state[] = {StateSize}, two[] = {2}, three[] = {3},
                       four[] = {4}, colours[] = {Colours}, most[] = {MostUses, 0};
  enum { Spec = sizeof(mlbridge_tensor_spec) };
  static const mlbridge_tensor_spec node_inputs[] = {
      {Spec, "function", MLBRIDGE_STRING, 0, NULL, NULL},
      {Spec, "spill_weights", MLBRIDGE_FLOAT32, 1, any, NULL},
      {Spec, "action_mask", MLBRIDGE_BOOL, 1, any, NULL},
      {Spec, "state", MLBRIDGE_FLOAT32, 2, states, NULL},
      {Spec, "annotations", MLBRIDGE_FLOAT32, 2, notes, NULL},
      {Spec, "edges", MLBRIDGE_INT64, 2, pairs, NULL}};
  static const mlbridge_tensor_spec task_inputs[] = {
      {Spec, "node_properties", MLBRIDGE_FLOAT32, 1, four, NULL},
      {Spec, "action_mask", MLBRIDGE_BOOL, 1, two, NULL},
      {Spec, "state", MLBRIDGE_FLOAT32, 1, state, NULL}};
  static const mlbridge_tensor_spec colour_inputs[] = {
      {Spec, "node_properties", MLBRIDGE_FLOAT32, 1, three, NULL},
      {Spec, "action_mask", MLBRIDGE_BOOL, 1, colours, NULL},
      {Spec, "state", MLBRIDGE_FLOAT32, 1, state, NULL}};
  static const mlbridge_tensor_spec split_inputs[] = {
      {Spec, "use_points", MLBRIDGE_FLOAT32, 2, pairs, most},
      {Spec, "action_mask", MLBRIDGE_BOOL, 1, any, most},
      {Spec, "state", MLBRIDGE_FLOAT32, 1, state, NULL}};
  static const mlbridge_tensor_spec outputs[AllocatorAgents][1] = {
      {MLBRIDGE_SCALAR("node", MLBRIDGE_INT64)},
      {MLBRIDGE_SCALAR("task", MLBRIDGE_INT64)},
      {MLBRIDGE_SCALAR("colour", MLBRIDGE_INT64)},
      {MLBRIDGE_SCALAR("use_point", MLBRIDGE_INT64)}};
  static const mlbridge_signature signatures[AllocatorAgents] = {
      MLBRIDGE_SIGNATURE(node_inputs, outputs[SelectNode]),
      MLBRIDGE_SIGNATURE(task_inputs, outputs[SelectTask]),
      MLBRIDGE_SIGNATURE(colour_inputs, outputs[ColourNode]),
      MLBRIDGE_SIGNATURE(split_inputs, outputs[SplitNode])};
  static const mlbridge_agent_spec agents[AllocatorAgents] = {
      MLBRIDGE_AGENT("select_node", &signatures[SelectNode]),
      MLBRIDGE_AGENT("select_task", &signatures[SelectTask]),
      MLBRIDGE_AGENT("colour_node", &signatures[ColourNode]),
      MLBRIDGE_AGENT("split_node", &signatures[SplitNode])};
  return agents;
}

/* Writes an input of the agent that acts next, and notes it. Each failure is also the runner's, and
 * ends the episode. */
static void show(Allocator *a, mlbridge_runner *to, const char *name, mlbridge_type type,
                 const void *values, size_t element, const int64_t *shape, uint32_t rank) {
  uint64_t count = 0;
  void *place = mlbridge_runner_resize(to, name, type, shape, rank, &count);
  if (!place)
    return;
  memcpy(place, values, count * element);
  allocation_note(&a->allocation, values, count * element);
}

static void show_floats(Allocator *a, mlbridge_runner *to, const char *name, const float *values,
                        int64_t first, int64_t second) {
  const int64_t shape[] = {first, second};
  show(a, to, name, MLBRIDGE_FLOAT32, values, sizeof *values, shape, second ? 2 : 1);
}

static void show_mask(Allocator *a, mlbridge_runner *to, int64_t count) {
  show(a, to, "action_mask", MLBRIDGE_BOOL, a->mask, sizeof *a->mask, &count, 1);
}

static void show_state(Allocator *a, mlbridge_runner *to) {
  show_floats(a, to, "state", a->allocation.state[a->range], StateSize, 0);
}

static void show_ranges(Allocator *a, mlbridge_observation *next) {
  mlbridge_runner *to = mlbridge_observation_for_agent(next, SelectNode);
  const char *function = mlbridge_environment_context(a->environment);
  const int64_t n = a->allocation.ranges;
  float weights[MostRanges];
  for (int64_t i = 0; i < n; ++i) {
    weights[i] = a->allocation.range[i].weight;
    a->mask[i] = !a->allocation.range[i].visited;
  }
  const int64_t edges[] = {allocation_edges(&a->allocation, a->edges), 2};
  (void)mlbridge_runner_set_string(to, "function", function);
  allocation_note(&a->allocation, function, strlen(function));
  show_floats(a, to, "spill_weights", weights, n, 0);
  show_mask(a, to, n);
  show_floats(a, to, "state", a->allocation.state[0], n, StateSize);
  show_floats(a, to, "annotations", a->allocation.annotation[0], n, 3);
  show(a, to, "edges", MLBRIDGE_INT64, a->edges, sizeof *a->edges, edges, 2);
}

static void show_task(Allocator *a, mlbridge_observation *next) {
  mlbridge_runner *to = mlbridge_observation_for_agent(next, SelectTask);
  const Range *range = &a->allocation.range[a->range];
  bool allowed[Colours];
  const float properties[] = {(float)allocation_degree(&a->allocation, a->range),
                              (float)allocation_allowed(&a->allocation, a->range, allowed),
                              range->weight < 1e4F ? range->weight : 1e4F, (float)range->uses};
  a->mask[0] = true;
  a->mask[1] = allocation_can_split(&a->allocation, a->range);
  show_floats(a, to, "node_properties", properties, 4, 0);
  show_mask(a, to, 2);
  show_state(a, to);
}

static void show_colours(Allocator *a, mlbridge_observation *next) {
  mlbridge_runner *to = mlbridge_observation_for_agent(next, ColourNode);
  const float available = (float)allocation_allowed(&a->allocation, a->range, a->mask);
  float properties[] = {available, Registers - available, 0};
  for (uint32_t i = 0; i < a->allocation.ranges; ++i)
    properties[2] += a->allocation.range[i].visited ? 0 : 1;
  show_floats(a, to, "node_properties", properties, 3, 0);
  show_mask(a, to, Colours);
  show_state(a, to);
}

static void show_uses(Allocator *a, mlbridge_observation *next) {
  mlbridge_runner *to = mlbridge_observation_for_agent(next, SplitNode);
  const Range *range = &a->allocation.range[a->range];
  float points[MostUses][2];
  for (uint32_t u = 0; u < range->uses; ++u) {
    points[u][0] = range->use_weight[u];
    points[u][1] = range->use_distance[u];
    a->mask[u] = u + 1 < range->uses;
  }
  show_floats(a, to, "use_points", points[0], range->uses, 2);
  show_mask(a, to, range->uses);
  show_state(a, to);
}

static mlbridge_code reset(mlbridge_environment *environment, mlbridge_observation *first,
                           void *data) {
  Allocator *a = data;
  allocation_begin(&a->allocation, mlbridge_environment_seed(environment));
  show_ranges(a, first);
  return MLBRIDGE_OK;
}

static mlbridge_code step(mlbridge_environment *environment, const mlbridge_action *action,
                          mlbridge_observation *next, void *data) {
  Allocator *a = data;
  Allocation *allocation = &a->allocation;
  const uint64_t agent = mlbridge_action_agent(action);
  const uint64_t choices[] = {allocation->ranges, 2, Colours, allocation->range[a->range].uses};
  int64_t choice = 0;
  const mlbridge_code code = mlbridge_action_choice(
      action, allocator_agents()[agent].signature->outputs[0].name, choices[agent], &choice);
  if (code)
    return code;
  allocation_note(allocation, &choice, sizeof choice);
  if (!a->mask[choice])
    return mlbridge_environment_fail(environment, MLBRIDGE_POLICY_FAILED, "the choice is masked");
  switch (agent) {
  case SelectNode:
    a->range = (uint32_t)choice;
    show_task(a, next);
    break;
  case SelectTask:
    if (choice == 0)
      show_colours(a, next);
    else
      show_uses(a, next);
    break;
  case ColourNode:
    mlbridge_environment_set_reward(environment,
                                    (double)allocation_colour(allocation, a->range, (int)choice));
    if (!allocation_is_complete(allocation)) {
      show_ranges(a, next);
      break;
    }
    mlbridge_environment_set_agent_reward(environment, SelectNode,
                                          allocation->spilled == 0 ? 10 : -10);
    mlbridge_environment_set_done(environment);
    break;
  default:
    mlbridge_environment_set_reward(
        environment, (double)allocation_split(allocation, a->range, (uint32_t)choice));
    show_ranges(a, next);
  }
  return MLBRIDGE_OK;
}

void allocator_begin(Allocator *a) {
  memset(a, 0, sizeof *a);
  const mlbridge_environment_definition definition = {
      sizeof definition, NULL, allocator_agents(), AllocatorAgents, reset, step, a};
  a->environment = mlbridge_environment_create(&definition);
}

void allocator_end(Allocator *a) { mlbridge_environment_destroy(a->environment); }
