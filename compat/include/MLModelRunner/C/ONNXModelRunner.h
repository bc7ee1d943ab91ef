/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C functions of the 2024 release for networks in this process: a single agent that is asked
 * directly, or several that decide for an environment. A null handle is allowed everywhere. */
#ifndef MLBRIDGE_COMPAT_C_ONNXMODELRUNNER_H
#define MLBRIDGE_COMPAT_C_ONNXMODELRUNNER_H

#ifndef __cplusplus
#include <stdbool.h>
#endif

typedef struct ONNXModelRunner ONNXModelRunner;
typedef struct Environment Environment;
typedef signed Action;

#ifdef __cplusplus
extern "C" {
#endif

Environment *createEnvironment(void);
void env_setDone(Environment *env);
void env_resetDone(Environment *env);
bool env_checkDone(Environment *env);
/* The length of the arrays that both functions below return; they stay the caller's. */
void env_setNumFeatures(Environment *env, int numFeatures);
void env_setStepFunc(Environment *env, float *(*stepFunc)(Action action));
void env_setResetFunc(Environment *env, float *(*resetFunc)(void));
void env_setNextAgent(Environment *env, char *agentName);
/* After the runners that use it. */
void destroyEnvironment(Environment *env);

/* createONNXModelRunner(env, n, "name", "path", "name", "path", ...): the environment stays the
 * caller's. However n is meant, agents or strings, all pairs of the call are taken. (The release's
 * function of that name, which is called through a pointer, cannot know how many there are, and
 * takes n as the number of strings.) */
ONNXModelRunner *createONNXModelRunner(Environment *env, int numAgents, ...);
ONNXModelRunner *createSingleAgentOMR(char *agent_path);
/* An episode; see ONNXModelRunnerError for how it ended. */
void evaluate(ONNXModelRunner *obj);
/* The action; -1 without an answer. */
int singleAgentEvaluate(ONNXModelRunner *obj, float *inp, int inp_size);
void destroyONNXModelRunner(ONNXModelRunner *obj);

/* Not in the release. */
ONNXModelRunner *createONNXModelRunnerOf(Environment *env, const char *const *namesAndPaths,
                                         int strings);
/* Why the last call failed, "" if it didn't; the runner's, until the next call. */
const char *ONNXModelRunnerError(const ONNXModelRunner *obj);

#ifdef __cplusplus
}

/* Taken before the function with the ellipsis. */
template <typename... Strings>
ONNXModelRunner *createONNXModelRunner(Environment *env, int, Strings... strings) {
  const char *const all[] = {strings..., nullptr};
  return createONNXModelRunnerOf(env, all, static_cast<int>(sizeof...(strings)));
}
#else
#define createONNXModelRunner(env, ...)                                                            \
  createONNXModelRunnerOf(                                                                         \
      env, mlbridge_compat_strings_(__VA_ARGS__, (const char *)0),                                 \
      (int)(sizeof(mlbridge_compat_strings_(__VA_ARGS__, (const char *)0)) / sizeof(char *)) - 1)
#define mlbridge_compat_strings_(count, ...) ((const char *const[]){__VA_ARGS__})
#endif

#endif
