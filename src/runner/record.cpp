// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `?record=FOLDER`: docs/recording.md has the format.
#include "core/message.h"
#include "core/process.h"
#include "core/uri_options.h"
#include "core/utf8.h"
#include "runner/registry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>

namespace mlbridge {
namespace {

/// The CRC of zlib and PNG.
uint32_t crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < made.size(); ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        made[i] = made[i] >> 1 ^ (made[i] & 1 ? 0xedb88320u : 0);
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

/// Whatever the locale; what JSON does not have is written as Python does.
std::string number(double value) {
  if (!std::isfinite(value))
    return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

/// A JSON object that is written from left to right.
class Text {
public:
  explicit Text(std::string_view kind) {
    text_ = "{";
    add("kind", kind);
  }
  void add(std::string_view key, std::string_view value) {
    begin(key);
    quote(value);
  }
  void add(std::string_view key, uint64_t value) { raw(key, std::to_string(value)); }
  void raw(std::string_view key, std::string_view json) {
    begin(key);
    text_ += json;
  }
  std::string take() && { return std::move(text_) + "}"; }

  static std::string quoted(std::string_view value) {
    Text one;
    one.quote(value);
    return std::move(one.text_);
  }

private:
  Text() = default;
  void begin(std::string_view key) {
    if (text_.size() > 1)
      text_ += ", ";
    quote(key);
    text_ += ": ";
  }
  void quote(std::string_view value) {
    constexpr char Digits[] = "0123456789abcdef";
    text_ += '"';
    const bool valid = isUtf8(value);
    for (const char c : value) {
      const auto byte = static_cast<uint8_t>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (byte < 0x20) {
        text_ += "\\u00";
        text_ += Digits[byte >> 4];
        text_ += Digits[byte & 15];
      } else {
        text_ += valid || byte < 0x80 ? c : '?';
      }
    }
    text_ += '"';
  }

  std::string text_;
};

std::string list(Span<const int64_t> lengths) {
  std::string text = "[";
  for (const int64_t length : lengths)
    text += (text.size() > 1 ? ", " : "") + std::to_string(length);
  return text + "]";
}

std::string describe(const std::vector<TensorSpec> &specs) {
  std::string text;
  for (const TensorSpec &spec : specs) {
    std::string maximum;
    for (const int64_t length : spec.maximum)
      maximum += (maximum.empty() ? "" : ", ") + (length ? std::to_string(length) : "null");
    text += (text.empty() ? "" : ", ") + ("{\"name\": " + Text::quoted(spec.name)) +
            ", \"type\": \"" + name(spec.type) + "\", \"shape\": " + list(spec.shape) +
            ", \"maximum\": " + (spec.maximum.empty() ? "null" : "[" + maximum + "]") + "}";
  }
  return "[" + text + "]";
}

std::string describe(const Signature *signature) {
  return signature ? "{\"inputs\": " + describe(signature->inputs) +
                         ", \"outputs\": " + describe(signature->outputs) + "}"
                   : "null";
}

/// The file of one process, which all threads write. When the disk is full it ends, and the model
/// is asked as before.
class RecordFile {
public:
  RecordFile(std::string folder, std::string model)
      : folder_(std::move(folder)), model_(std::move(model)) {}
  ~RecordFile() { leave(); }
  RecordFile(const RecordFile &) = delete;
  RecordFile &operator=(const RecordFile &) = delete;

  /// Makes the folder, if need be, and the file. Errors: NotFound.
  Status begin(const ModelBackend &of) {
    for (size_t slash = 0; slash != folder_.npos;) { // what fails shows when the file is made
      slash = folder_.find('/', slash + 1);
      (void)::mkdir(folder_.substr(0, slash).c_str(), 0777);
    }
    process_ = processNumber();
    failure_.clear();
    kept_ = 0;
    static std::atomic<unsigned> files{0};
    // Another process of the same number may have been here before.
    for (file_ = -1; file_ < 0;) {
      const std::string path =
          folder_ + "/" + std::to_string(getpid()) + "-" + std::to_string(files++) + ".mlbrec";
      file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file_ < 0 && errno != EEXIST)
        return makeError(Code::NotFound, "option record: ", path,
                         " cannot be written: ", std::strerror(errno));
    }
    began_ = std::chrono::steady_clock::now();
    write("MLBREC1\n");
    Text first = timed("recording");
    first.add("model", model_);
    const std::chrono::duration<double> since = std::chrono::system_clock::now().time_since_epoch();
    first.raw("began", number(since.count()));
    first.raw("signature", describe(of.signature()));
    std::string pairs;
    for (const auto &[key, value] : of.metadata())
      pairs += (pairs.empty() ? "" : ", ") + Text::quoted(key) + ": " + Text::quoted(value);
    first.raw("metadata", "{" + pairs + "}");
    put(std::move(first).take(), {});
    return Status();
  }

  std::mutex lock; ///< for everything below

  /// The process that it belongs to; a fork's child makes its own.
  uint64_t process() const { return process_; }
  void leave() {
    if (file_ >= 0)
      ::close(file_);
    file_ = -1;
  }
  Text timed(std::string_view kind) const {
    Text text(kind);
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - began_;
    text.raw("time", number(since.count()));
    return text;
  }
  /// Why nothing is kept any more; empty while it is.
  const std::string &failure() const { return failure_; }
  uint64_t nextStream() { return ++streams_; }
  uint64_t nextRequest() { return ++requests_; }
  void put(const std::string &text, const std::string &tensors) {
    std::string record(16, '\0');
    const auto textSize = static_cast<uint32_t>(text.size());
    const uint64_t tensorsSize = tensors.size();
    record += text;
    record += tensors;
    const uint32_t checksum = crc32(std::string_view(record).substr(16));
    std::memcpy(record.data(), &textSize, 4);
    std::memcpy(record.data() + 4, &tensorsSize, 8);
    std::memcpy(record.data() + 12, &checksum, 4);
    write(record);
  }

private:
  void write(std::string_view bytes) {
    if (!failure_.empty())
      return;
    const off_t end = kept_ + static_cast<off_t>(bytes.size());
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0) { // half a record would be damage
        failure_ = folder_ + ": " + std::strerror(errno);
        (void)!::ftruncate(file_, kept_);
        return;
      }
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    kept_ = end;
  }

