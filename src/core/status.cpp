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

std::string Status::toString() const {
  std::string text = name(code_);
  if (!message_.empty())
    text.append(": ").append(message_);
  return text;
}

Status Status::withContext(std::string_view where) const {
  if (ok())
    return {};
  std::string text(where);
  if (!message_.empty())
    text.append(": ").append(message_);
  return {code_, std::move(text)};
}

} // namespace mlbridge
