// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An operator that ONNX does not have, as a library that ONNX Runtime loads: Bucketize, which the
// feature columns of TensorFlow policies (the MLGO inliner's among them) begin with. It gives for
// each value the number of boundaries that are not greater; NaN lies after all of them.
//
//   onnx:policy.onnx?custom_ops=libbucketize.so
//
// Boundaries are the attribute `boundaries`, in ascending order, as in TensorFlow. Values are
// float32, and so are boundaries, bucket numbers int32. The domain is the one that tf2onnx puts
// operators into that it does not know. Only the C interface is used, of the oldest version that
// has what is needed, so that one build works with every later ONNX Runtime.
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <new>
#include <vector>

namespace {

constexpr uint32_t ApiVersion = 16;
constexpr const char *Domain = "ai.onnx.converters.tensorflow";

struct Bucketize {
  const OrtApi *api;
  std::vector<float> boundaries;

  OrtStatus *readBoundaries(const OrtKernelInfo *info) {
    size_t count = 0;
    if (OrtStatus *failure =
            api->KernelInfoGetAttributeArray_float(info, "boundaries", nullptr, &count))
      return failure;
    boundaries.resize(count);
    if (OrtStatus *failure =
            api->KernelInfoGetAttributeArray_float(info, "boundaries", boundaries.data(), &count))
      return failure;
    if (!std::is_sorted(boundaries.begin(), boundaries.end()))
      return api->CreateStatus(ORT_INVALID_ARGUMENT, "Bucketize: boundaries are not ascending");
    return nullptr;
  }

  OrtStatus *compute(OrtKernelContext *context) const {
    const OrtValue *input = nullptr;
    OrtValue *output = nullptr;
    OrtTensorTypeAndShapeInfo *info = nullptr;
    const void *values = nullptr;
    void *buckets = nullptr;
    size_t rank = 0, count = 0;
    OrtStatus *failure = nullptr;
    const auto ok = [&](OrtStatus *status) { return (failure = status) == nullptr; };
    bool isRead = ok(api->KernelContext_GetInput(context, 0, &input)) &&
                  ok(api->GetTensorTypeAndShape(input, &info)) &&
                  ok(api->GetDimensionsCount(info, &rank));
    std::vector<int64_t> shape(rank);
    isRead = isRead && ok(api->GetDimensions(info, shape.data(), rank)) &&
             ok(api->GetTensorShapeElementCount(info, &count));
    if (info)
      api->ReleaseTensorTypeAndShapeInfo(info);
    // GetTensorMutableData only reads, in spite of its name.
    if (!isRead || !ok(api->KernelContext_GetOutput(context, 0, shape.data(), rank, &output)) ||
        !ok(api->GetTensorMutableData(const_cast<OrtValue *>(input),
                                      const_cast<void **>(&values))) ||
        !ok(api->GetTensorMutableData(output, &buckets)))
      return failure;
    const auto *from = static_cast<const float *>(values);
    std::transform(from, from + count, static_cast<int32_t *>(buckets), [this](float value) {
      return static_cast<int32_t>(std::upper_bound(boundaries.begin(), boundaries.end(), value) -
                                  boundaries.begin());
    });
    return nullptr;
  }
};

OrtStatus *create(const OrtCustomOp *, const OrtApi *api, const OrtKernelInfo *info,
                  void **kernel) noexcept {
  try {
    auto *made = new Bucketize{api, {}};
    OrtStatus *failure = made->readBoundaries(info);
    if (failure)
      delete made;
    else
      *kernel = made;
    return failure;
  } catch (const std::bad_alloc &) {
    return api->CreateStatus(ORT_FAIL, "Bucketize: out of memory");
  }
}

OrtStatus *compute(void *kernel, OrtKernelContext *context) noexcept {
  const auto *self = static_cast<const Bucketize *>(kernel);
  try {
    return self->compute(context);
  } catch (const std::bad_alloc &) {
    return self->api->CreateStatus(ORT_FAIL, "Bucketize: out of memory");
  }
}

OrtCustomOp description() {
  OrtCustomOp op = {};
  op.version = ApiVersion;
  op.CreateKernelV2 = create;
  op.KernelComputeV2 = compute;
  op.KernelDestroy = [](void *kernel) { delete static_cast<Bucketize *>(kernel); };
  op.GetName = [](const OrtCustomOp *) { return "Bucketize"; };
  op.GetExecutionProviderType = [](const OrtCustomOp *) -> const char * { return nullptr; };
  op.GetInputTypeCount = [](const OrtCustomOp *) { return size_t(1); };
  op.GetInputType = [](const OrtCustomOp *, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
  op.GetInputCharacteristic = [](const OrtCustomOp *, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op.GetInputMemoryType = [](const OrtCustomOp *, size_t) { return OrtMemTypeDefault; };
  op.GetOutputTypeCount = [](const OrtCustomOp *) { return size_t(1); };
  op.GetOutputType = [](const OrtCustomOp *, size_t) {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
  };
  op.GetOutputCharacteristic = [](const OrtCustomOp *, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op.GetVariadicInputMinArity = [](const OrtCustomOp *) { return 0; };
  op.GetVariadicInputHomogeneity = [](const OrtCustomOp *) { return 0; };
  op.GetVariadicOutputMinArity = [](const OrtCustomOp *) { return 0; };
  op.GetVariadicOutputHomogeneity = [](const OrtCustomOp *) { return 0; };
  return op;
}

} // namespace

// ONNX Runtime calls it once for each session.
extern "C" __attribute__((visibility("default"))) OrtStatus *
RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  static const OrtApi *const api = base->GetApi(ApiVersion);
  static const OrtCustomOp op = description();
  // Sessions refer to it for as long as they live; one for this library, since copies share it, and
  // gone with it when the library is closed.
  static const struct Owned {
    OrtCustomOpDomain *domain = nullptr;
    OrtStatus *failure = api->CreateCustomOpDomain(Domain, &domain);
    Owned() {
      if (!failure)
        failure = api->CustomOpDomain_Add(domain, &op);
    }
    ~Owned() {
      if (failure)
        api->ReleaseStatus(failure);
      if (domain)
        api->ReleaseCustomOpDomain(domain);
    }
  } owned;
  if (owned.failure)
    return api->CreateStatus(ORT_FAIL, "Bucketize: its domain could not be made");
  return api->AddCustomOpDomain(options, owned.domain);
}
