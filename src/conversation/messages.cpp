// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/messages.h"

#include "conversation/frame.h"
#include "core/bind.h"
#include "core/message.h"

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
  static constexpr bool Reads = false;
  explicit Writer(Buffer &out) : out_(out) {}

  template <typename T> void number(const char *, T value) { append(&value, sizeof value); }
  template <typename T> void numbers(const char *, const std::vector<T> &values) {
    append(values.data(), values.size() * sizeof(T));
  }
  void raw(const char *, const void *bytes, size_t size) { append(bytes, size); }
  void text(const char *, std::string_view value) {
    if (value.size() > UINT32_MAX)
      status_ = makeError(Code::LimitExceeded, "a text of more than 4 GiB");
    count(value.size());
    append(value.data(), value.size());
  }
  void map(const char *field, const Metadata &values) {
    count(values.size());
    for (const auto &[key, value] : values) {
      text(field, key);
      text(field, value);
    }
  }
  template <typename List, typename Each>
  void list(const char *, const List &values, const Each &each) {
    count(values.size());
    for (const auto &value : values)
      each(value);
  }
  /// True if an optional field follows, which need not be sent if it says nothing.
  bool follows(bool isNeeded) const { return isNeeded; }
  bool ok() const { return status_.ok(); }
  Status &status() { return status_; }

private:
  void count(size_t number) { this->number("", static_cast<uint32_t>(number)); }
  void append(const void *bytes, size_t size) {
    if (status_.ok())
      status_ = out_.append(bytes, size);
  }

  Buffer &out_;
  Status status_;
};

/// Reads fields; after the first failure nothing is read any more, and status() says what was
/// wrong.
class Reader {
public:
  static constexpr bool Reads = true;
  Reader(const char *message, Span<const uint8_t> bytes, size_t most = SIZE_MAX)
      : message_(message), bytes_(bytes), mostTensors_(most) {}

  template <typename T> void number(const char *field, T &value) {
    raw(field, &value, sizeof value);
  }
  template <typename T> void numbers(const char *field, std::vector<T> &values) {
    raw(field, values.data(), values.size() * sizeof(T));
  }
  void raw(const char *field, void *to, size_t size) {
    if (!have(field, size))
      return;
    if (size)
      std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }
  void text(const char *field, std::string &value) {
    const size_t size = count(field);
    if (!have(field, size))
      return;
    value.assign(reinterpret_cast<const char *>(bytes_.data()) + at_, size);
    at_ += size;
  }
  void map(const char *field, Metadata &values) {
    for (uint32_t left = count(field); left && ok(); --left) {
      std::string key;
      text(field, key);
      text(field, values[key]);
    }
  }
  template <typename List, typename Each>
  void list(const char *field, List &values, const Each &each) {
    const uint32_t count = this->count(field);
    tensors_ += count;
    if (count > MaxCount)
      fail("states " + std::to_string(count) + " entries, the limit is " + std::to_string(MaxCount),
           field);
    else if (tensors_ > mostTensors_)
      status_ = makeError(Code::LimitExceeded, message_, ": field '", field, "' has at least ",
                          tensors_, " tensors, the limit is ", mostTensors_);
    while (ok() && values.size() < count)
      each(values.emplace_back());
  }
  uint32_t count(const char *field) {
    uint32_t count = 0;
    number(field, count);
    return count;
  }
  void fail(const std::string &what) {
    if (ok())
      status_ = makeError(Code::Protocol, message_, ": ", what);
  }
  void fail(const std::string &what, const char *field) {
    fail("field '" + std::string(field) + "' " + what);
  }
  bool follows(bool) const { return ok() && at_ < bytes_.size(); }
  size_t size() const { return bytes_.size(); }
  bool ok() const { return status_.ok(); }
  Status &status() { return status_; }

private:
  bool have(const char *field, size_t size) {
    if (ok() && size > bytes_.size() - at_)
      fail("needs " + std::to_string(size) + " bytes at offset " + std::to_string(at_) +
               ", the message has " + std::to_string(bytes_.size()),
           field);
    return ok();
  }

  const char *message_;
  Span<const uint8_t> bytes_;
  size_t at_ = 0;
  const size_t mostTensors_;
  size_t tensors_ = 0;
  Status status_;
};

