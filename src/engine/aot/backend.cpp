// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scheme aot: a table of constants and a function behind a Model, and buffers behind its
// Runners.
#include "core/buffer.h"
#include "core/descriptor.h"
#include "core/nearest.h"
#include "core/registry.h"
#include "engine/backends.h"
#include "engine/file.h"

#include <mlbridge/compiled.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// A program has this function if networks are linked into it.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const mlb_aot_model *
mlbridge_linked_model(uint64_t index);

namespace mlbridge {
namespace aot {
namespace {

constexpr uint64_t LargestFile = uint64_t(1) << 34;
constexpr uint64_t MostTensors = 4096, LargestRank = 64, LargestText = 1 << 26;
constexpr uint64_t LargestTensor = uint64_t(1) << 40;

std::string_view text(const mlb_aot_string &s) { return {s.data, static_cast<size_t>(s.size)}; }

bool isText(const mlb_aot_string &s) { return s.size <= LargestText && (s.data || !s.size); }

bool areSpecs(const mlb_aot_tensor *tensors, uint64_t size) {
  if (size > MostTensors || (!tensors && size))
    return false;
  for (uint64_t i = 0; i < size; ++i) {
    const mlb_aot_tensor &t = tensors[i];
    if (!isText(t.name) || t.type < static_cast<uint32_t>(ElementType::Int8) ||
        t.type >= static_cast<uint32_t>(ElementType::String) || t.rank > LargestRank ||
        (!t.shape && t.rank))
      return false;
    uint64_t bytes = sizeOf(static_cast<ElementType>(t.type));
    for (uint32_t d = 0; d < t.rank; ++d) {
      const int64_t length = t.shape[d];
      if (length < 0 || (length > 0 && bytes > LargestTensor / static_cast<uint64_t>(length)))
        return false;
      bytes *= static_cast<uint64_t>(length);
    }
  }
  return true;
}

/// Errors: InvalidModel.
Status check(const mlb_aot_model *model) {
  // The size and the version are in every table.
  if (!model || model->size < offsetof(mlb_aot_model, reserved))
    return {Code::InvalidModel, "not the table of a compiled network"};
  if (model->abi < 1 || model->abi > MLB_AOT_ABI)
    return makeError(Code::InvalidModel, "compiled for version ", model->abi,
                     " of the table; this library takes 1 to ", MLB_AOT_ABI, ": compile it again");
  if (model->size < sizeof(mlb_aot_model) || !isText(model->name) || !model->evaluate ||
      !areSpecs(model->inputs, model->inputs_size) ||
      !areSpecs(model->outputs, model->outputs_size) || model->metadata_size > MostTensors ||
      model->metadata_size % 2 || (!model->metadata && model->metadata_size) ||
      (!model->nodes && model->nodes_size) || model->workspace_size > LargestTensor)
    return {Code::InvalidModel, "the table of a compiled network is damaged"};
  for (uint64_t i = 0; i < model->metadata_size; ++i)
    if (!isText(model->metadata[i]))
      return {Code::InvalidModel, "the table of a compiled network is damaged"};
  return Status();
}

bool readAt(int file, uint64_t offset, void *to, size_t size) {
  ssize_t got = 0;
  do
    got = pread(file, to, size, static_cast<off_t>(offset));
  while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(size);
}

/// Checks that all that the loader maps is in the file: it would die of what isn't.
bool isWholeObject(int file) {
  struct stat info;
  ElfW(Ehdr) head;
  if (fstat(file, &info) != 0 || !readAt(file, 0, &head, sizeof head))
    return false;
  const auto size = static_cast<uint64_t>(info.st_size);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr)) ||
      head.e_phoff > size || head.e_phnum > (size - head.e_phoff) / sizeof(ElfW(Phdr)))
    return false;
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) part;
    if (!readAt(file, head.e_phoff + i * sizeof part, &part, sizeof part) || part.p_offset > size ||
        part.p_filesz > size - part.p_offset)
      return false;
  }
  return true;
}

/// A shared object, opened from a copy, so that a changed file neither changes the code that runs
/// nor is taken for the one that is open.
class SharedObject {
public:
  ~SharedObject() {
    if (handle_)
      dlclose(handle_);
  }

