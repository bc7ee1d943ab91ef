// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MLModelRunner/C/PipeModelRunner.h"
#include "MLModelRunner/PipeModelRunner.h"

struct PipeModelRunnerWrapper {
  PipeModelRunnerWrapper(const char *out, const char *in, MLBridge::SerDesKind kind)
      : runner(out, in, kind) {}
  void remember() { error = runner.status() ? std::string() : runner.status().toString(); }

  MLBridge::PipeModelRunner runner;
  std::string error;
};

namespace {

template <typename T>
void populate(PipeModelRunnerWrapper *obj, const char *name, const T *data, int size) {
  if (!obj || !name)
    return;
  const size_t count = data && size > 0 ? static_cast<size_t>(size) : 0;
  obj->runner.populateFeatures(
      std::make_pair(std::string(name), std::vector<T>(data, data + count)));
}

template <typename T> T answer(PipeModelRunnerWrapper *obj) {
  if (!obj)
    return T(-1);
  const T value = obj->runner.evaluate<T>();
  obj->remember();
  return value;
}

} // namespace

PipeModelRunnerWrapper *createPipeModelRunner(const char *outBoundName, const char *inBoundName,
                                              int serDesType) {
  auto *obj = new PipeModelRunnerWrapper(outBoundName, inBoundName,
                                         static_cast<MLBridge::SerDesKind>(serDesType));
  obj->remember();
  return obj;
}

void populateFloatFeatures(PipeModelRunnerWrapper *obj, const char *name, const float *data,
                           const int size) {
  populate(obj, name, data, size);
}
void populateIntFeatures(PipeModelRunnerWrapper *obj, const char *name, const int *data,
                         const int size) {
  populate(obj, name, data, size);
}
int evaluateIntFeatures(PipeModelRunnerWrapper *obj) { return answer<int>(obj); }
float evaluateFloatFeatures(PipeModelRunnerWrapper *obj) { return answer<float>(obj); }
void destroyPipeModelRunner(PipeModelRunnerWrapper *obj) { delete obj; }
const char *pipeModelRunnerError(const PipeModelRunnerWrapper *obj) {
  return obj ? obj->error.c_str() : "no runner";
}
