/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C functions of the 2024 release for a model behind two named pipes. A null handle is allowed
 * everywhere. */
#ifndef MLBRIDGE_COMPAT_C_PIPEMODELRUNNER_H
#define MLBRIDGE_COMPAT_C_PIPEMODELRUNNER_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PipeModelRunnerWrapper PipeModelRunnerWrapper;

/* serDesType: 1 JSON, 2 bitstream. Blocks until the model's side has opened its ends, until the
 * deadline at most (10 s, or MLBRIDGE_COMPAT_DEADLINE). Never null; see pipeModelRunnerError. */
PipeModelRunnerWrapper *createPipeModelRunner(const char *outBoundName, const char *inBoundName,
                                              int serDesType);
void populateFloatFeatures(PipeModelRunnerWrapper *obj, const char *name, const float *data,
                           const int size);
void populateIntFeatures(PipeModelRunnerWrapper *obj, const char *name, const int *data,
                         const int size);
/* -1 without an answer. */
int evaluateIntFeatures(PipeModelRunnerWrapper *obj);
float evaluateFloatFeatures(PipeModelRunnerWrapper *obj);
void destroyPipeModelRunner(PipeModelRunnerWrapper *obj);

/* Not in the release: why the last call failed, "" if it didn't; the runner's, until the next call.
 */
const char *pipeModelRunnerError(const PipeModelRunnerWrapper *obj);

#ifdef __cplusplus
}
#endif

#endif
