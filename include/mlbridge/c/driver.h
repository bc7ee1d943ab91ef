/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: the client of an environment that is served; resets it and steps it. */
#ifndef MLBRIDGE_C_DRIVER_H
#define MLBRIDGE_C_DRIVER_H

#include <mlbridge/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Used by one thread at a time. After an error an episode is over; the next reset begins anew. */
typedef struct mlbridge_driver mlbridge_driver;

/* Connects to an environment. `deadline`: nanoseconds for connecting, each reset and each step; 0
 * is a minute; that of the URI takes precedence. */
mlbridge_driver *mlbridge_driver_open(const char *uri, int64_t deadline);
void mlbridge_driver_close(mlbridge_driver *driver); /* leaves */
/* The result of the last call. The message lives until the next one. */
mlbridge_code mlbridge_driver_code(const mlbridge_driver *driver);
const char *mlbridge_driver_message(const mlbridge_driver *driver);

/* The metadata of the environment; null if it says nothing of the key. */
const char *mlbridge_driver_metadata(const mlbridge_driver *driver, const char *key);
/* The number of agents; 1 for a single one without a name. Names and signatures live as long as the
 * driver; null past the last one. */
uint64_t mlbridge_driver_agents(const mlbridge_driver *driver);
const char *mlbridge_driver_agent_name(const mlbridge_driver *driver, uint64_t agent);
const mlbridge_signature *mlbridge_driver_signature(const mlbridge_driver *driver, uint64_t agent);

/* Begins an episode of `unit` (null: the same as before). Blocks at most until the deadline.
 * Errors: those of mlbridge::Driver::reset. */
mlbridge_code mlbridge_driver_reset(mlbridge_driver *driver, const char *unit, uint64_t seed);
/* Applies the action of the agent whose turn it is. */
mlbridge_code mlbridge_driver_step(mlbridge_driver *driver);

/* After the last reset or step. */
uint64_t mlbridge_driver_agent(const mlbridge_driver *driver); /* who acts next */
bool mlbridge_driver_is_done(const mlbridge_driver *driver);
bool mlbridge_driver_is_truncated(const mlbridge_driver *driver);
/* The sum of an agent's rewards since it last acted. */
double mlbridge_driver_reward(const mlbridge_driver *driver, uint64_t agent);
uint64_t mlbridge_driver_steps(const mlbridge_driver *driver); /* actions applied */

/* The memory of an output of numbers, of the agent that acts, to be written before step; null, with
 * the code, for a wrong name or type. `resize` sets its lengths. */
void *mlbridge_driver_action(mlbridge_driver *driver, const char *name, mlbridge_type type,
                             uint64_t *count);
void *mlbridge_driver_resize_action(mlbridge_driver *driver, const char *name, mlbridge_type type,
                                    const int64_t *shape, uint32_t rank, uint64_t *count);
mlbridge_code mlbridge_driver_set_action_string(mlbridge_driver *driver, const char *name,
                                                uint64_t index, mlbridge_string text);
/* An input of the agent that acts next until the next reset or step, as
 * mlbridge::Driver::observation; null if there is none, and after an error. */
const void *mlbridge_driver_observation(mlbridge_driver *driver, const char *name,
                                        mlbridge_type type, uint64_t *count);
const int64_t *mlbridge_driver_observation_shape(mlbridge_driver *driver, const char *name,
                                                 uint32_t *rank);
mlbridge_code mlbridge_driver_observation_string(mlbridge_driver *driver, const char *name,
                                                 uint64_t index, mlbridge_string *text);

/* mlbridge::Driver::showLast. */
bool mlbridge_driver_show_last(mlbridge_driver *driver, uint64_t agent);

#ifdef __cplusplus
}
#endif

#endif
