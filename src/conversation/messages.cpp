// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/messages.h"

#include "core/nearest.h"
#include "core/rank.h"

#include <cstring>
#include <unistd.h>

namespace mlbridge {

namespace {

constexpr char HelloMagic[] = "MLBRIDGE";
constexpr size_t HelloMagicSize = 8;
constexpr uint32_t MaxCount = 1 << 16; ///< of the inputs, the outputs, the agents
constexpr int32_t MaxCode = static_cast<int32_t>(Code::Internal);

/// Appends fields; keeps the first failure.
class Writer {
public:
  explicit Writer(Buffer &out) : out_(out) {}

  template <typename T> Writer &number(T value) { return raw(&value, sizeof value); }
  Writer &raw(const void *bytes, size_t size) {
    if (status_.ok())
      status_ = out_.append(bytes, size);
    return *this;
  }
  Writer &text(std::string_view value) {
    if (value.size() > UINT32_MAX)
      status_ = Status(Code::LimitExceeded, "a text of more than 4 GiB");
    return number(static_cast<uint32_t>(value.size())).raw(value.data(), value.size());
  }
  Writer &map(const Metadata &values) {
    number(static_cast<uint32_t>(values.size()));
    for (const auto &[key, value] : values)
      text(key).text(value);
    return *this;
  }
  Writer &spec(const TensorSpec &spec) {
    text(spec.name)
        .number(static_cast<uint8_t>(spec.type))
        .number(static_cast<uint8_t>(spec.shape.size()))
        .number(static_cast<uint8_t>(!spec.maximum.empty()));
    raw(spec.shape.data(), spec.shape.size() * sizeof(int64_t));
    return raw(spec.maximum.data(), spec.maximum.size() * sizeof(int64_t));
  }
  Writer &signature(const Signature &signature) {
    for (const auto *side : {&signature.inputs, &signature.outputs}) {
      number(static_cast<uint32_t>(side->size()));
      for (const TensorSpec &s : *side)
        spec(s);
    }
    return *this;
  }
  Status done() { return std::move(status_); }

private:
  Buffer &out_;
  Status status_;
};

/// Reads fields; after the first failure everything reads as zero and status() says what was wrong.
class Reader {
public:
  Reader(const char *message, Span<const uint8_t> bytes) : message_(message), bytes_(bytes) {}

  template <typename T> T number(const char *field) {
    T value{};
    raw(field, &value, sizeof value);
    return value;
  }
  void raw(const char *field, void *to, size_t size) {
    if (!have(field, size))
      return;
    if (size)
      std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }
  std::string text(const char *field) {
    const size_t size = number<uint32_t>(field);
    if (!have(field, size))
      return {};
    std::string value(reinterpret_cast<const char *>(bytes_.data()) + at_, size);
    at_ += size;
    return value;
  }
  uint32_t count(const char *field) {
    const uint32_t count = number<uint32_t>(field);
    if (count > MaxCount)
      fail("states a number of " + std::to_string(count) + ", the limit is " +
               std::to_string(MaxCount),
           field);
    return count;
  }
  Metadata map(const char *field) {
    Metadata values;
    const uint32_t count = number<uint32_t>(field);
    for (uint32_t i = 0; i < count && status_.ok(); ++i) {
      std::string key = text(field);
      values[std::move(key)] = text(field);
    }
    return values;
  }
  TensorSpec spec(const char *field) {
    TensorSpec spec;
    spec.name = text(field);
    spec.type = static_cast<ElementType>(number<uint8_t>(field));
    const uint32_t rank = number<uint8_t>(field);
    const uint8_t hasMaximum = number<uint8_t>(field);
    if (rank > MaxRank)
      fail("has a rank of " + std::to_string(rank), field);
    if (!status_.ok())
      return spec;
    spec.shape.resize(rank);
    raw(field, spec.shape.data(), rank * sizeof(int64_t));
    if (hasMaximum) {
      spec.maximum.resize(rank);
      raw(field, spec.maximum.data(), rank * sizeof(int64_t));
    }
    return spec;
  }
  Signature signature() {
    Signature signature;
    for (auto *side : {&signature.inputs, &signature.outputs}) {
      const uint32_t count = this->count("signature");
      for (uint32_t i = 0; i < count && status_.ok(); ++i)
        side->push_back(spec("signature"));
    }
    if (status_.ok())
      if (Status s = signature.check(); !s)
        status_ = Status(Code::Protocol, std::string(message_) + ": " + s.message());
    return signature;
  }
  void fail(const std::string &what, const char *field) {
    if (status_.ok())
      status_ = Status(Code::Protocol, std::string(message_) + ": field '" + field + "' " + what);
  }
  /// Whether an optional field follows.
  bool hasMore() const { return status_.ok() && at_ < bytes_.size(); }
  const Status &status() const { return status_; }
  template <typename T> Expected<T> result(T value) {
    if (!status_.ok())
      return status_;
    return value;
  }

private:
  bool have(const char *field, size_t size) {
    if (status_.ok() && size > bytes_.size() - at_)
      fail("needs " + std::to_string(size) + " bytes at offset " + std::to_string(at_) +
               ", the message has " + std::to_string(bytes_.size()),
           field);
    return status_.ok();
  }

