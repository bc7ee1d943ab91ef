// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of all engines: ONNX Runtime's C API alone, everything bound beforehand.
//
//   in-process-floor-onnx LIBRARY packed|plain MODEL EXAMPLES
//
// Says "ready"; each line "<passes>" of standard input is answered with the nanoseconds they took.
// `packed` lets ONNX Runtime rearrange weights when it loads them, which is faster for some models.
#include "examples.h"

#include <onnxruntime_c_api.h>
#include <onnxruntime_session_options_config_keys.h>

#include <dlfcn.h>

using namespace inprocess;

namespace {

const OrtApi *api = nullptr;

void check(OrtStatus *status) {
  if (status)
    fail(api->GetErrorMessage(status));
}

void ORT_API_CALL dropMessage(void *, OrtLoggingLevel, const char *, const char *, const char *,
                              const char *) {}

OrtSession *load(const OrtEnv *env, const char *path, bool packed) {
  const std::string bytes = contents(path);
  OrtSessionOptions *options = nullptr;
  check(api->CreateSessionOptions(&options));
  check(api->SetIntraOpNumThreads(options, 1));
  check(api->SetInterOpNumThreads(options, 1));
  check(api->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
  check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigAllowIntraOpSpinning, "0"));
  check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigAllowInterOpSpinning, "0"));
  if (!packed)
    check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigDisablePrepacking, "1"));
  OrtSession *session = nullptr;
  check(api->CreateSessionFromArray(env, bytes.data(), bytes.size(), options, &session));
  api->ReleaseSessionOptions(options);
  return session;
}

/// A value in memory of its own, of the shape and type that the model states.
OrtValue *makeValue(const OrtMemoryInfo *memory, OrtTypeInfo *type, Input &buffer) {
  const OrtTensorTypeAndShapeInfo *info = nullptr;
  check(api->CastTypeInfoToTensorInfo(type, &info));
  size_t rank = 0, elements = 0;
  check(api->GetDimensionsCount(info, &rank));
  std::vector<int64_t> shape(rank);
  check(api->GetDimensions(info, shape.data(), rank));
  check(api->GetTensorShapeElementCount(info, &elements));
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check(api->GetTensorElementType(info, &element));
  buffer.width = element == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? 8 : 4;
  buffer.bytes = elements * buffer.width;
  buffer.data = static_cast<unsigned char *>(std::aligned_alloc(64, (buffer.bytes + 63) / 64 * 64));
  if (!buffer.data)
    fail("no memory");
  std::memset(buffer.data, 0, buffer.bytes);
  OrtValue *value = nullptr;
  check(api->CreateTensorWithDataAsOrtValue(memory, buffer.data, buffer.bytes, shape.data(), rank,
                                            element, &value));
  api->ReleaseTypeInfo(type);
  return value;
}

} // namespace

int main(int count, char **arguments) {
  if (count != 5)
    fail("usage: in-process-floor-onnx LIBRARY packed|plain MODEL EXAMPLES");
  ::setenv("ORT_DISABLE_TELEMETRY", "1", 0); // as the engine does
  void *library = ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(::dlerror());
  const auto getBase = reinterpret_cast<const OrtApiBase *(*)()>(::dlsym(library, "OrtGetApiBase"));
  api = getBase()->GetApi(16);
  if (!api)
    fail("no such API version");
  OrtEnv *env = nullptr;
  check(
      api->CreateEnvWithCustomLogger(dropMessage, nullptr, ORT_LOGGING_LEVEL_ERROR, "floor", &env));
  OrtMemoryInfo *memory = nullptr;
  check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  OrtSession *session = load(env, arguments[3], arguments[2] == std::string("packed"));
  OrtIoBinding *binding = nullptr;
  check(api->CreateIoBinding(session, &binding));
  OrtAllocator *allocator = nullptr;
  check(api->GetAllocatorWithDefaultOptions(&allocator));

  size_t inputCount = 0;
  check(api->SessionGetInputCount(session, &inputCount));
  std::vector<Input> inputs(inputCount);
  for (size_t i = 0; i < inputCount; ++i) {
    char *name = nullptr;
    check(api->SessionGetInputName(session, i, allocator, &name));
    OrtTypeInfo *type = nullptr;
    check(api->SessionGetInputTypeInfo(session, i, &type));
    check(api->BindInput(binding, name, makeValue(memory, type, inputs[i])));
    allocator->Free(allocator, name);
  }
  Input output{};
  char *name = nullptr;
  check(api->SessionGetOutputName(session, 0, allocator, &name));
  OrtTypeInfo *type = nullptr;
  check(api->SessionGetOutputTypeInfo(session, 0, &type));
  check(api->BindOutput(binding, name, makeValue(memory, type, output)));
  OrtRunOptions *runOptions = nullptr;
  check(api->CreateRunOptions(&runOptions));

  const auto *answer = reinterpret_cast<const float *>(output.data);
  Examples(arguments[4], inputs, output.bytes / sizeof(float)).serveLines([&] {
    check(api->RunWithBinding(session, runOptions, binding));
    return answer;
  });
  return 0;
}
