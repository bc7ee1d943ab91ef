// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of the codes, and what a caller can do about each.
#include <mlbridge/status.h>

#include <atomic>
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
  std::atomic<size_t> owners = 1;
};

Status::Status(Code code, std::string message)
    : failure_(code == Code::Ok ? nullptr : new Failure{code, std::move(message)}) {}

void Status::retain() const noexcept { failure_->owners.fetch_add(1, std::memory_order_relaxed); }

void Status::release() const noexcept {
  if (failure_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete failure_;
}

void Status::becomeFailure() {
  *this = Status(Code::Internal, "an Expected was made from an Ok status");
}

Code Status::code() const { return failure_ ? failure_->code : Code::Ok; }

const std::string &Status::message() const {
  static const auto *none = new std::string;
  return failure_ ? failure_->message : *none;
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