  const char *message_;
  Span<const uint8_t> bytes_;
  size_t at_ = 0;
  Status status_;
};

void readMagic(Reader &in) {
  char magic[HelloMagicSize] = {};
  in.raw("magic", magic, sizeof magic);
  if (in.status().ok() && std::memcmp(magic, HelloMagic, sizeof magic) != 0)
    in.fail("is not 'MLBRIDGE'", "magic");
}

Status readStatus(Reader &in) {
  const int32_t code = in.number<int32_t>("code");
  std::string text = in.text("text");
  if (!in.status().ok())
    return in.status();
  if (code == 0)
    return Status();
  // A code of a later version keeps its text.
  return Status(code < 0 || code > MaxCode ? Code::PolicyFailed : static_cast<Code>(code),
                shortened(std::move(text)));
}

} // namespace

std::string softwareName() {
  return "mlbridge " MLBRIDGE_VERSION " pid " + std::to_string(::getpid());
}

Status encode(const Hello &m, Buffer &out) {
  return Writer(out)
      .raw(HelloMagic, HelloMagicSize)
      .number(m.major)
      .number(m.minor)
      .raw(m.nonce.data(), m.nonce.size())
      .number(m.maxMessage)
      .text(m.serdes)
      .text(m.software)
      .done();
}

Expected<Hello> decodeHello(Span<const uint8_t> bytes) {
  Reader in("hello", bytes);
  Hello m;
  readMagic(in);
  m.major = in.number<uint16_t>("major");
  m.minor = in.number<uint16_t>("minor");
  if (in.status().ok() && m.major != 1)
    return m; // the rest may look different; the caller refuses it by its version
  in.raw("nonce", m.nonce.data(), m.nonce.size());
  m.maxMessage = in.number<uint64_t>("max-message");
  m.serdes = in.text("serdes");
  m.software = in.text("software");
  return in.result(std::move(m));
}

Status encode(const Welcome &m, Buffer &out) {
  Writer w(out);
  w.raw(HelloMagic, HelloMagicSize)
      .number(m.major)
      .number(m.minor)
      .raw(m.nonce.data(), m.nonce.size())
      .number(m.maxMessage)
      .text(m.serdes)
      .text(m.software)
      .number(static_cast<uint8_t>(m.signature.has_value()));
  if (m.signature)
    w.signature(*m.signature);
  w.map(m.metadata);
  if (m.role != ServerRole::Model || !m.agents.empty())
    w.number(static_cast<uint8_t>(m.role));
  if (!m.agents.empty()) {
    w.number(static_cast<uint32_t>(m.agents.size()));
    for (const AgentSpec &agent : m.agents)
      w.text(agent.name).signature(agent.signature);
  }
  return w.done();
}

Expected<Welcome> decodeWelcome(Span<const uint8_t> bytes) {
  Reader in("welcome", bytes);
  Welcome m;
  readMagic(in);
  m.major = in.number<uint16_t>("major");
  m.minor = in.number<uint16_t>("minor");
  if (in.status().ok() && m.major != 1)
    return m;
  in.raw("nonce", m.nonce.data(), m.nonce.size());
  m.maxMessage = in.number<uint64_t>("max-message");
  m.serdes = in.text("serdes");
  m.software = in.text("software");
  if (in.number<uint8_t>("has-signature"))
    m.signature = in.signature();
  m.metadata = in.map("metadata");
  if (in.hasMore()) {
    const uint8_t role = in.number<uint8_t>("role");
    if (role > static_cast<uint8_t>(ServerRole::Environment))
      in.fail("is " + std::to_string(role), "role");
    m.role = static_cast<ServerRole>(role);
  }
  if (in.hasMore()) {
    const uint32_t count = in.count("agents");
    for (uint32_t i = 0; i < count && in.status().ok(); ++i) {
      std::string name = in.text("agents");
      m.agents.push_back({std::move(name), in.signature()});
    }
    if (in.status().ok())
      if (Status s = checkAgents(m.agents); !s)
        in.fail("is wrong: " + s.message(), "agents");
  }
  return in.result(std::move(m));
}

Status encode(const OpenStream &m, Buffer &out) {
  return Writer(out).signature(m.signature).text(m.agent).text(m.episode).text(m.context).done();
}

Expected<OpenStream> decodeOpenStream(Span<const uint8_t> bytes) {
  Reader in("open-stream", bytes);
  OpenStream m;
  m.signature = in.signature();
  m.agent = in.text("agent");
  m.episode = in.text("episode");
  m.context = in.text("context");
  return in.result(std::move(m));
}

Status encode(const EpisodeBegin &m, Buffer &out) {
  return Writer(out).text(m.episode).text(m.context).done();
}

Expected<EpisodeBegin> decodeEpisodeBegin(Span<const uint8_t> bytes) {
  Reader in("episode-begin", bytes);
  EpisodeBegin m;
  m.episode = in.text("episode");
  m.context = in.text("context");
  return in.result(std::move(m));
}

Status encode(const EpisodeEnd &m, Buffer &out) {
  Writer w(out);
  w.number(static_cast<int32_t>(m.outcome.code())).text(m.outcome.message()).number(m.steps);
  if (m.truncated)
    w.number(static_cast<uint8_t>(m.truncated));
  return w.done();
}

Expected<EpisodeEnd> decodeEpisodeEnd(Span<const uint8_t> bytes) {
  Reader in("episode-end", bytes);
  EpisodeEnd m;
  m.outcome = readStatus(in);
  m.steps = in.number<uint64_t>("steps");
  if (in.hasMore())
    m.truncated = in.number<uint8_t>("truncated") != 0;
  return in.result(std::move(m));
}

Status encode(const ResetMessage &m, Buffer &out) {
  return Writer(out).text(m.context).number(m.seed).done();
}

Expected<ResetMessage> decodeReset(Span<const uint8_t> bytes) {
  Reader in("reset", bytes);
  ResetMessage m;
  m.context = in.text("context");
  m.seed = in.number<uint64_t>("seed");
  return in.result(std::move(m));
}

Status encode(const BusyMessage &m, Buffer &out) {
  return Writer(out).number(m.retryAfter).text(m.text).done();
}

Expected<BusyMessage> decodeBusy(Span<const uint8_t> bytes) {
  Reader in("busy", bytes);
  BusyMessage m;
  m.retryAfter = in.number<uint64_t>("retry-after");
  m.text = shortened(in.text("text"));
  return in.result(std::move(m));
}

Status encode(const TurnMessage &m, Buffer &out) {
  Writer w(out);
  w.number(m.agent).number(static_cast<uint32_t>(m.rewards.size()));
  return w.raw(m.rewards.data(), m.rewards.size() * sizeof(double)).done();
}

Expected<TurnMessage> decodeTurn(Span<const uint8_t> bytes) {
  Reader in("turn", bytes);
  TurnMessage m;
  m.agent = in.number<uint32_t>("agent");
  const uint32_t count = in.number<uint32_t>("rewards");
  if (in.status().ok() && count > bytes.size() / sizeof(double))
    in.fail("are said to be " + std::to_string(count) + ", in a message of " +
                std::to_string(bytes.size()) + " bytes",
            "rewards");
  if (in.status().ok()) {
    m.rewards.resize(count);
    in.raw("rewards", m.rewards.data(), m.rewards.size() * sizeof(double));
  }
  return in.result(std::move(m));
}

Status encodeError(const Status &status, Buffer &out) {
  return Writer(out).number(static_cast<int32_t>(status.code())).text(status.message()).done();
}

Status decodeError(Span<const uint8_t> bytes) {
  Reader in("error", bytes);
  Status status = readStatus(in);
  return status.ok() ? Status(Code::Protocol, "an error frame that says ok") : status;
}

Status encodeReward(double value, Buffer &out) { return Writer(out).number(value).done(); }

Expected<double> decodeReward(Span<const uint8_t> bytes) {
  Reader in("reward", bytes);
  const double value = in.number<double>("value");
  return in.result(value);
}

Status encodeText(std::string_view text, Buffer &out) { return Writer(out).text(text).done(); }

Expected<std::string> decodeText(Span<const uint8_t> bytes) {
  Reader in("text", bytes);
  std::string text = shortened(in.text("text"));
  return in.result(std::move(text));
}

Status encodeMap(const Metadata &values, Buffer &out) { return Writer(out).map(values).done(); }

Expected<Metadata> decodeMap(Span<const uint8_t> bytes) {
  Reader in("map", bytes);
  Metadata values = in.map("entries");
  return in.result(std::move(values));
}

} // namespace mlbridge
