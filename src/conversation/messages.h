// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The payloads of the control frames of docs/protocol.md. Fields stand in a fixed order; a later
// minor version may append some, so bytes after the known fields are ignored.
#ifndef MLBRIDGE_CONVERSATION_MESSAGES_H
#define MLBRIDGE_CONVERSATION_MESSAGES_H

#include "core/buffer.h"
#include <mlbridge/model.h>

#include <array>

namespace mlbridge {

using Nonce = std::array<uint8_t, 16>;

/// How this process names itself to its peer: "mlbridge 0.1.0 pid 17".
std::string softwareName();

struct Hello {
  uint16_t major = 1, minor = 0;
  Nonce nonce{};
  uint64_t maxMessage = 0; ///< largest payload that the sender accepts
  std::string serdes;
  std::string software;
};

/// What a server is: something that answers requests, or something that is driven.
enum class ServerRole : uint8_t { Model = 0, Environment = 1 };

struct Welcome {
  uint16_t major = 1, minor = 0;
  Nonce nonce{}; ///< the one of the hello
  uint64_t maxMessage = 0;
  std::string serdes;
  std::string software;
  std::optional<Signature> signature;
  Metadata metadata;
  ServerRole role = ServerRole::Model;
  std::vector<AgentSpec> agents; ///< if there are several; there is no signature then
};

struct OpenStream {
  Signature signature;
  std::string agent, episode, context;
};

struct EpisodeBegin {
  std::string episode, context;
};

struct EpisodeEnd {
  Status outcome;
  uint64_t steps = 0;
  bool truncated = false;
};

/// Before the answer to a reset or step, in an environment of several agents.
struct TurnMessage {
  static constexpr uint32_t Nobody = UINT32_MAX;
  uint32_t agent = Nobody;     ///< who acts next, a number of the welcome's list
  std::vector<double> rewards; ///< of each agent, since it acted
};

struct ResetMessage {
  std::string context; ///< which module; "" = the same again
  uint64_t seed = 0;
};

struct BusyMessage {
  uint64_t retryAfter = 0; ///< nanoseconds
  std::string text;
};

/// Each appends to the buffer. Errors: LimitExceeded.
Status encode(const Hello &, Buffer &);
Status encode(const Welcome &, Buffer &);
Status encode(const OpenStream &, Buffer &);
Status encode(const EpisodeBegin &, Buffer &);
Status encode(const EpisodeEnd &, Buffer &);
Status encode(const ResetMessage &, Buffer &);
Status encode(const BusyMessage &, Buffer &);
Status encode(const TurnMessage &, Buffer &);
Status encodeError(const Status &, Buffer &);
Status encodeReward(double, Buffer &);
Status encodeText(std::string_view, Buffer &); ///< Bye
Status encodeMap(const Metadata &, Buffer &);  ///< Statistics

/// Errors: Protocol, naming the message, the field and the sizes.
Expected<Hello> decodeHello(Span<const uint8_t>);
Expected<Welcome> decodeWelcome(Span<const uint8_t>);
Expected<OpenStream> decodeOpenStream(Span<const uint8_t>);
Expected<EpisodeBegin> decodeEpisodeBegin(Span<const uint8_t>);
Expected<EpisodeEnd> decodeEpisodeEnd(Span<const uint8_t>);
Expected<ResetMessage> decodeReset(Span<const uint8_t>);
Expected<BusyMessage> decodeBusy(Span<const uint8_t>);
Expected<TurnMessage> decodeTurn(Span<const uint8_t>);
/// What the peer reported (never Ok: an error frame that says Ok is a Protocol error too).
Status decodeError(Span<const uint8_t>);
Expected<double> decodeReward(Span<const uint8_t>);
Expected<std::string> decodeText(Span<const uint8_t>);
Expected<Metadata> decodeMap(Span<const uint8_t>);

} // namespace mlbridge

#endif