  const std::string folder_, model_;
  int file_ = -1;
  uint64_t process_ = 0, streams_ = 0, requests_ = 0;
  off_t kept_ = 0;
  std::string failure_;
  std::chrono::steady_clock::time_point began_;
};

class RecordedRunner final : public RunnerWrapper {
public:
  RecordedRunner(std::shared_ptr<ModelBackend> model, std::shared_ptr<RecordFile> file,
                 std::unique_ptr<RunnerBackend> inner, const Signature &bound,
                 const CallContext &context)
      : RunnerWrapper(std::move(model), std::move(inner), context), file_(std::move(file)),
        bound_(bound) {}

  TensorView input(size_t index) override { return inner_->input(index); }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    return inner_->resize(index, shape);
  }
  TensorView output(size_t index) override { return inner_->output(index); }

  Status evaluate(Duration left) override {
    std::string text, data;
    for (size_t i = 0; i < bound_.inputs.size(); ++i)
      add(text, data, bound_.inputs[i], inner_->input(i));
    const uint64_t number = keep(
        "request",
        [&](Text &of, uint64_t request) {
          of.add("number", request);
          of.raw("tensors", "[" + text + "]");
        },
        data);
    const auto asked = std::chrono::steady_clock::now();
    const Status end = inner_->evaluate(left);
    const std::chrono::duration<double> wait = std::chrono::steady_clock::now() - asked;
    text.clear();
    data.clear();
    for (size_t i = 0; end && i < bound_.outputs.size(); ++i)
      add(text, data, bound_.outputs[i], inner_->output(i));
    const std::lock_guard<std::mutex> guard(file_->lock);
    Text answer = file_->timed(end ? "reply" : "error");
    answer.add("number", number);
    answer.raw("wait", mlbridge::number(wait.count()));
    if (end) {
      answer.raw("tensors", "[" + text + "]");
      ++step_;
    } else {
      answer.add("code", static_cast<uint64_t>(end.code()));
      answer.add("message", end.message());
    }
    file_->put(std::move(answer).take(), data);
    return end;
  }

  Status beginEpisode(std::string_view episode, std::string_view unit) override {
    setEpisode(context_, episode, unit);
    step_ = 0;
    inEpisode_ = true;
    keep("begin");
    return inner_->beginEpisode(episode, unit);
  }
  Status reward(double value) override {
    keep("reward", [&](Text &of, uint64_t) { of.raw("reward", number(value)); });
    return inner_->reward(value);
  }
  Status endEpisode(const Status &outcome) override {
    if (inEpisode_)
      keep("end", [&](Text &of, uint64_t) {
        of.add("code", static_cast<uint64_t>(outcome.code()));
        of.add("message", outcome.message());
      });
    inEpisode_ = false;
    return inner_->endEpisode(outcome);
  }

private:
  static void nothing(Text &, uint64_t) {}

