// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// c_api.h against ONNX Runtime's own header: the same functions at the same places of the table, by
// arguments of the same sizes, and the same constants.
#include "c_api.h"

#include <onnxruntime_c_api.h>
#include <onnxruntime_session_options_config_keys.h>

#include <gtest/gtest.h>

#include <cstring>

namespace {

template <typename> struct Passed;
template <typename Result, typename... Arguments> struct Passed<Result (*)(Arguments...)> {
  static constexpr size_t sizes[] = {sizeof(Arguments)..., 0};
  static constexpr size_t count = sizeof...(Arguments) + 1;
};
template <typename Result, typename... Arguments>
struct Passed<Result (*)(Arguments...) noexcept> : Passed<Result (*)(Arguments...)> {};

template <typename Ours, typename Theirs> constexpr bool isPassedAlike() {
  if (Passed<Ours>::count != Passed<Theirs>::count)
    return false;
  for (size_t i = 0; i < Passed<Ours>::count; ++i)
    if (Passed<Ours>::sizes[i] != Passed<Theirs>::sizes[i])
      return false;
  return true;
}

#define CHECK_MEMBER(type, name)                                                                   \
  static_assert(offsetof(mlbridge::onnx::type, name) == offsetof(::type, name), #name);            \
  static_assert(isPassedAlike<decltype(mlbridge::onnx::type::name), decltype(::type::name)>(),     \
                #name)
#define CHECK_VALUE(name)                                                                          \
  static_assert(static_cast<int>(mlbridge::onnx::name) == static_cast<int>(::name), #name)
#define CHECK_TEXT(name) EXPECT_STREQ(mlbridge::onnx::name, ::name)

CHECK_MEMBER(OrtApi, GetErrorCode);
CHECK_MEMBER(OrtApi, GetErrorMessage);
CHECK_MEMBER(OrtApi, CreateEnvWithCustomLogger);
CHECK_MEMBER(OrtApi, CreateSessionFromArray);
CHECK_MEMBER(OrtApi, Run);
CHECK_MEMBER(OrtApi, CreateSessionOptions);
CHECK_MEMBER(OrtApi, SetSessionExecutionMode);
CHECK_MEMBER(OrtApi, DisableMemPattern);
CHECK_MEMBER(OrtApi, DisableCpuMemArena);
CHECK_MEMBER(OrtApi, SetSessionGraphOptimizationLevel);
CHECK_MEMBER(OrtApi, SetIntraOpNumThreads);
CHECK_MEMBER(OrtApi, SetInterOpNumThreads);
CHECK_MEMBER(OrtApi, SessionGetInputCount);
CHECK_MEMBER(OrtApi, SessionGetOutputCount);
CHECK_MEMBER(OrtApi, SessionGetInputTypeInfo);
CHECK_MEMBER(OrtApi, SessionGetOutputTypeInfo);
CHECK_MEMBER(OrtApi, SessionGetInputName);
CHECK_MEMBER(OrtApi, SessionGetOutputName);
CHECK_MEMBER(OrtApi, CreateRunOptions);
CHECK_MEMBER(OrtApi, CreateTensorAsOrtValue);
CHECK_MEMBER(OrtApi, CreateTensorWithDataAsOrtValue);
CHECK_MEMBER(OrtApi, GetTensorMutableData);
CHECK_MEMBER(OrtApi, GetStringTensorDataLength);
CHECK_MEMBER(OrtApi, GetStringTensorContent);
CHECK_MEMBER(OrtApi, CastTypeInfoToTensorInfo);
CHECK_MEMBER(OrtApi, GetOnnxTypeFromTypeInfo);
CHECK_MEMBER(OrtApi, GetTensorElementType);
CHECK_MEMBER(OrtApi, GetDimensionsCount);
CHECK_MEMBER(OrtApi, GetDimensions);
CHECK_MEMBER(OrtApi, GetTensorShapeElementCount);
CHECK_MEMBER(OrtApi, GetTensorTypeAndShape);
CHECK_MEMBER(OrtApi, CreateCpuMemoryInfo);
CHECK_MEMBER(OrtApi, GetAllocatorWithDefaultOptions);
CHECK_MEMBER(OrtApi, ReleaseStatus);
CHECK_MEMBER(OrtApi, ReleaseSession);
CHECK_MEMBER(OrtApi, ReleaseValue);
CHECK_MEMBER(OrtApi, ReleaseTypeInfo);
CHECK_MEMBER(OrtApi, ReleaseTensorTypeAndShapeInfo);
CHECK_MEMBER(OrtApi, ReleaseSessionOptions);
CHECK_MEMBER(OrtApi, CastTypeInfoToSequenceTypeInfo);
CHECK_MEMBER(OrtApi, GetSequenceElementType);
CHECK_MEMBER(OrtApi, SessionGetModelMetadata);
CHECK_MEMBER(OrtApi, ModelMetadataGetProducerName);
CHECK_MEMBER(OrtApi, ModelMetadataGetGraphName);
CHECK_MEMBER(OrtApi, ModelMetadataGetDomain);
CHECK_MEMBER(OrtApi, ModelMetadataGetDescription);
CHECK_MEMBER(OrtApi, ModelMetadataLookupCustomMetadataMap);
CHECK_MEMBER(OrtApi, ReleaseModelMetadata);
CHECK_MEMBER(OrtApi, ModelMetadataGetCustomMetadataMapKeys);
CHECK_MEMBER(OrtApi, AddSessionConfigEntry);
CHECK_MEMBER(OrtApi, RunWithBinding);
CHECK_MEMBER(OrtApi, CreateIoBinding);
CHECK_MEMBER(OrtApi, ReleaseIoBinding);
CHECK_MEMBER(OrtApi, BindInput);
CHECK_MEMBER(OrtApi, BindOutput);
CHECK_MEMBER(OrtApi, BindOutputToDevice);
CHECK_MEMBER(OrtApi, GetBoundOutputValues);
CHECK_MEMBER(OrtApi, RegisterCustomOpsLibrary_V2);
CHECK_MEMBER(OrtApi, GetResizedStringTensorElementBuffer);
CHECK_MEMBER(OrtApi, AddExternalInitializersFromFilesInMemory);
CHECK_MEMBER(OrtApiBase, GetApi);
CHECK_MEMBER(OrtApiBase, GetVersionString);
CHECK_MEMBER(OrtAllocator, Free);

CHECK_VALUE(ORT_NOT_IMPLEMENTED);
CHECK_VALUE(ORT_LOGGING_LEVEL_ERROR);
CHECK_VALUE(OrtDeviceAllocator);
CHECK_VALUE(OrtMemTypeDefault);
CHECK_VALUE(ORT_SEQUENTIAL);
CHECK_VALUE(ORT_DISABLE_ALL);
CHECK_VALUE(ORT_ENABLE_BASIC);
CHECK_VALUE(ORT_ENABLE_EXTENDED);
CHECK_VALUE(ORT_ENABLE_ALL);
CHECK_VALUE(ONNX_TYPE_UNKNOWN);
CHECK_VALUE(ONNX_TYPE_MAP);
CHECK_VALUE(ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED);
CHECK_VALUE(ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);

TEST(OnnxCApi, KeysOfSessionsAreThoseOfTheHeader) {
  CHECK_TEXT(kOrtSessionOptionsConfigDisablePrepacking);
  CHECK_TEXT(kOrtSessionOptionsDisableSpecifiedOptimizers);
  CHECK_TEXT(kOrtSessionOptionsConfigAllowInterOpSpinning);
  CHECK_TEXT(kOrtSessionOptionsConfigAllowIntraOpSpinning);
  CHECK_TEXT(kOrtSessionOptionsConfigUseORTModelBytesDirectly);
  CHECK_TEXT(kOrtSessionOptionsConfigUseORTModelBytesForInitializers);
}

} // namespace
