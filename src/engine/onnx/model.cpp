// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading: the file, the session with options for small batch-1 networks, signature and metadata.
#include "model.h"

#include "core/component_values.h"
#include "core/nearest.h"
#include "engine/file.h"
#include "engine/onnx_format.h"

#include <onnxruntime_session_options_config_keys.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <unistd.h>

namespace mlbridge::onnx {
namespace {

constexpr uint64_t ModelLimit = (uint64_t(1) << 31) - 1; // of protobuf
constexpr uint64_t ExternalLimit = uint64_t(1) << 33;

/// An object of the C API, released at the end of the scope.
template <typename T> class Scoped {
public:
  explicit Scoped(void(ORT_API_CALL *release)(T *)) : release_(release) {}
  Scoped(const Scoped &) = delete;
  Scoped &operator=(const Scoped &) = delete;
  ~Scoped() {
    if (object_)
      release_(object_);
  }
  T **out() { return &object_; }
  T *get() const { return object_; }

private:
  void(ORT_API_CALL *release_)(T *);
  T *object_ = nullptr;
};

/// Takes a string that the allocator gave out.
std::string takeText(const Runtime &runtime, char *text) {
  std::string copy = text ? text : "";
  if (text)
    runtime.allocator->Free(runtime.allocator, text);
  return copy;
}

/// Hands the external files to the session's options; they have to live until it is made.
Status addExternalFiles(const Runtime &runtime, const std::string &path, bool isFile,
                        const Buffer &bytes, OrtSessionOptions *options,
                        std::vector<Buffer> &contents) {
  Expected<ExternalFiles> files = externalFiles(bytes.span());
  if (!files)
    return files.status().withContext(path);
  if (files->empty())
    return Status();
  if (!isFile)
    return makeError(Code::Unsupported, path, " keeps weights in '", files->begin()->first,
                     "', but was opened from memory; save it as one file");
  if (!runtime.externalData)
    return makeError(Code::Unsupported, path, " keeps weights in '", files->begin()->first,
                     "', which needs ONNX Runtime 1.18 or newer; this is ", runtime.version,
                     "; save the model as one file");
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : path.substr(0, slash + 1);
  std::vector<const char *> names;
  std::vector<char *> data;
  std::vector<size_t> sizes;
  for (const auto &[name, used] : *files) {
    Expected<Buffer> content = engine::readFile(std::string(folder).append(name), ExternalLimit);
    if (!content)
      return content.status().withContext(path + ": its weights");
    if (content->size() < used)
      return makeError(Code::InvalidModel, std::string(path).append(": '").append(name), "' has ",
                       content->size(), " bytes, expected at least ", used);
    contents.push_back(std::move(*content));
    names.push_back(name.c_str());
    data.push_back(reinterpret_cast<char *>(contents.back().data()));
    sizes.push_back(contents.back().size());
  }
  return take(runtime.api,
              runtime.api->AddExternalInitializersFromFilesInMemory(
                  options, names.data(), data.data(), sizes.data(), names.size()),
              Code::InvalidModel, path);
}

Status addCustomOps(const OrtApi *api, const std::vector<std::string> &files,
                    OrtSessionOptions *to) {
  for (const std::string &file : files) {
    const std::string where = "custom operators '" + file + "'";
    if (::access(file.c_str(), R_OK) != 0)
      return makeError(Code::NotFound, where,
                       " cannot be read: ", std::generic_category().message(errno));
    // A name without a slash would be looked up elsewhere.
    const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
    if (Status s = take(api, api->RegisterCustomOpsLibrary_V2(to, path.c_str()),
                        Code::InvalidArgument, where);
        !s)
      return s;
  }
  return Status();
}

Status setOptions(const OrtApi *api, const Options &options, bool prepack, OrtSessionOptions *to) {
  std::vector<std::pair<std::string, std::string>> config = {
      {kOrtSessionOptionsConfigAllowIntraOpSpinning, options.spin ? "1" : "0"},
      {kOrtSessionOptionsConfigAllowInterOpSpinning, options.spin ? "1" : "0"},
      {kOrtSessionOptionsConfigDisablePrepacking, prepack ? "0" : "1"},
      // Of a file in ORT format: what was read is used in place.
      {kOrtSessionOptionsConfigUseORTModelBytesDirectly, "1"},
      {kOrtSessionOptionsConfigUseORTModelBytesForInitializers, "1"},
  };
  config.insert(config.end(), options.config.begin(), options.config.end());
  Status s;
  const auto ok = [&](OrtStatus *status, const std::string &what) {
    s = take(api, status, Code::InvalidArgument, "options of the session: " + what);
    return s.ok();
  };
  if (!ok(api->SetIntraOpNumThreads(to, options.threads), "threads") ||
      !ok(api->SetInterOpNumThreads(to, 1), "threads") ||
      !ok(api->SetSessionExecutionMode(to, ORT_SEQUENTIAL), "execution mode") ||
      !ok(api->SetSessionGraphOptimizationLevel(to, options.optimize), "optimize") ||
      (!options.arena && !ok(api->DisableCpuMemArena(to), "arena")) ||
      (!options.pattern && !ok(api->DisableMemPattern(to), "pattern")))
    return s;
  for (const auto &[key, value] : config)
    if (!ok(api->AddSessionConfigEntry(to, key.c_str(), value.c_str()), key))
      return s;
  return addCustomOps(api, options.customOps, to);
}

/// Whether the bytes are ONNX Runtime's own format (a flat buffer, with this identifier).
bool isOrtFormat(const Buffer &bytes) {
  return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, "ORTM", 4) == 0;
}

/// Reads the spec of an input or output from its type.
Status readSpec(const OrtApi *api, const OrtTypeInfo *type, const std::string &who,
                TensorSpec &spec) {
  Status s;
  const auto ok = [&](OrtStatus *status) {
    s = take(api, status, Code::InvalidModel, who);
    return s.ok();
  };
  const OrtTensorTypeAndShapeInfo *info = nullptr;
  if (!ok(api->CastTypeInfoToTensorInfo(type, &info)))
    return s;
  if (!info)
    return makeError(Code::Unsupported, who,
                     " is a sequence, a map or optional; only tensors are supported");
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  if (!ok(api->GetTensorElementType(info, &element)) || !ok(api->GetDimensionsCount(info, &rank)))
    return s;
  const std::optional<ElementType> known = engine::fromOnnx(element);
  if (!known)
    return makeError(Code::Unsupported, who, " has elements of ONNX type ", element,
                     ", which MLBridge does not support");
  spec.type = *known;
  spec.shape.resize(rank);
  if (!ok(api->GetDimensions(info, spec.shape.data(), rank)))
    return s;
  for (int64_t &length : spec.shape)
    length = std::max(length, Dynamic);
  return Status();
}

/// Inputs or outputs of a session, by the functions of the C API for them.
struct Side {
  const char *what;
  OrtStatus *(ORT_API_CALL *count)(const OrtSession *, size_t *);
  OrtStatus *(ORT_API_CALL *name)(const OrtSession *, size_t, OrtAllocator *, char **);
  OrtStatus *(ORT_API_CALL *type)(const OrtSession *, size_t, OrtTypeInfo **);
};

Status readSpecs(const Runtime &runtime, const OrtSession *session, const Side &side,
                 std::vector<TensorSpec> &specs) {
  const OrtApi *api = runtime.api;
  size_t count = 0;
  std::string who = side.what;
  Status s;
  const auto ok = [&](OrtStatus *status) {
    s = take(api, status, Code::InvalidModel, who);
    return s.ok();
  };
  if (!ok(side.count(session, &count)))
    return s;
  for (size_t i = 0; i < count; ++i) {
    who = std::string(side.what) + " " + std::to_string(i);
    char *name = nullptr;
    if (!ok(side.name(session, i, runtime.allocator, &name)))
      return s;
    TensorSpec spec;
    spec.name = takeText(runtime, name);
    if (spec.name.empty() || !isUtf8(spec.name))
      return makeError(Code::InvalidModel, who, " has no name, or one that is not UTF-8");
    who = std::string(side.what) + " '" + spec.name + "'";
    Scoped<OrtTypeInfo> type(api->ReleaseTypeInfo);
    if (!ok(side.type(session, i, type.out())))
      return s;
    if (s = readSpec(api, type.get(), who, spec); !s)
      return s;
    specs.push_back(std::move(spec));
  }
  return Status();
}

std::vector<const char *> cNames(const std::vector<TensorSpec> &specs) {
  std::vector<const char *> names;
  for (const TensorSpec &spec : specs)
    names.push_back(spec.name.c_str());
  return names;
}

} // namespace