/// A message as a writer takes it and a reader fills it.
template <typename Io, typename Message>
using MaybeConst = std::conditional_t<Io::Reads, Message, const Message>;

// The fields of each message, in their order, for both.

template <typename Io, typename Spec> void specFields(Io &io, const char *field, Spec &spec) {
  auto rank = static_cast<uint8_t>(spec.shape.size());
  auto hasMaximum = static_cast<uint8_t>(!spec.maximum.empty());
  io.text(field, spec.name);
  io.number(field, spec.type);
  io.number(field, rank);
  io.number(field, hasMaximum);
  if constexpr (Io::Reads) {
    if (rank > MaxRank)
      return io.fail(
          "has rank " + std::to_string(rank) + ", the limit is " + std::to_string(MaxRank), field);
    spec.shape.resize(rank);
    spec.maximum.resize(hasMaximum ? rank : 0);
  }
  io.numbers(field, spec.shape);
  io.numbers(field, spec.maximum);
}

template <typename Io, typename S> void signatureFields(Io &io, S &signature) {
  constexpr char Field[] = "signature";
  for (auto *side : {&signature.inputs, &signature.outputs})
    io.list(Field, *side, [&](auto &spec) { specFields(io, Field, spec); });
  if constexpr (Io::Reads)
    if (Status s = io.ok() ? signature.check() : Status(); !s)
      io.fail(s.message());
}

template <typename Io, typename S> void statusFields(Io &io, S &status) {
  auto code = static_cast<int32_t>(status.code());
  io.number("code", code);
  if constexpr (Io::Reads) {
    std::string text;
    io.text("text", text);
    if (io.ok() && code != 0) // a code of a later version keeps its text
      status = Status(code < 0 || code > MaxCode ? Code::PolicyFailed : static_cast<Code>(code),
                      shortened(std::move(text)));
  } else {
    io.text("text", status.message());
  }
}

template <typename Io> void fields(Io &io, MaybeConst<Io, Hello> &m) {
  char magic[HelloMagicSize];
  std::memcpy(magic, HelloMagic, sizeof magic);
  io.raw("magic", magic, sizeof magic);
  if constexpr (Io::Reads)
    if (std::memcmp(magic, HelloMagic, sizeof magic) != 0)
      io.fail("is not 'MLBRIDGE'", "magic");
  io.number("major", m.major);
  io.number("minor", m.minor);
  if (m.major != ProtocolMajor)
    return; // the rest may look different; the caller refuses it by its version
  io.raw("nonce", m.nonce.data(), m.nonce.size());
  io.number("max-message", m.maxMessage);
  io.text("serdes", m.serdes);
  io.text("software", m.software);
}

template <typename Io> void fields(Io &io, MaybeConst<Io, Welcome> &m) {
  fields(io, static_cast<MaybeConst<Io, Hello> &>(m));
  if (m.major != ProtocolMajor)
    return;
  auto hasSignature = static_cast<uint8_t>(m.signature.has_value());
  io.number("has-signature", hasSignature);
  if constexpr (Io::Reads)
    if (hasSignature)
      m.signature.emplace();
  if (m.signature)
    signatureFields(io, *m.signature);
  io.map("metadata", m.metadata);
  if (io.follows(m.role != ServerRole::Model || !m.agents.empty() || m.stateless)) {
    io.number("role", m.role);
    if constexpr (Io::Reads)
      if (m.role > ServerRole::Environment)
        io.fail("is " + std::to_string(static_cast<int>(m.role)) + ", expected 0 or 1", "role");
  }
  if (io.follows(!m.agents.empty() || m.stateless)) {
    io.list("agents", m.agents, [&](auto &agent) {
      io.text("agents", agent.name);
      signatureFields(io, agent.signature);
    });
    if constexpr (Io::Reads)
      if (Status s = io.ok() ? checkAgents(m.agents) : Status(); !s)
        io.fail("is wrong: " + s.message(), "agents");
  }
  auto stateless = static_cast<uint8_t>(m.stateless);
  if (io.follows(m.stateless))
    io.number("stateless", stateless);
  if constexpr (Io::Reads)
    m.stateless = stateless != 0;
}

