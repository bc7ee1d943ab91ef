// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX Runtime's C API alone: a session whose inputs and outputs are bound beforehand.
#ifndef MLBRIDGE_BENCH_FLOOR_SESSION_H
#define MLBRIDGE_BENCH_FLOOR_SESSION_H

#include "../timed.h"

#include <onnxruntime_c_api.h>
#include <onnxruntime_session_options_config_keys.h>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <utility>
#include <vector>

namespace bench {

inline const OrtApi *api = nullptr;

/// Why a call failed; empty if it didn't.
inline std::string failureOf(OrtStatus *status) {
  if (!status)
    return {};
  std::string message = api->GetErrorMessage(status);
  api->ReleaseStatus(status);
  return message.empty() ? "unknown" : message;
}
inline void check(OrtStatus *status) {
  if (const std::string failure = failureOf(status); !failure.empty())
    fail(failure);
}

inline void ORT_API_CALL dropMessage(void *, OrtLoggingLevel, const char *, const char *,
                                     const char *, const char *) {}

inline OrtEnv *openRuntime(const char *path) {
  ::setenv("ORT_DISABLE_TELEMETRY", "1", 0); // as the engine does
  void *library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(::dlerror());
  const auto getBase = reinterpret_cast<const OrtApiBase *(*)()>(::dlsym(library, "OrtGetApiBase"));
  api = getBase()->GetApi(16);
  if (!api)
    fail("no such API version");
  OrtEnv *env = nullptr;
  const auto level = ORT_LOGGING_LEVEL_ERROR;
  check(api->CreateEnvWithCustomLogger(dropMessage, nullptr, level, "floor", &env));
  return env;
}

/// A value in memory of its own.
struct Bound {
  unsigned char *data = nullptr;
  size_t count = 0, width = 0; ///< elements, and the bytes of one
  OrtValue *value = nullptr;
};

/// A model whose inputs have fixed shapes.
class Session {
public:
  /// `isPacked` lets ONNX Runtime rearrange weights when it loads them, which is faster for some
  /// models. A model that can't be opened leaves its message in `failure`.
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
    failure = failureOf(api->CreateSession(env, path, options, &session_));
    api->ReleaseSessionOptions(options);
    if (!failure.empty())
      return;
    check(api->CreateRunOptions(&options_));
    check(api->CreateIoBinding(session_, &binding_));
    OrtAllocator *allocator = nullptr;
    check(api->GetAllocatorWithDefaultOptions(&allocator));
    char *name = nullptr;
    OrtTypeInfo *type = nullptr;
    size_t count = 0;
    check(api->SessionGetInputCount(session_, &count));
    for (size_t i = 0; i < count; ++i) {
      check(api->SessionGetInputName(session_, i, allocator, &name));
      check(api->SessionGetInputTypeInfo(session_, i, &type));
      inputs.push_back(made(type));
      check(api->BindInput(binding_, name, inputs.back().value));
      check(api->AllocatorFree(allocator, name));
    }
    check(api->SessionGetOutputCount(session_, &count));
    for (size_t i = 0; i < count; ++i) {
      check(api->SessionGetOutputName(session_, i, allocator, &name));
      check(api->SessionGetOutputTypeInfo(session_, i, &type));
      outputs.push_back(made(type));
      if (outputs.back().value)
        check(api->BindOutput(binding_, name, outputs.back().value));
      else
        check(api->BindOutputToDevice(binding_, name, memory_));
      check(api->AllocatorFree(allocator, name));
    }
  }
  Session(Session &&other) noexcept
      : failure(std::move(other.failure)), inputs(std::move(other.inputs)),
        outputs(std::move(other.outputs)), memory_(std::exchange(other.memory_, nullptr)),
        session_(std::exchange(other.session_, nullptr)),
        binding_(std::exchange(other.binding_, nullptr)),
        options_(std::exchange(other.options_, nullptr)) {}
  ~Session() {
    for (const std::vector<Bound> *all : {&inputs, &outputs})
      for (const Bound &bound : *all) {
        if (bound.value)
          api->ReleaseValue(bound.value);
        std::free(bound.data);
      }
    if (binding_)
      api->ReleaseIoBinding(binding_);
    if (options_)
      api->ReleaseRunOptions(options_);
    if (session_)
      api->ReleaseSession(session_);
    if (memory_)
      api->ReleaseMemoryInfo(memory_);
  }

  /// Why the evaluation failed; empty if it didn't.
  std::string tried() const { return failureOf(api->RunWithBinding(session_, options_, binding_)); }
  void run() const { check(api->RunWithBinding(session_, options_, binding_)); }

  std::string failure;
  std::vector<Bound> inputs;
  std::vector<Bound> outputs; ///< without memory where the length isn't fixed

private:
  Bound made(OrtTypeInfo *type) {
    if (!memory_)
      check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory_));
    const OrtTensorTypeAndShapeInfo *info = nullptr;
    check(api->CastTypeInfoToTensorInfo(type, &info));
    Bound to;
    size_t rank = 0;
    check(api->GetDimensionsCount(info, &rank));
    std::vector<int64_t> shape(rank);
    check(api->GetDimensions(info, shape.data(), rank));
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    check(api->GetTensorElementType(info, &element));
    to.width = widthOf(element);
    to.count = 1;
    for (const int64_t length : shape) {
      if (length < 0) {
        api->ReleaseTypeInfo(type);
        return {};
      }
      to.count *= static_cast<size_t>(length);
    }
    const size_t bytes = to.count * to.width;
    to.data = static_cast<unsigned char *>(std::aligned_alloc(64, bytes / 64 * 64 + 64));
    if (!to.data)
      fail("no memory");
    std::memset(to.data, 0, bytes);
    check(api->CreateTensorWithDataAsOrtValue(memory_, to.data, bytes, shape.data(), rank, element,
                                              &to.value));
    api->ReleaseTypeInfo(type);
    return to;
  }
  static size_t widthOf(ONNXTensorElementDataType element) {
    switch (element) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return 1;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return 2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return 8;
    default:
      return 4;
    }
  }

  OrtMemoryInfo *memory_ = nullptr;
  OrtSession *session_ = nullptr;
  OrtIoBinding *binding_ = nullptr;
  OrtRunOptions *options_ = nullptr;
};

} // namespace bench

#endif