Expected<std::unique_ptr<Model>> Model::open(const std::string &path, const Options &options,
                                             const Span<const uint8_t> *memory) {
  // First what costs least: starting ONNX Runtime takes tens of milliseconds.
  Expected<Buffer> bytes =
      memory ? engine::copyBytes(*memory, ModelLimit) : engine::readFile(path, ModelLimit);
  if (!bytes)
    return bytes.status();
  if (bytes->empty())
    return makeError(Code::InvalidModel, path, " is empty");
  Expected<const Runtime *> runtime = loadRuntime(options.runtime);
  if (!runtime)
    return runtime.status();
  std::unique_ptr<Model> model(new Model(**runtime));
  if (Status s = model->load(path, std::move(*bytes), options, !memory); !s)
    return s;
  Status s = model->readSignature();
  if (s)
    s = model->readMetadata();
  if (!s)
    return s.withContext(path);
  return model;
}

Model::~Model() {
  if (session_)
    runtime_.api->ReleaseSession(session_);
}

Status Model::load(const std::string &path, Buffer bytes, const Options &options, bool isFile) {
  const OrtApi *api = runtime_.api;
  Scoped<OrtSessionOptions> sessionOptions(api->ReleaseSessionOptions);
  if (Status s = take(api, api->CreateSessionOptions(sessionOptions.out()), Code::Internal, path);
      !s)
    return s;
  const bool prepack = options.prepack ? *options.prepack : engine::paysToPrepack(bytes.span());
  if (Status s = setOptions(api, options, prepack, sessionOptions.get()); !s)
    return s;
  std::vector<Buffer> contents;
  const bool isOrt = isOrtFormat(bytes);
  if (!isOrt)
    if (Status s = addExternalFiles(runtime_, path, isFile, bytes, sessionOptions.get(), contents);
        !s)
      return s;

  const std::lock_guard<std::mutex> lock(runtime_.sessions);
  Status made = take(api,
                     api->CreateSessionFromArray(runtime_.env, bytes.data(), bytes.size(),
                                                 sessionOptions.get(), &session_),
                     Code::InvalidModel, path + " cannot be loaded");
  if (made && isOrt)
    bytes_ = std::move(bytes); // where its memory lies stays
  return made;
}

