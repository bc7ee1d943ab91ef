// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The steady state of an evaluation is a look at the clock (or, with an interval of 0, a stat) and
// two atomic loads. Who finds another file loads it, in its own call; the others go on with the old
// model meanwhile, and each runner changes over between two of its evaluations. Inputs lie in
// buffers of the runner here, because callers keep what they were given across models.
#include "core/message.h"
#include "runner/registry.h"

#include "core/convert.h"
#include "core/uri_options.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <sys/stat.h>

namespace mlbridge {
namespace {

using Clock = Deadline::Clock;

/// The identity of one version of a file: replaced by rename, it has another inode.
uint64_t versionOf(const std::string &path, uint64_t hash) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return 0;
  for (const uint64_t part : {uint64_t(info.st_dev), uint64_t(info.st_ino), uint64_t(info.st_size),
                              uint64_t(info.st_mtim.tv_sec), uint64_t(info.st_mtim.tv_nsec),
                              uint64_t(info.st_ctim.tv_sec), uint64_t(info.st_ctim.tv_nsec)}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
  }
  return hash ? hash : 1;
}

/// The same of the model's file and that of its weights, where the URI names one.
uint64_t versionOf(const Uri &uri) {
  const uint64_t version = versionOf(uri.place, 0xcbf29ce484222325U);
  const auto weights = uri.options.find("weights");
  return version == 0 || weights == uri.options.end() ? version
                                                      : versionOf(weights->second, version);
}

/// The reason why the new model can't take the place of the old one.
Status compare(const ModelBackend &fresh, const Signature &signature, const Metadata &metadata) {
  if (!fresh.signature() || *fresh.signature() != signature)
    return makeError(Code::Mismatch, "the new file has another signature: ",
                     fresh.signature() ? fresh.signature()->toString() : std::string("none"),
                     " instead of ", signature.toString());
  if (const std::string *key = differingProperty(metadata, fresh.metadata()))
    return makeError(Code::Mismatch, "the new file differs in the metadata property '", *key,
                     "', which a pass may rely on already");
  return Status();
}

class ReloadingModel final : public ModelBackend,
                             public std::enable_shared_from_this<ReloadingModel> {
public:
  ReloadingModel(Uri uri, Duration interval, const ModelOpener &opener)
      : uri_(std::move(uri)), interval_(interval), opener_(opener) {}

  Status open() {
    version_ = versionOf(uri_);
    OpenedBackend model = opener_(uri_);
    if (!model)
      return model.status();
    struct stat info;
    if (::stat(uri_.place.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
      return makeError(Code::InvalidArgument, "option reload: ", uri_.place, " is not a file");
    if (!(*model)->signature())
      return makeError(Code::Unsupported,
                       "option reload: the model takes any signature; reload needs a fixed one");
    current_ = std::move(*model);
    signature_ = *current_->signature();
    metadata_ = current_->metadata();
    next_ = lookAfter(Clock::now());
    return Status();
  }

  const Metadata &metadata() const override { return metadata_; }
  const Signature *signature() const override { return &signature_; }
  Expected<std::unique_ptr<RunnerBackend>>
  newRunner(const Signature &bound, const CallContext &context, Duration deadline) override;
  Expected<Metadata> statistics() override {
    uint64_t generation;
    Metadata all;
    if (Expected<Metadata> own = current(generation)->statistics())
      all = std::move(*own);
    const std::lock_guard<std::mutex> guard(lock_);
    all["reload.loaded"] = std::to_string(loaded_);
    all["reload.failed"] = std::to_string(failed_);
    if (!error_.ok())
      all["reload.error"] = error_.toString();
    return all;
  }

  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  std::shared_ptr<ModelBackend> current(uint64_t &generation) {
    const std::lock_guard<std::mutex> guard(lock_);
    generation = generation_.load(std::memory_order_relaxed);
    return current_;
  }

  /// Loads the file if it is time to look and it has changed.
  void look() {
    if (interval_ > Duration::zero()) {
      const Clock::time_point now = Clock::now();
      int64_t next = next_.load(std::memory_order_relaxed);
      if (now.time_since_epoch().count() < next ||
          !next_.compare_exchange_strong(next, lookAfter(now), std::memory_order_relaxed))
        return;
    }
    if (versionOf(uri_) == version_.load(std::memory_order_relaxed))
      return;
    const std::unique_lock<std::mutex> guard(loading_, std::try_to_lock);
    if (guard.owns_lock())
      load();
  }

  void failed(Status why) {
    const std::lock_guard<std::mutex> guard(lock_);
    ++failed_;
    error_ = std::move(why);
  }

private:
  int64_t lookAfter(Clock::time_point now) const {
    return Deadline::after(interval_, now).when().time_since_epoch().count();
  }
  void load() {
    // Before it is read: what is written meanwhile is another version, to be read next time.
    const uint64_t version = versionOf(uri_);
    if (version == version_.load(std::memory_order_relaxed))
      return;
    version_.store(version, std::memory_order_relaxed);
    OpenedBackend fresh = opener_(uri_);
    if (!fresh)
      return failed(fresh.status());
    if (Status s = compare(**fresh, signature_, metadata_); !s)
      return failed(s.withContext(uri_.place));
    // The old model may be destroyed here; not under the lock.
    const std::lock_guard<std::mutex> guard(lock_);
    current_.swap(*fresh);
    ++loaded_;
    error_ = Status();
    generation_.fetch_add(1, std::memory_order_release);
  }

  const Uri uri_;
  const Duration interval_;
  const ModelOpener opener_;
  Signature signature_;
  Metadata metadata_;

  std::atomic<int64_t> next_{0}; ///< when the file is looked at again
  std::atomic<uint64_t> version_{0}, generation_{1};
  std::mutex loading_; ///< held by the one who loads
  std::mutex lock_;    ///< of what follows
  std::shared_ptr<ModelBackend> current_;
  uint64_t loaded_ = 0, failed_ = 0;
  Status error_;
};

class ReloadingRunner final : public RunnerWrapper {
public:
  ReloadingRunner(std::shared_ptr<ReloadingModel> shared, Signature bound,
                  const CallContext &context, Duration deadline)
      : RunnerWrapper(nullptr, nullptr, context), shared_(std::move(shared)),
        bound_(std::move(bound)), deadline_(deadline), inputs_(bound_.inputs.size()) {}

  Status create() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Expected<Tensor> tensor = emptyTensor(bound_.inputs[i]);
      if (!tensor)
        return tensor.status();
      inputs_[i] = {std::move(*tensor), !bound_.inputs[i].isDynamic()};
    }
    return change();
  }

  TensorView input(size_t index) override {
    Input &input = inputs_[index];
    return input.sized ? input.tensor.view()
                       : TensorView{bound_.inputs[index].type, nullptr, 0, {}};
  }

  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    Input &input = inputs_[index];
    Expected<TensorView> theirs = inner_->resize(index, shape);
    if (!theirs)
      return theirs;
    if (Status s = input.tensor.reshape(bound_.inputs[index], shape); !s)
      return s;
    input.sized = true;
    return input.tensor.view();
  }

