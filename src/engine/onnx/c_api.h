// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What this engine calls of ONNX Runtime's C API, declared here so that building needs no header of
// it: functions are called by their places in a table, which no later version changes.
// c_api_test.cpp compares all of it with the library's own header;
// https://onnxruntime.ai/docs/api/c/ describes it.
#ifndef MLBRIDGE_ENGINE_ONNX_C_API_H
#define MLBRIDGE_ENGINE_ONNX_C_API_H

#include <cstddef>
#include <cstdint>

namespace mlbridge::onnx {

struct OrtEnv;
struct OrtIoBinding;
struct OrtMemoryInfo;
struct OrtModelMetadata;
struct OrtRunOptions;
struct OrtSequenceTypeInfo;
struct OrtSession;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;

enum OrtErrorCode : int { ORT_NOT_IMPLEMENTED = 9 };
enum OrtLoggingLevel { ORT_LOGGING_LEVEL_ERROR = 3 };
enum OrtAllocatorType { OrtDeviceAllocator = 0 };
enum OrtMemType { OrtMemTypeDefault = 0 };
enum ExecutionMode { ORT_SEQUENTIAL = 0 };
enum GraphOptimizationLevel {
  ORT_DISABLE_ALL = 0,
  ORT_ENABLE_BASIC = 1,
  ORT_ENABLE_EXTENDED = 2,
  ORT_ENABLE_ALL = 99
};
enum ONNXType : int { ONNX_TYPE_UNKNOWN = 0, ONNX_TYPE_MAP = 3 };
/// The values are those of ONNX's TensorProto.DataType.
enum ONNXTensorElementDataType : int {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING = 8
};

constexpr const char *kOrtSessionOptionsConfigDisablePrepacking = "session.disable_prepacking";
constexpr const char *kOrtSessionOptionsDisableSpecifiedOptimizers =
    "optimization.disable_specified_optimizers";
constexpr const char *kOrtSessionOptionsConfigAllowInterOpSpinning =
    "session.inter_op.allow_spinning";
constexpr const char *kOrtSessionOptionsConfigAllowIntraOpSpinning =
    "session.intra_op.allow_spinning";
constexpr const char *kOrtSessionOptionsConfigUseORTModelBytesDirectly =
    "session.use_ort_model_bytes_directly";
constexpr const char *kOrtSessionOptionsConfigUseORTModelBytesForInitializers =
    "session.use_ort_model_bytes_for_initializers";

struct OrtAllocator {
  uint32_t version;
  void *(*Alloc)(OrtAllocator *, size_t);
  void (*Free)(OrtAllocator *, void *);
};

using OrtLoggingFunction = void (*)(void *, OrtLoggingLevel, const char *, const char *,
                                    const char *, const char *);

template <typename... Arguments> using OrtFunction = OrtStatus *(*)(Arguments...);

struct OrtApi {
  void *unused0[1];
  OrtErrorCode (*GetErrorCode)(const OrtStatus *);
  const char *(*GetErrorMessage)(const OrtStatus *);
  void *unused3[1];
  OrtFunction<OrtLoggingFunction, void *, OrtLoggingLevel, const char *, OrtEnv **>
      CreateEnvWithCustomLogger;
  void *unused5[3];
  OrtFunction<const OrtEnv *, const void *, size_t, const OrtSessionOptions *, OrtSession **>
      CreateSessionFromArray;
  OrtFunction<OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *,
              size_t, const char *const *, size_t, OrtValue **>
      Run;
  OrtFunction<OrtSessionOptions **> CreateSessionOptions;
  void *unused11[2];
  OrtFunction<OrtSessionOptions *, ExecutionMode> SetSessionExecutionMode;
  void *unused14[3];
  OrtFunction<OrtSessionOptions *> DisableMemPattern;
  void *unused18[1];
  OrtFunction<OrtSessionOptions *> DisableCpuMemArena;
  void *unused20[3];
  OrtFunction<OrtSessionOptions *, GraphOptimizationLevel> SetSessionGraphOptimizationLevel;
  OrtFunction<OrtSessionOptions *, int> SetIntraOpNumThreads;
  OrtFunction<OrtSessionOptions *, int> SetInterOpNumThreads;
  void *unused26[4];
  OrtFunction<const OrtSession *, size_t *> SessionGetInputCount;
  OrtFunction<const OrtSession *, size_t *> SessionGetOutputCount;
  void *unused32[1];
  OrtFunction<const OrtSession *, size_t, OrtTypeInfo **> SessionGetInputTypeInfo;
  OrtFunction<const OrtSession *, size_t, OrtTypeInfo **> SessionGetOutputTypeInfo;
  void *unused35[1];
  OrtFunction<const OrtSession *, size_t, OrtAllocator *, char **> SessionGetInputName;
  OrtFunction<const OrtSession *, size_t, OrtAllocator *, char **> SessionGetOutputName;
  void *unused38[1];
  OrtFunction<OrtRunOptions **> CreateRunOptions;
  void *unused40[8];
  OrtFunction<OrtAllocator *, const int64_t *, size_t, ONNXTensorElementDataType, OrtValue **>
      CreateTensorAsOrtValue;
  OrtFunction<const OrtMemoryInfo *, void *, size_t, const int64_t *, size_t,
              ONNXTensorElementDataType, OrtValue **>
      CreateTensorWithDataAsOrtValue;
  void *unused50[1];
  OrtFunction<OrtValue *, void **> GetTensorMutableData;
  void *unused52[1];
  OrtFunction<const OrtValue *, size_t *> GetStringTensorDataLength;
  OrtFunction<const OrtValue *, void *, size_t, size_t *, size_t> GetStringTensorContent;
  OrtFunction<const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **> CastTypeInfoToTensorInfo;
  OrtFunction<const OrtTypeInfo *, ONNXType *> GetOnnxTypeFromTypeInfo;
  void *unused57[3];
  OrtFunction<const OrtTensorTypeAndShapeInfo *, ONNXTensorElementDataType *> GetTensorElementType;
  OrtFunction<const OrtTensorTypeAndShapeInfo *, size_t *> GetDimensionsCount;
  OrtFunction<const OrtTensorTypeAndShapeInfo *, int64_t *, size_t> GetDimensions;
  void *unused63[1];
  OrtFunction<const OrtTensorTypeAndShapeInfo *, size_t *> GetTensorShapeElementCount;
  OrtFunction<const OrtValue *, OrtTensorTypeAndShapeInfo **> GetTensorTypeAndShape;
  void *unused66[3];
  OrtFunction<OrtAllocatorType, OrtMemType, OrtMemoryInfo **> CreateCpuMemoryInfo;
  void *unused70[8];
  OrtFunction<OrtAllocator **> GetAllocatorWithDefaultOptions;
  void *unused79[14];
  void (*ReleaseStatus)(OrtStatus *);
  void *unused94[1];
  void (*ReleaseSession)(OrtSession *);
  void (*ReleaseValue)(OrtValue *);
  void *unused97[1];
  void (*ReleaseTypeInfo)(OrtTypeInfo *);
  void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *);
  void (*ReleaseSessionOptions)(OrtSessionOptions *);
  void *unused101[3];
  OrtFunction<const OrtTypeInfo *, const OrtSequenceTypeInfo **> CastTypeInfoToSequenceTypeInfo;
  void *unused105[2];
  OrtFunction<const OrtSequenceTypeInfo *, OrtTypeInfo **> GetSequenceElementType;
  void *unused108[3];
  OrtFunction<const OrtSession *, OrtModelMetadata **> SessionGetModelMetadata;
  OrtFunction<const OrtModelMetadata *, OrtAllocator *, char **> ModelMetadataGetProducerName;
  OrtFunction<const OrtModelMetadata *, OrtAllocator *, char **> ModelMetadataGetGraphName;
  OrtFunction<const OrtModelMetadata *, OrtAllocator *, char **> ModelMetadataGetDomain;
  OrtFunction<const OrtModelMetadata *, OrtAllocator *, char **> ModelMetadataGetDescription;
  OrtFunction<const OrtModelMetadata *, OrtAllocator *, const char *, char **>
      ModelMetadataLookupCustomMetadataMap;
  void *unused117[1];
  void (*ReleaseModelMetadata)(OrtModelMetadata *);
  void *unused119[4];
  OrtFunction<const OrtModelMetadata *, OrtAllocator *, char ***, int64_t *>
      ModelMetadataGetCustomMetadataMapKeys;
  void *unused124[6];
  OrtFunction<OrtSessionOptions *, const char *, const char *> AddSessionConfigEntry;
  void *unused131[2];
  OrtFunction<OrtSession *, const OrtRunOptions *, const OrtIoBinding *> RunWithBinding;
  OrtFunction<OrtSession *, OrtIoBinding **> CreateIoBinding;
  void (*ReleaseIoBinding)(OrtIoBinding *);
  OrtFunction<OrtIoBinding *, const char *, const OrtValue *> BindInput;
  OrtFunction<OrtIoBinding *, const char *, const OrtValue *> BindOutput;
  OrtFunction<OrtIoBinding *, const char *, const OrtMemoryInfo *> BindOutputToDevice;
  void *unused139[1];
  OrtFunction<const OrtIoBinding *, OrtAllocator *, OrtValue ***, size_t *> GetBoundOutputValues;
  void *unused141[87];
  OrtFunction<OrtSessionOptions *, const char *> RegisterCustomOpsLibrary_V2;
  void *unused229[23];
  OrtFunction<OrtValue *, size_t, size_t, char **> GetResizedStringTensorElementBuffer;
  void *unused253[26];
  OrtFunction<OrtSessionOptions *, const char *const *, char *const *, const size_t *, size_t>
      AddExternalInitializersFromFilesInMemory;
};

struct OrtApiBase {
  const OrtApi *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)();
};

} // namespace mlbridge::onnx

#endif