template <typename Io> void fields(Io &io, MaybeConst<Io, OpenStream> &m) {
  signatureFields(io, m.signature);
  io.text("agent", m.context.agent);
  io.text("episode", m.context.episode);
  io.text("unit", m.context.unit);
}

template <typename Io> void fields(Io &io, MaybeConst<Io, EpisodeBegin> &m) {
  io.text("episode", m.episode);
  io.text("unit", m.unit);
}

template <typename Io> void fields(Io &io, MaybeConst<Io, EpisodeEnd> &m) {
  statusFields(io, m.outcome);
  io.number("steps", m.steps);
  auto truncated = static_cast<uint8_t>(m.truncated);
  if (io.follows(m.truncated))
    io.number("truncated", truncated);
  if constexpr (Io::Reads)
    m.truncated = truncated != 0;
}

template <typename Io> void fields(Io &io, MaybeConst<Io, ResetMessage> &m) {
  io.text("unit", m.unit);
  io.number("seed", m.seed);
}

template <typename Io> void fields(Io &io, MaybeConst<Io, BusyMessage> &m) {
  io.number("retry-after", m.retryAfter);
  io.text("text", m.text);
}

template <typename Io> void fields(Io &io, MaybeConst<Io, TurnMessage> &m) {
  auto count = static_cast<uint32_t>(m.rewards.size());
  io.number("agent", m.agent);
  io.number("rewards", count);
  if constexpr (Io::Reads) {
    if (count > io.size() / sizeof(double))
      return io.fail("states " + std::to_string(count) + " numbers, too many for a message of " +
                         std::to_string(io.size()) + " bytes",
                     "rewards");
    m.rewards.resize(count);
  }
  io.numbers("rewards", m.rewards);
}

template <typename Io> void fields(Io &io, MaybeConst<Io, RewardMessage> &m) {
  io.number("value", m.value);
}

template <typename Io> void fields(Io &io, MaybeConst<Io, ByeMessage> &m) {
  io.text("text", m.text);
}

template <typename Io> void fields(Io &io, MaybeConst<Io, StatisticsMessage> &m) {
  io.map("entries", m.entries);
}

} // namespace

std::string softwareName() {
  return "mlbridge " MLBRIDGE_VERSION " pid " + std::to_string(::getpid());
}

template <typename Message> Status encode(const Message &message, Buffer &out) {
  Writer writer(out);
  fields(writer, message);
  return std::move(writer.status());
}

template <typename Message>
Expected<Message> decode(Span<const uint8_t> bytes, size_t mostTensors) {
  Reader reader(Message::Name, bytes, mostTensors);
  Message message;
  fields(reader, message);
  if (!reader.ok())
    return reader.status();
  if constexpr (std::is_same_v<Message, BusyMessage> || std::is_same_v<Message, ByeMessage>)
    message.text = shortened(std::move(message.text));
  return message;
}

#define MESSAGE(Message)                                                                           \
  template Status encode(const Message &, Buffer &);                                               \
  template Expected<Message> decode(Span<const uint8_t>, size_t);
MESSAGE(Hello)
MESSAGE(Welcome)
MESSAGE(OpenStream)
MESSAGE(EpisodeBegin)
MESSAGE(EpisodeEnd)
MESSAGE(ResetMessage)
MESSAGE(BusyMessage)
MESSAGE(TurnMessage)
MESSAGE(RewardMessage)
MESSAGE(ByeMessage)
MESSAGE(StatisticsMessage)
#undef MESSAGE

Status encode(const Status &status, Buffer &out) {
  Writer writer(out);
  statusFields(writer, status);
  return std::move(writer.status());
}

Status decodeError(Span<const uint8_t> bytes) {
  Reader reader("error", bytes);
  Status status;
  statusFields(reader, status);
  if (!reader.ok())
    return reader.status();
  return status.ok() ? makeError(Code::Protocol, "an error frame that says ok") : status;
}

Status decodeBusy(Span<const uint8_t> bytes) {
  Expected<BusyMessage> busy = decode<BusyMessage>(bytes);
  return busy ? Status(Code::Busy, std::move(busy->text)) : busy.status();
}

} // namespace mlbridge