  Status evaluate(Duration left) override {
    shared_->look();
    if (shared_->generation() != generation_)
      if (Status s = change(); !s)
        shared_->failed(std::move(s)); // and go on with the old one
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorView from = inputs_[i].tensor.view(), to = inner_->input(i);
      if (to.count == from.count) // else it is not sized yet, which the evaluation says
        copySame(to, from.data);
    }
    return inner_->evaluate(left);
  }

  TensorView output(size_t index) override { return inner_->output(index); }

private:
  struct Input {
    Tensor tensor;
    bool sized = false;
  };

  /// Takes the newest model. Asks for it once only, whether or not it can be used.
  Status change() {
    std::shared_ptr<ModelBackend> model = shared_->current(generation_);
    Expected<std::unique_ptr<RunnerBackend>> fresh = model->newRunner(bound_, context_, deadline_);
    if (!fresh)
      return fresh.status();
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].sized && bound_.inputs[i].isDynamic())
        if (Expected<TensorView> view = (*fresh)->resize(i, inputs_[i].tensor.spec().shape); !view)
          return view.status();
    inner_ = std::move(*fresh); // before the model that the old one belongs to
    model_ = std::move(model);
    return Status();
  }

  std::shared_ptr<ReloadingModel> shared_;
  const Signature bound_;
  const Duration deadline_;
  uint64_t generation_ = 0;
  std::vector<Input> inputs_;
};

Expected<std::unique_ptr<RunnerBackend>>
ReloadingModel::newRunner(const Signature &bound, const CallContext &context, Duration deadline) {
  auto runner = std::make_unique<ReloadingRunner>(shared_from_this(), bound, context, deadline);
  if (Status s = runner->create(); !s)
    return s;
  return std::unique_ptr<RunnerBackend>(std::move(runner));
}

} // namespace

OpenedBackend openReloading(Uri &uri, const ModelOpener &open) {
  Expected<Duration> interval = parseDuration(takeOption(uri, "reload").value_or(""));
  if (!interval)
    return interval.status().withContext("option reload");
  auto model = std::make_shared<ReloadingModel>(uri, *interval, open);
  if (Status s = model->open(); !s)
    return s;
  return std::shared_ptr<ModelBackend>(std::move(model));
}

} // namespace mlbridge
