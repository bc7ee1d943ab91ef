// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading: the file, the session with options for small batch-1 networks, signature and metadata.
#include "model.h"

#include "core/component_values.h"
#include "core/message.h"
#include "core/utf8.h"
#include "engine/file.h"
#include "engine/onnx_format.h"
#include "engine/onnx_guards.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace mlbridge::onnx {
namespace {

constexpr uint64_t ModelLimit = (uint64_t(1) << 31) - 1; // of protobuf
constexpr int ExternalDataMinor = 18;                    // from memory
constexpr uint64_t ExternalLimit = uint64_t(1) << 33;

constexpr char StateShapes[] = "state it when you export the model, or add it with "
                               "onnx.shape_inference.infer_shapes";

/// An object of the C API, released at the end of the scope.
template <typename T> class Scoped {
public:
  explicit Scoped(void (*release)(T *)) : release_(release) {}
  Scoped(const Scoped &) = delete;
  Scoped &operator=(const Scoped &) = delete;
  ~Scoped() {
    if (object_)
      release_(object_);
  }
  T **out() { return &object_; }
  T *get() const { return object_; }

private:
  void (*release_)(T *);
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
  if (!runtime.isAtLeast(ExternalDataMinor))
    return makeError(Code::Unsupported, path, " keeps weights in '", files->begin()->first,
                     "', which needs ONNX Runtime 1.18 or newer; this is ", runtime.version,
                     "; save the model as one file");
  const std::string folder = engine::folderOf(path);
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

/// Turns Transpose before MatMul into FusedMatMul, which reads a matrix transposed before a vector
/// as if it were not; of all versions until 1.32 at least. (onnx_hazards_test.py says when that
/// ends.)
constexpr char WrongOptimizer[] = "MatmulTransposeFusion";
constexpr int OptimizersByNameMinor = 18;

/// Older versions can't leave out one optimizer. These only apply those of the level `basic`.
GraphOptimizationLevel levelFor(const Runtime &runtime, GraphOptimizationLevel wanted) {
  return runtime.isAtLeast(OptimizersByNameMinor) ? wanted : std::min(wanted, ORT_ENABLE_BASIC);
}

Status setOptions(const Runtime &runtime, const Options &options, bool prepack,
                  OrtSessionOptions *to) {
  const OrtApi *api = runtime.api;
  std::vector<std::pair<std::string, std::string>> config = {
      {kOrtSessionOptionsConfigAllowIntraOpSpinning, options.spin ? "1" : "0"},
      {kOrtSessionOptionsConfigAllowInterOpSpinning, options.spin ? "1" : "0"},
      {kOrtSessionOptionsConfigDisablePrepacking, prepack ? "0" : "1"},
      {kOrtSessionOptionsDisableSpecifiedOptimizers, WrongOptimizer},
      // The bytes of a file in ORT format are used in place.
      {kOrtSessionOptionsConfigUseORTModelBytesDirectly, "1"},
      {kOrtSessionOptionsConfigUseORTModelBytesForInitializers, "1"},
  };
  config.insert(config.end(), options.config.begin(), options.config.end());
  Status s;
  const auto ok = [&](OrtStatus *status, const std::string &option) {
    s = take(api, status, Code::InvalidArgument, "options of the session: " + option);
    return s.ok();
  };
  if (!ok(api->SetIntraOpNumThreads(to, options.threads), "threads") ||
      !ok(api->SetInterOpNumThreads(to, 1), "threads") ||
      !ok(api->SetSessionExecutionMode(to, ORT_SEQUENTIAL), "execution mode") ||
      !ok(api->SetSessionGraphOptimizationLevel(to, levelFor(runtime, options.optimize)),
          "optimize") ||
      (!options.arena && !ok(api->DisableCpuMemArena(to), "arena")) ||
      (!options.pattern && !ok(api->DisableMemPattern(to), "pattern")))
    return s;
  for (const auto &[key, value] : config)
    if (!ok(api->AddSessionConfigEntry(to, key.c_str(), value.c_str()), key))
      return s;
  return addCustomOps(api, options.customOps, to);
}

/// True for the type that ZipMap makes of a classifier's probabilities.
bool isListOfMaps(const OrtApi *api, const OrtTypeInfo *type) {
  const OrtSequenceTypeInfo *sequence = nullptr;
  Scoped<OrtTypeInfo> element(api->ReleaseTypeInfo);
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  const auto ok = [api](OrtStatus *status) {
    return take(api, status, Code::InvalidModel, {}).ok();
  };
  return ok(api->CastTypeInfoToSequenceTypeInfo(type, &sequence)) && sequence &&
         ok(api->GetSequenceElementType(sequence, element.out())) &&
         ok(api->GetOnnxTypeFromTypeInfo(element.get(), &kind)) && kind == ONNX_TYPE_MAP;
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
                     isListOfMaps(api, type)
                         ? " is a sequence of maps; export the classifier with zipmap=False"
                         : " is a sequence, a map or optional; only tensors are supported");
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
  const char *kind;
  OrtStatus *(*count)(const OrtSession *, size_t *);
  OrtStatus *(*name)(const OrtSession *, size_t, OrtAllocator *, char **);
  OrtStatus *(*type)(const OrtSession *, size_t, OrtTypeInfo **);
};

/// `leftOut`: what has no spec, and why; null if all of them have to have one.
Status readSpecs(const Runtime &runtime, const OrtSession *session, const Side &side,
                 std::vector<TensorSpec> &specs,
                 std::vector<std::pair<std::string, Status>> *leftOut) {
  const OrtApi *api = runtime.api;
  size_t count = 0;
  std::string who = side.kind;
  Status s;
  const auto ok = [&](OrtStatus *status) {
    s = take(api, status, Code::InvalidModel, who);
    return s.ok();
  };
  if (!ok(side.count(session, &count)))
    return s;
  for (size_t i = 0; i < count; ++i) {
    who = std::string(side.kind) + " " + std::to_string(i);
    char *name = nullptr;
    if (!ok(side.name(session, i, runtime.allocator, &name)))
      return s;
    TensorSpec spec;
    spec.name = takeText(runtime, name);
    if (spec.name.empty() || !isUtf8(spec.name))
      return makeError(Code::InvalidModel, who, " has no name, or one that is not UTF-8");
    who = std::string(side.kind) + " '" + spec.name + "'";
    Scoped<OrtTypeInfo> type(api->ReleaseTypeInfo);
    if (!ok(side.type(session, i, type.out())))
      return s;
    s = readSpec(api, type.get(), who, spec);
    if (s)
      specs.push_back(std::move(spec));
    else if (leftOut && s.code() == Code::Unsupported)
      leftOut->emplace_back(std::move(spec.name), std::exchange(s, Status()));
    else
      return s;
  }
  return Status();
}

/// Words a session's refusal of a file as a compiler's user should read it.
Status explained(const Status &status, const Runtime &runtime) {
  if (status)
    return status;
  std::string text = status.message();
  const auto has = [&text](std::string_view part) { return text.find(part) != text.npos; };
  if (has("Unsupported model IR version") || (has("opset") && has("is under development")))
    text += "; install a newer ONNX Runtime than " + runtime.version +
            ", or export the model with an older opset and ir_version";
  return {status.code(), std::move(text)};
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
  Expected<Buffer> bytes = engine::readModelFile(path, memory, ModelLimit);
  if (!bytes)
    return bytes.status();
  Expected<const Runtime *> runtime = loadRuntime(options.runtime);
  if (!runtime)
    return runtime.status();
  std::unique_ptr<Model> model(new Model(**runtime));
  if (Status s = model->load(path, std::move(*bytes), options, !memory); !s)
    return s;
  if (Status s = model->readMetadata(); !s)
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
  if (Status s = setOptions(runtime_, options, prepack, sessionOptions.get()); !s)
    return s;
  std::vector<Buffer> contents;
  const bool isOrt = engine::isOrtFormat(bytes.span());
  if (!isOrt)
    if (Status s = addExternalFiles(runtime_, path, isFile, bytes, sessionOptions.get(), contents);
        !s)
      return s;

  const engine::OnnxFacts facts = engine::factsOf(bytes.span());
  isNeverEmpty_ = facts.isNeverEmpty;
  std::optional<std::string> guarded;
  if (facts.hasHazard)
    guarded = engine::guardedModel(bytes.span());
  const Span<const uint8_t> taken =
      guarded
          ? Span<const uint8_t>(reinterpret_cast<const uint8_t *>(guarded->data()), guarded->size())
          : bytes.span();
  const std::lock_guard<std::mutex> lock(runtime_.sessions);
  if (Status s = open(path, taken, sessionOptions.get(), session_); !s)
    return s;
  if (Status s = readSignature(facts); !s)
    return s.withContext(path);
  if (Status s = checkRanks(path, bytes.span(), facts, sessionOptions.get()); !s)
    return s;
  if (!facts.defaults.empty())
    metadata_.emplace_back(engine::DefaultsKey, engine::defaultsText(facts.defaults));
  if (isOrt)
    bytes_ = std::move(bytes); // where its memory lies stays
  return Status();
}

Status Model::open(const std::string &path, Span<const uint8_t> bytes, OrtSessionOptions *options,
                   OrtSession *&session) const {
  return explained(take(runtime_.api,
                        runtime_.api->CreateSessionFromArray(runtime_.env, bytes.data(),
                                                             bytes.size(), options, &session),
                        Code::InvalidModel, path + " cannot be loaded"),
                   runtime_);
}

Status Model::readSignature(const engine::OnnxFacts &facts) {
  const OrtApi *api = runtime_.api;
  const Side inputs{"input", api->SessionGetInputCount, api->SessionGetInputName,
                    api->SessionGetInputTypeInfo};
  const Side outputs{"output", api->SessionGetOutputCount, api->SessionGetOutputName,
                     api->SessionGetOutputTypeInfo};
  if (Status s = readSpecs(runtime_, session_, inputs, signature_.inputs, nullptr); !s)
    return s;
  for (const TensorSpec &spec : signature_.inputs)
    if (std::find(facts.shapelessInputs.begin(), facts.shapelessInputs.end(), spec.name) !=
        facts.shapelessInputs.end())
      return makeError(Code::Unsupported, "input '", spec.name, "' has no shape; ", StateShapes);
  std::vector<std::pair<std::string, Status>> leftOut;
  if (Status s = readSpecs(runtime_, session_, outputs, signature_.outputs, &leftOut); !s)
    return s;
  if (signature_.outputs.empty() && !leftOut.empty())
    return leftOut.front().second;
  for (const auto &[name, why] : leftOut)
    metadata_.emplace_back(engine::LeftOutKey + name, why.message());
  inputNames_ = cNames(signature_.inputs);
  outputNames_ = cNames(signature_.outputs);
  inputSpecs_ = toComponent(signature_.inputs);
  outputSpecs_ = toComponent(signature_.outputs);
  return Status();
}

Status Model::checkRanks(const std::string &path, Span<const uint8_t> bytes,
                         const engine::OnnxFacts &facts, OrtSessionOptions *options) const {
  std::vector<std::string> doubtful;
  for (const TensorSpec &spec : signature_.outputs)
    if (spec.shape.empty() &&
        std::find(facts.shapelessOutputs.begin(), facts.shapelessOutputs.end(), spec.name) !=
            facts.shapelessOutputs.end())
      doubtful.push_back(spec.name);
  if (doubtful.empty())
    return Status();
  const OrtApi *api = runtime_.api;
  const std::string probes = engine::shapeProbe(doubtful);
  Buffer probed;
  if (Status s = probed.reserve(bytes.size() + probes.size()); !s)
    return s.withContext(path);
  (void)probed.append(bytes.data(), bytes.size());
  (void)probed.append(probes.data(), probes.size());
  Scoped<OrtSession> session(api->ReleaseSession);
  std::vector<TensorSpec> outputs;
  const Side side{"output", api->SessionGetOutputCount, api->SessionGetOutputName,
                  api->SessionGetOutputTypeInfo};
  std::vector<std::pair<std::string, Status>> leftOut;
  Status s = take(api, api->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL),
                  Code::Internal, path);
  if (s)
    s = open(path, probed.span(), options, *session.out());
  if (s)
    s = readSpecs(runtime_, session.get(), side, outputs, &leftOut);
  for (const std::string &name : doubtful) {
    const std::string probe = engine::shapeProbeName(name);
    const auto answer =
        std::find_if(outputs.begin(), outputs.end(),
                     [&probe](const TensorSpec &output) { return output.name == probe; });
    if (!s || answer == outputs.end() || answer->shape != Shape{0})
      return makeError(Code::Unsupported, path, ": output '", name, "' has no shape; ",
                       StateShapes);
  }
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
    OrtStatus *(*read)(const OrtModelMetadata *, OrtAllocator *, char **);
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