  /// Errors: those of copyFile, InvalidModel.
  Status open(const std::string &path) {
    copy_ = Descriptor(memfd_create("mlbridge-aot", MFD_CLOEXEC));
    if (!copy_)
      return {Code::LimitExceeded, describeErrno("memfd_create", errno)};
    if (Status s = engine::copyFile(path, LargestFile, copy_.get()); !s)
      return s;
    if (!isWholeObject(copy_.get()))
      return {Code::InvalidModel, "not a shared object, or a truncated one"};
    // The descriptor stays open, so that no other copy gets this name.
    const std::string name = "/proc/self/fd/" + std::to_string(copy_.get());
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_)
      return Status();
    const char *reason = dlerror();
    return makeError(Code::InvalidModel,
                     "not a shared object that can be loaded: ", reason ? reason : "unknown");
  }

  const mlb_aot_model *model() const {
    void *entry = dlsym(handle_, "mlb_aot_entry");
    return entry ? reinterpret_cast<const mlb_aot_model *(*)()>(entry)() : nullptr;
  }

private:
  Descriptor copy_;
  void *handle_ = nullptr;
};

std::vector<TensorSpec> specsOf(const mlb_aot_tensor *tensors, uint64_t size) {
  std::vector<TensorSpec> specs;
  for (uint64_t i = 0; i < size; ++i) {
    const mlb_aot_tensor &t = tensors[i];
    specs.push_back({std::string(text(t.name)),
                     static_cast<ElementType>(t.type),
                     Shape(t.shape, t.shape + t.rank),
                     {}});
  }
  return specs;
}

/// The part of a model that its runners share.
struct Compiled {
  SharedObject object; // closed last
  const mlb_aot_model *model = nullptr;
  Buffer file; ///< of the weights, if they are apart
  const void *weights = nullptr;
  Signature signature;
  Metadata metadata;
};

class AotRunner final : public RunnerBackend {
public:
  explicit AotRunner(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

  Status create() {
    if (Status s = workspace_.resize(static_cast<size_t>(compiled_->model->workspace_size)); !s)
      return s;
    for (const auto *specs : {&compiled_->signature.inputs, &compiled_->signature.outputs})
      for (const TensorSpec &spec : *specs) {
        const size_t count = *spec.count();
        Buffer memory; // a Tensor has no bytes behind it that may be read
        if (Status s = memory.resize(std::max<size_t>(count * sizeOf(spec.type), 1)); !s)
          return s.withContext("tensor '" + spec.name + "'");
        std::memset(memory.data(), 0, memory.size());
        addresses_.push_back(memory.data());
        views_.push_back({spec.type, memory.data(), count, spec.shape});
        memories_.push_back(std::move(memory));
      }
    return Status();
  }

  TensorView input(size_t index) override { return views_[index]; }
  Expected<TensorView> resize(size_t index, Span<const int64_t>) override { return input(index); }

  Status evaluate(Duration left) override {
    if (left <= Duration::zero())
      return {Code::DeadlineExceeded, "aot: the deadline had passed before the call"};
    const uint64_t nanoseconds =
        left == Duration::max() ? UINT64_MAX : static_cast<uint64_t>(left.count());
    const mlb_aot_model &model = *compiled_->model;
    const int32_t result = model.evaluate(compiled_->weights, workspace_.data(), addresses_.data(),
                                          addresses_.data() + model.inputs_size, nanoseconds);
    return result == 0 ? Status() : failure(result);
  }

  TensorView output(size_t index) override {
    return views_[compiled_->signature.inputs.size() + index];
  }

private:
  Status failure(int32_t result) const {
    if (result == MLB_AOT_TIMED_OUT)
      return {Code::DeadlineExceeded, "aot: the deadline passed in a loop of the network"};
    const mlb_aot_model &model = *compiled_->model;
    const auto node = static_cast<uint64_t>(result) - 1;
    const std::string name =
        result > 0 && node < model.nodes_size ? std::string(text(model.nodes[node])) : "a node";
    return makeError(Code::PolicyFailed, "aot: ", name, ": an index is out of range");
  }

  const std::shared_ptr<const Compiled> compiled_;
  Buffer workspace_;
  std::vector<Buffer> memories_; ///< of inputs, then of outputs, as those that follow
  std::vector<TensorView> views_;
  std::vector<void *> addresses_;
};

class AotModel final : public ModelBackend {
public:
  explicit AotModel(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  const Metadata &metadata() const override { return compiled_->metadata; }
  const Signature *signature() const override { return &compiled_->signature; }
  Expected<std::unique_ptr<RunnerBackend>> newRunner(const Signature &, const CallContext &,
                                                     Duration) override {
    auto runner = std::make_unique<AotRunner>(compiled_);
    if (Status s = runner->create(); !s)
      return s;
    return std::unique_ptr<RunnerBackend>(std::move(runner));
  }

private:
  const std::shared_ptr<const Compiled> compiled_;
};

/// The models that are linked in, by mlbridge_compile_model or registered.
Registry<const mlb_aot_model *> &linked() {
  static auto &all = *[] {
    auto *models = new Registry<const mlb_aot_model *>;
    for (uint64_t i = 0; mlbridge_linked_model; ++i) {
      const mlb_aot_model *const model = mlbridge_linked_model(i);
      if (!model)
        break;
      if (check(model))
        models->findOrAdd(text(model->name), model);
    }
    return models;
  }();
  return all;
}

/// The model at a place; `compiled` keeps what it lies in.
Expected<const mlb_aot_model *> find(const std::string &place, Compiled &compiled) {
  if (const auto model = linked().find(place))
    return *model;
  const bool isFile = place.find('/') != std::string::npos || place.find('.') != std::string::npos;
  if (!isFile)
    return makeError(Code::NotFound, "no compiled network is registered as '", place, "'",
                     linked().suggestion(place),
                     "; to open a file give its suffix or folder, as in aot:./NAME.so");
  if (Status s = compiled.object.open(place); !s)
    return s.code() == Code::InvalidModel ? s.withContext(place) : s;
  const mlb_aot_model *model = compiled.object.model();
  if (!model)
    return makeError(Code::InvalidModel, place,
                     ": not a compiled network: it has no mlb_aot_entry "
                     "(mlbridge aot --shared makes one)");
  return model;
}

Status readWeights(const std::string &path, Compiled &compiled) {
  const mlb_aot_model &model = *compiled.model;
  Expected<Buffer> file = engine::readFile(path, LargestFile);
  if (!file)
    return file.status();
  compiled.file = std::move(*file);
  mlb_aot_weights head;
  if (compiled.file.size() < sizeof head)
    return makeError(Code::InvalidModel, path, ": not a weights file: it has only ",
                     compiled.file.size(), " bytes");
  std::memcpy(&head, compiled.file.data(), sizeof head);
  if (std::memcmp(head.magic, "MLBWGT1\n", sizeof head.magic) != 0)
    return makeError(Code::InvalidModel, path,
                     ": not a weights file (mlbridge aot --weights external makes one)");
  if (head.id != model.weights_id)
    return makeError(Code::InvalidModel, path, ": has the weights of a different network");
  if (head.size != model.weights_size || compiled.file.size() - sizeof head != head.size)
    return makeError(Code::InvalidModel, path, ": weights of ", compiled.file.size() - sizeof head,
                     " bytes; the network has ", model.weights_size);
  compiled.weights = compiled.file.data() + sizeof head;
  return Status();
}

} // namespace
} // namespace aot

