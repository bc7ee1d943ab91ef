// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of the codes, and what a caller can do about each.
#include <mlbridge/status.h>

#include <iterator>

namespace mlbridge {

// By number.
static constexpr struct {
  const char *name;
  NextStep next;
} Codes[] = {
    {"ok", NextStep::Proceed},         {"deadline exceeded", NextStep::Retry},
    {"unavailable", NextStep::Retry},  {"busy", NextStep::Retry},
    {"closed", NextStep::Retry},       {"policy failed", NextStep::FallBack},
    {"cancelled", NextStep::FallBack}, {"invalid argument", NextStep::FixCall},
    {"mismatch", NextStep::FixModel},  {"invalid model", NextStep::FixModel},
    {"not found", NextStep::FixCall},  {"unsupported", NextStep::FixCall},
    {"protocol", NextStep::FixModel},  {"limit exceeded", NextStep::FallBack},
    {"internal", NextStep::Stop},
};
static_assert(std::size(Codes) == static_cast<size_t>(Code::Internal) + 1);

static constexpr const char *NextSteps[] = {"proceed",      "retry",         "fall back",
                                            "fix the call", "fix the model", "stop"};

const char *name(Code code) {
  const auto number = static_cast<size_t>(code);
  return number < std::size(Codes) ? Codes[number].name : "unknown code";
}

NextStep nextStep(Code code) {
  const auto number = static_cast<size_t>(code);
  return number < std::size(Codes) ? Codes[number].next : NextStep::Stop;
}

const char *name(NextStep step) {
  const auto number = static_cast<size_t>(step);
  return number < std::size(NextSteps) ? NextSteps[number] : "unknown step";
}

struct Status::Failure {
  Code code;
  std::string message;
};

Status::Status(Code code, std::string message) {
  if (code != Code::Ok)
    failure_ = new Failure{code, std::move(message)};
}
Status::Status(Code code, const char *message) : Status(code, std::string(message)) {}

Code Status::codeOf(const Failure &failure) { return failure.code; }
Status::Failure *Status::copyOf(const Failure &failure) { return new Failure(failure); }
void Status::drop(Failure *failure) { delete failure; }
Status::Failure *Status::missing() {
  return new Failure{Code::Internal, "an Expected was made from an Ok status"};
}

const std::string &Status::message() const {
  static const auto &none = *new std::string; // threads may run until the process ends
  return failure_ ? failure_->message : none;
}

std::string Status::toString() const {
  std::string text = name(code());
  if (!message().empty())
    text.append(": ").append(message());
  return text;
}

Status Status::withContext(std::string_view where) const {
  if (ok())
    return {};
  std::string text(where);
  if (!message().empty())
    text.append(": ").append(message());
  return {code(), std::move(text)};
}

} // namespace mlbridge