Status Model::readSignature() {
  const OrtApi *api = runtime_.api;
  const Side inputs{"input", api->SessionGetInputCount, api->SessionGetInputName,
                    api->SessionGetInputTypeInfo};
  const Side outputs{"output", api->SessionGetOutputCount, api->SessionGetOutputName,
                     api->SessionGetOutputTypeInfo};
  if (Status s = readSpecs(runtime_, session_, inputs, signature_.inputs); !s)
    return s;
  if (Status s = readSpecs(runtime_, session_, outputs, signature_.outputs); !s)
    return s;
  inputNames_ = cNames(signature_.inputs);
  outputNames_ = cNames(signature_.outputs);
  inputSpecs_ = toComponent(signature_.inputs);
  outputSpecs_ = toComponent(signature_.outputs);
  return Status();
}

Status Model::readMetadata() {
  const OrtApi *api = runtime_.api;
  OrtAllocator *allocator = runtime_.allocator;
  Status s;
  const auto ok = [&](OrtStatus *status) {
    s = take(api, status, Code::InvalidModel, "metadata");
    return s.ok();
  };
  Scoped<OrtModelMetadata> source(api->ReleaseModelMetadata);
  char **keys = nullptr;
  int64_t size = 0;
  if (!ok(api->SessionGetModelMetadata(session_, source.out())) ||
      !ok(api->ModelMetadataGetCustomMetadataMapKeys(source.get(), allocator, &keys, &size)))
    return s;
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i)
    names.push_back(takeText(runtime_, keys[i]));
  if (keys)
    allocator->Free(allocator, static_cast<void *>(keys));
  for (std::string &name : names) {
    char *value = nullptr;
    if (!ok(api->ModelMetadataLookupCustomMetadataMap(source.get(), allocator, name.c_str(),
                                                      &value)))
      return s;
    metadata_.emplace_back(std::move(name), takeText(runtime_, value));
  }

  struct Field {
    const char *key;
    OrtStatus *(ORT_API_CALL *read)(const OrtModelMetadata *, OrtAllocator *, char **);
  };
  for (const Field &field : {Field{"onnx.producer", api->ModelMetadataGetProducerName},
                             Field{"onnx.graph", api->ModelMetadataGetGraphName},
                             Field{"onnx.domain", api->ModelMetadataGetDomain},
                             Field{"onnx.description", api->ModelMetadataGetDescription}}) {
    char *value = nullptr;
    if (!ok(field.read(source.get(), allocator, &value)))
      return s;
    if (std::string text = takeText(runtime_, value); !text.empty())
      metadata_.emplace_back(field.key, std::move(text));
  }
  metadata_.emplace_back("onnx.runtime", runtime_.version);

  // A property of the file with one of these names stays.
  std::stable_sort(metadata_.begin(), metadata_.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  metadata_.erase(std::unique(metadata_.begin(), metadata_.end(),
                              [](const auto &a, const auto &b) { return a.first == b.first; }),
                  metadata_.end());
  for (const auto &[key, value] : metadata_)
    if (!isUtf8(key) || !isUtf8(value))
      return makeError(Code::InvalidModel, "a metadata property is not UTF-8",
                       isUtf8(key) ? ": " + key : std::string());
  return Status();
}

} // namespace mlbridge::onnx