Status registerCompiled(const mlb_aot_model *model) {
  if (Status s = aot::check(model); !s)
    return s;
  const std::string name(aot::text(model->name));
  if (aot::linked().findOrAdd(name, model) != model)
    return makeError(Code::InvalidArgument, "compiled network '", name, "' is registered already");
  return Status();
}

Expected<std::shared_ptr<ModelBackend>> openCompiled(const Uri &uri) {
  if (const auto wanted = wantedInstructionSet(); !wanted)
    return wanted.status();
  if (Status s = uri.allowOnly({"weights"}); !s)
    return s;
  const std::string weights = uri.option("weights");
  auto compiled = std::make_shared<aot::Compiled>();
  Expected<const mlb_aot_model *> model = aot::find(uri.place, *compiled);
  if (!model)
    return model.status();
  if (Status s = aot::check(*model); !s)
    return s.withContext(uri.place);
  compiled->model = *model;
  compiled->weights = (*model)->weights;
  if (compiled->weights && !weights.empty())
    return makeError(Code::InvalidArgument, uri.place,
                     " contains its weights; remove the option weights");
  if (!compiled->weights && weights.empty() && (*model)->weights_size)
    return makeError(Code::InvalidArgument, uri.place, " needs its weights: aot:", uri.place,
                     "?weights=FILE");
  if (!weights.empty())
    if (Status s = aot::readWeights(weights, *compiled); !s)
      return s;
  compiled->signature.inputs = aot::specsOf((*model)->inputs, (*model)->inputs_size);
  compiled->signature.outputs = aot::specsOf((*model)->outputs, (*model)->outputs_size);
  for (uint64_t i = 0; i < (*model)->metadata_size; i += 2)
    compiled->metadata.emplace(aot::text((*model)->metadata[i]),
                               aot::text((*model)->metadata[i + 1]));
  return std::shared_ptr<ModelBackend>(std::make_shared<aot::AotModel>(std::move(compiled)));
}

} // namespace mlbridge
