// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the onnx engine: ONNX Runtime's C API alone, nothing of the library. A session has
// the options that the engine gives it, and everything is bound beforehand.
//
//   floor-onnx LIBRARY sweep|small MODEL...             of a sweep a model for each size
//   floor-onnx LIBRARY packed|plain MODEL EXAMPLES
//
// Standard input and output as for round-trip-client and for in-process-client.
#include "../in-process/examples.h"
#include "../round-trip/expected.h"

#include <onnxruntime_c_api.h>
#include <onnxruntime_session_options_config_keys.h>

#include <cstring>
#include <dlfcn.h>
#include <vector>

namespace {

using bench::fail;

const OrtApi *api = nullptr;

void check(OrtStatus *status) {
  if (status)
    fail(api->GetErrorMessage(status));
}

void ORT_API_CALL dropMessage(void *, OrtLoggingLevel, const char *, const char *, const char *,
                              const char *) {}

OrtEnv *openRuntime(const char *path) {
  ::setenv("ORT_DISABLE_TELEMETRY", "1", 0); // as the engine does
  void *library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(::dlerror());
  const auto getBase = reinterpret_cast<const OrtApiBase *(*)()>(::dlsym(library, "OrtGetApiBase"));
  api = getBase()->GetApi(16);
  if (!api)
    fail("no such API version");
  OrtEnv *env = nullptr;
  check(
      api->CreateEnvWithCustomLogger(dropMessage, nullptr, ORT_LOGGING_LEVEL_ERROR, "floor", &env));
  return env;
}

/// A value in memory of its own.
struct Bound {
  unsigned char *data = nullptr;
  size_t count = 0, width = 0; ///< elements, and the bytes of one
  OrtValue *value = nullptr;
};

/// A model whose inputs and first output have fixed shapes, and are int64 or float32.
class Session {
public:
  /// `isPacked` lets ONNX Runtime rearrange weights when it loads them, which is faster for some
  /// models.
  Session(const OrtEnv *env, const char *path, bool isPacked) {
    OrtSessionOptions *options = nullptr;
    check(api->CreateSessionOptions(&options));
    check(api->SetIntraOpNumThreads(options, 1));
    check(api->SetInterOpNumThreads(options, 1));
    check(api->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
    check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigAllowIntraOpSpinning, "0"));
    check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigAllowInterOpSpinning, "0"));
    if (!isPacked)
      check(api->AddSessionConfigEntry(options, kOrtSessionOptionsConfigDisablePrepacking, "1"));
    check(api->CreateSession(env, path, options, &session_));
    api->ReleaseSessionOptions(options);
    check(api->CreateRunOptions(&options_));
    check(api->CreateIoBinding(session_, &binding_));
    OrtAllocator *allocator = nullptr;
    check(api->GetAllocatorWithDefaultOptions(&allocator));
    size_t inputCount = 0;
    check(api->SessionGetInputCount(session_, &inputCount));
    char *name = nullptr;
    OrtTypeInfo *type = nullptr;
    for (size_t i = 0; i < inputCount; ++i) {
      check(api->SessionGetInputName(session_, i, allocator, &name));
      check(api->SessionGetInputTypeInfo(session_, i, &type));
      inputs.push_back(made(type));
      check(api->BindInput(binding_, name, inputs.back().value));
      allocator->Free(allocator, name);
    }
    check(api->SessionGetOutputName(session_, 0, allocator, &name));
    check(api->SessionGetOutputTypeInfo(session_, 0, &type));
    output = made(type);
    check(api->BindOutput(binding_, name, output.value));
    allocator->Free(allocator, name);
  }

  void run() const { check(api->RunWithBinding(session_, options_, binding_)); }

  std::vector<Bound> inputs;
  Bound output;

private:
  static Bound made(OrtTypeInfo *type) {
    const OrtTensorTypeAndShapeInfo *info = nullptr;
    check(api->CastTypeInfoToTensorInfo(type, &info));
    Bound to;
    size_t rank = 0;
    check(api->GetDimensionsCount(info, &rank));
    std::vector<int64_t> shape(rank);
    check(api->GetDimensions(info, shape.data(), rank));
    check(api->GetTensorShapeElementCount(info, &to.count));
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    check(api->GetTensorElementType(info, &element));
    to.width = element == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? 8 : 4;
    const size_t bytes = to.count * to.width;
    to.data = static_cast<unsigned char *>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (!to.data)
      fail("no memory");
    std::memset(to.data, 0, bytes);
    OrtMemoryInfo *memory = nullptr;
    check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
    check(api->CreateTensorWithDataAsOrtValue(memory, to.data, bytes, shape.data(), rank, element,
                                              &to.value));
    api->ReleaseMemoryInfo(memory);
    api->ReleaseTypeInfo(type);
    return to;
  }

  OrtSession *session_ = nullptr;
  OrtIoBinding *binding_ = nullptr;
  OrtRunOptions *options_ = nullptr;
};

} // namespace

int main(int count, char **arguments) {
  const std::string mode = count > 3 ? arguments[2] : "";
  const bool sweep = mode == "sweep", small = mode == "small", packed = mode == "packed";
  const int models = sweep ? roundtrip::LargestSize / roundtrip::SizeStep : 1;
  if (count != 3 + models + (sweep || small ? 0 : 1))
    fail("usage: floor-onnx LIBRARY sweep|small MODEL... | LIBRARY packed|plain MODEL EXAMPLES");
  OrtEnv *const env = openRuntime(arguments[1]);
  std::vector<Session> sessions;
  for (int i = 0; i < models; ++i)
    sessions.emplace_back(env, arguments[3 + i], packed);
  const Session &first = sessions.front();
  if (sweep) {
    roundtrip::serveSweep([&](const float *x, size_t size) {
      const Session &session = sessions[size / roundtrip::SizeStep - 1];
      std::memcpy(session.inputs[0].data, x, size * sizeof(float));
      session.run();
      return *reinterpret_cast<const float *>(session.output.data);
    });
  } else if (small) {
    roundtrip::serveSmall(reinterpret_cast<float *>(first.inputs[0].data), [&] {
      first.run();
      return *reinterpret_cast<const int64_t *>(first.output.data);
    });
  } else {
    std::vector<inprocess::Input> inputs;
    for (const Bound &input : first.inputs)
      inputs.push_back({input.data, input.count * input.width, input.width});
    const auto *answer = reinterpret_cast<const float *>(first.output.data);
    inprocess::Examples(arguments[4], inputs, first.output.count).serveLines([&] {
      first.run();
      return answer;
    });
  }
  return 0;
}