  template <typename More = void (*)(Text &, uint64_t)>
  uint64_t keep(std::string_view kind, const More &more = nothing, const std::string &data = {}) {
    const std::lock_guard<std::mutex> guard(file_->lock);
    if (file_->process() != processNumber()) {
      file_->leave();
      (void)file_->begin(*model_);
    }
    if (announcedIn_ != file_->process()) {
      announcedIn_ = file_->process();
      stream_ = file_->nextStream();
      Text first = file_->timed("stream");
      identify(first);
      first.raw("signature", describe(&bound_));
      file_->put(std::move(first).take(), {});
    }
    Text text = file_->timed(kind);
    identify(text);
    text.add("episode", context_.episode);
    text.add("context", context_.unit);
    text.add("step", step_);
    const uint64_t request = kind == "request" ? file_->nextRequest() : 0;
    more(text, request);
    file_->put(std::move(text).take(), data);
    return request;
  }
  void identify(Text &text) const {
    text.add("connection", 1);
    text.add("stream", stream_);
    text.add("agent", context_.agent);
  }

  static void add(std::string &text, std::string &data, const TensorSpec &spec, TensorView value) {
    text += (text.empty() ? "" : ", ") + ("{\"name\": " + Text::quoted(spec.name)) +
            ", \"type\": \"" + name(spec.type) + "\", \"shape\": " + list(value.shape);
    if (spec.type == ElementType::String) {
      text += ", \"values\": [";
      for (const std::string &one : value.as<std::string>())
        text += (&one == value.data ? "" : ", ") + Text::quoted(one);
      text += "]";
    } else if (value.count > 0) {
      data.append(static_cast<const char *>(value.data), value.bytes());
    }
    text += "}";
  }

  const std::shared_ptr<RecordFile> file_;
  const Signature bound_;
  uint64_t announcedIn_ = 0; ///< the process whose file has this stream; none is 0
  uint64_t stream_ = 0, step_ = 0;
  bool inEpisode_ = false;
};

class RecordedModel final : public ModelWrapper {
public:
  RecordedModel(std::shared_ptr<ModelBackend> inner, std::shared_ptr<RecordFile> file)
      : ModelWrapper(std::move(inner)), file_(std::move(file)) {}

  const Signature *signature() const override { return inner_->signature(); }
  Expected<const Signature *> signatureOf(std::string_view agent) const override {
    return inner_->signatureOf(agent);
  }
  Expected<std::shared_ptr<const Binding>> bind(const Signature &caller,
                                                std::string_view agent) const override {
    return inner_->bind(caller, agent);
  }
  Expected<std::unique_ptr<RunnerBackend>>
  newRunner(const Signature &bound, const CallContext &context, Duration deadline) override {
    Expected<std::unique_ptr<RunnerBackend>> inner = inner_->newRunner(bound, context, deadline);
    if (!inner)
      return inner;
    return std::unique_ptr<RunnerBackend>(
        std::make_unique<RecordedRunner>(inner_, file_, std::move(*inner), bound, context));
  }
  /// The statistics of the model, if it has any, and `record.failed`.
  Expected<Metadata> statistics() override {
    Metadata all;
    if (Expected<Metadata> own = inner_->statistics())
      all = std::move(*own);
    const std::lock_guard<std::mutex> guard(file_->lock);
    all["record.failed"] = file_->failure();
    return all;
  }

private:
  const std::shared_ptr<RecordFile> file_;
};

} // namespace

OpenedBackend openRecorded(Uri &uri, const ModelOpener &open) {
  const std::string folder = takeOption(uri, "record").value_or("");
  if (folder.empty())
    return makeError(Code::InvalidArgument, "option record: expected a folder");
  OpenedBackend model = open(uri);
  if (!model)
    return model;
  auto file = std::make_shared<RecordFile>(folder, uri.scheme + ":" + uri.place);
  if (Status s = file->begin(**model); !s)
    return s;
  return std::shared_ptr<ModelBackend>(
      std::make_shared<RecordedModel>(std::move(*model), std::move(file)));
}

} // namespace mlbridge
