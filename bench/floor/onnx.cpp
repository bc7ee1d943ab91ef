// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the onnx engine: ONNX Runtime's C API alone, sessions bound beforehand with the
// options that the engine uses, nothing of the library.
//
//   onnx LIBRARY run|bind MODEL...
//
// Prints "ready <dlopen ms> <environment ms> <sessions ms>". Then each line of standard input,
// "<passes>", makes that many passes over the models, checks every answer and prints the
// nanoseconds they took. A model with a float32 output is one of the sweep, one with an int64
// output the small query. `run` calls Run on values made beforehand, `bind`, which is faster,
// RunWithBinding.
#include "../round-trip/expected.h"

#include <onnxruntime_c_api.h>
#include <onnxruntime_session_options_config_keys.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
const OrtApi *api = nullptr;

[[noreturn]] void fail(const std::string &why) {
  std::fprintf(stderr, "floor onnx: %s\n", why.c_str());
  std::exit(1);
}

void check(OrtStatus *status) {
  if (status)
    fail(api->GetErrorMessage(status));
}

double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

void ORT_API_CALL dropMessage(void *, OrtLoggingLevel, const char *, const char *, const char *,
                              const char *) {}

/// One input of float32 and one output of float32 or int64, both of fixed shape.
struct Bound {
  OrtSession *session = nullptr;
  OrtIoBinding *binding = nullptr;
  std::string inputName, outputName;
  const char *inputNames[1] = {}, *outputNames[1] = {};
  OrtValue *input = nullptr, *output = nullptr;
  size_t size = 0; ///< of the input
  float *inputData = nullptr;
  void *outputData = nullptr;
  bool integer = false;
};

size_t describe(OrtTypeInfo *type, std::vector<int64_t> &shape,
                ONNXTensorElementDataType &element) {
  const OrtTensorTypeAndShapeInfo *info = nullptr;
  check(api->CastTypeInfoToTensorInfo(type, &info));
  size_t rank = 0, count = 0;
  check(api->GetDimensionsCount(info, &rank));
  shape.resize(rank);
  check(api->GetDimensions(info, shape.data(), rank));
  check(api->GetTensorElementType(info, &element));
  check(api->GetTensorShapeElementCount(info, &count));
  api->ReleaseTypeInfo(type);
  return count;
}

OrtValue *makeValue(const OrtMemoryInfo *memory, size_t count, const std::vector<int64_t> &shape,
                    ONNXTensorElementDataType element, void *&data) {
  const size_t width = element == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? 8 : 4;
  const size_t bytes = (count * width + 63) / 64 * 64;
  data = std::aligned_alloc(64, bytes);
  if (!data)
    fail("no memory");
  std::memset(data, 0, bytes);
  OrtValue *value = nullptr;
  check(api->CreateTensorWithDataAsOrtValue(memory, data, count * width, shape.data(), shape.size(),
                                            element, &value));
  return value;
}

void bind(Bound &to, const OrtEnv *env, const OrtMemoryInfo *memory, const char *path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  OrtSessionOptions *options = nullptr;
  check(api->CreateSessionOptions(&options));
  check(api->SetIntraOpNumThreads(options, 1));
  check(api->SetInterOpNumThreads(options, 1));
  check(api->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
  check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigAllowIntraOpSpinning, "0"));
  check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigAllowInterOpSpinning, "0"));
  check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigDisablePrepacking, "1"));
  check(api->CreateSessionFromArray(env, bytes.data(), bytes.size(), options, &to.session));
  api->ReleaseSessionOptions(options);

  OrtAllocator *allocator = nullptr;
  check(api->GetAllocatorWithDefaultOptions(&allocator));
  char *name = nullptr;
  check(api->SessionGetInputName(to.session, 0, allocator, &name));
  to.inputName = name;
  allocator->Free(allocator, name);
  check(api->SessionGetOutputName(to.session, 0, allocator, &name));
  to.outputName = name;
  allocator->Free(allocator, name);

  OrtTypeInfo *type = nullptr;
  std::vector<int64_t> shape;
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check(api->SessionGetInputTypeInfo(to.session, 0, &type));
  to.size = describe(type, shape, element);
  void *data = nullptr;
  to.input = makeValue(memory, to.size, shape, element, data);
  to.inputData = static_cast<float *>(data);
  check(api->SessionGetOutputTypeInfo(to.session, 0, &type));
  const size_t outputs = describe(type, shape, element);
  to.integer = element == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  if (to.size > roundtrip::LargestSize || (to.integer && to.size != roundtrip::SmallSize))
    fail(std::string(path) + " is no model of the round trip");
  to.output = makeValue(memory, outputs, shape, element, to.outputData);

  check(api->CreateIoBinding(to.session, &to.binding));
  check(api->BindInput(to.binding, to.inputName.c_str(), to.input));
  check(api->BindOutput(to.binding, to.outputName.c_str(), to.output));
  to.inputNames[0] = to.inputName.c_str();
  to.outputNames[0] = to.outputName.c_str();
}

} // namespace

int main(int count, char **arguments) {
  if (count < 4)
    fail("usage: onnx LIBRARY run|bind MODEL...");
  const bool useBinding = std::strcmp(arguments[2], "bind") == 0;

  ::setenv("ORT_DISABLE_TELEMETRY", "1", 0); // as the engine does
  Clock::time_point start = Clock::now();
  void *library = ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(::dlerror());
  const double dlopenTime = milliseconds(start);

  start = Clock::now();
  const auto getBase = reinterpret_cast<const OrtApiBase *(*)()>(::dlsym(library, "OrtGetApiBase"));
  api = getBase()->GetApi(16);
  if (!api)
    fail("no such API version");
  OrtEnv *env = nullptr;
  check(
      api->CreateEnvWithCustomLogger(dropMessage, nullptr, ORT_LOGGING_LEVEL_ERROR, "floor", &env));
  OrtMemoryInfo *memory = nullptr;
  check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  const double environmentTime = milliseconds(start);

  start = Clock::now();
  std::vector<Bound> models(static_cast<size_t>(count - 3));
  OrtRunOptions *runOptions = nullptr;
  for (size_t i = 0; i < models.size(); ++i)
    bind(models[i], env, memory, arguments[i + 3]);
  check(api->CreateRunOptions(&runOptions));
  std::printf("ready %.3f %.3f %.3f\n", dlopenTime, environmentTime, milliseconds(start));
  std::fflush(stdout);

  const std::vector<float> source = roundtrip::sweepInput();
  const std::vector<double> expected = roundtrip::sweepAnswers();
  int64_t query = 0;
  const auto ask = [&](Bound &model) {
    if (model.integer)
      roundtrip::fillSmall(model.inputData, query);
    else
      std::memcpy(model.inputData, source.data(), model.size * sizeof(float));
    check(useBinding ? api->RunWithBinding(model.session, runOptions, model.binding)
                     : api->Run(model.session, runOptions, model.inputNames, &model.input, 1,
                                model.outputNames, 1, &model.output));
    const bool right =
        model.integer
            ? *static_cast<int64_t *>(model.outputData) == roundtrip::smallAnswer(query++)
            : roundtrip::isClose(*static_cast<float *>(model.outputData), expected[model.size]);
    if (!right)
      fail("wrong answer for " + std::to_string(model.size) + " floats");
  };
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    start = Clock::now();
    for (long pass = std::strtol(line, nullptr, 10); pass > 0; --pass)
      for (Bound &model : models)
        ask(model);
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
    std::printf("%lld\n", static_cast<long long>(took.count()));
    std::fflush(stdout);
  }
  return 0;
}
