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

/// How this process names itself to its peer: "mlbridge 0.2.0 pid 17".
std::string softwareName();

struct Hello {
  static constexpr char Name[] = "hello";
  uint16_t major = 1, minor = 0;
  Nonce nonce{};
  uint64_t maxMessage = 0; ///< largest payload that the sender accepts
  std::string serdes;
  std::string software;
};

/// The role of a server: it answers requests, or it is driven.
enum class ServerRole : uint8_t { Model = 0, Environment = 1 };

/// Begins like the Hello, whose nonce it repeats.
struct Welcome : Hello {
  static constexpr char Name[] = "welcome";
  std::optional<Signature> signature;
  Metadata metadata;
  ServerRole role = ServerRole::Model;
  std::vector<AgentSpec> agents; ///< if there are several; there is no signature then
  /// An answer depends on its request alone, so that another server may go on with an episode.
  bool stateless = false;
};

struct OpenStream {
  static constexpr char Name[] = "open-stream";
  Signature signature;
  CallContext context;
};

struct EpisodeBegin {
  static constexpr char Name[] = "episode-begin";
  std::string episode, unit;
};

struct EpisodeEnd {
  static constexpr char Name[] = "episode-end";
  Status outcome;
  uint64_t steps = 0;
  bool truncated = false;
};

/// Before the answer to a reset or step, in an environment of several agents.
struct TurnMessage {
  static constexpr char Name[] = "turn";
  static constexpr uint32_t Nobody = UINT32_MAX;
  uint32_t agent = Nobody;     ///< who acts next, a number of the welcome's list
  std::vector<double> rewards; ///< of each agent, since it acted
};

struct ResetMessage {
  static constexpr char Name[] = "reset";
  std::string unit; ///< which module; "" = the same again
  uint64_t seed = 0;
};

struct BusyMessage {
  static constexpr char Name[] = "busy";
  uint64_t retryAfter = 0; ///< nanoseconds
  std::string text;
};

struct RewardMessage {
  static constexpr char Name[] = "reward";
  double value = 0;
};

struct ByeMessage {
  static constexpr char Name[] = "bye";
  std::string text;
};

struct StatisticsMessage {
  static constexpr char Name[] = "statistics";
  Metadata entries;
};

/// Appends one of the messages above to the buffer. Errors: LimitExceeded.
template <typename Message> Status encode(const Message &message, Buffer &out);
/// The same of an error frame.
Status encode(const Status &why, Buffer &out);

/// Errors: Protocol, naming the message, the field and the sizes; LimitExceeded (its signatures
/// have more than so many tensors).
template <typename Message>
Expected<Message> decode(Span<const uint8_t> bytes, size_t mostTensors = SIZE_MAX);
/// The peer's error (never Ok: an error frame that says Ok is a Protocol error, too).
Status decodeError(Span<const uint8_t> bytes);
/// The same of a busy frame.
Status decodeBusy(Span<const uint8_t> bytes);

} // namespace mlbridge

#endif
