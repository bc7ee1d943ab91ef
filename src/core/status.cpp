// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of the codes, and what a caller can do about each.
#include <mlbridge/status.h>

namespace mlbridge {

const char *name(Code code) {
  switch (code) {
  case Code::Ok:
    return "ok";
  case Code::DeadlineExceeded:
    return "deadline exceeded";
  case Code::Unavailable:
    return "unavailable";
  case Code::Busy:
    return "busy";
  case Code::Closed:
    return "closed";
  case Code::PolicyFailed:
    return "policy failed";
  case Code::Cancelled:
    return "cancelled";
  case Code::InvalidArgument:
    return "invalid argument";
  case Code::Mismatch:
    return "mismatch";
  case Code::InvalidModel:
    return "invalid model";
  case Code::NotFound:
    return "not found";
  case Code::Unsupported:
    return "unsupported";
  case Code::Protocol:
    return "protocol";
  case Code::LimitExceeded:
    return "limit exceeded";
  case Code::Internal:
    return "internal";
  }
  return "unknown code";
}

NextStep nextStep(Code code) {
  switch (code) {
  case Code::Ok:
    return NextStep::Proceed;
  case Code::DeadlineExceeded:
  case Code::Unavailable:
  case Code::Busy:
  case Code::Closed:
    return NextStep::Retry;
  case Code::PolicyFailed:
  case Code::Cancelled:
  case Code::LimitExceeded:
    return NextStep::FallBack;
  case Code::InvalidArgument:
  case Code::NotFound:
  case Code::Unsupported:
    return NextStep::FixCall;
  case Code::Mismatch:
  case Code::InvalidModel:
  case Code::Protocol:
    return NextStep::FixModel;
  case Code::Internal:
    return NextStep::Stop;
  }
  return NextStep::Stop;
}

const char *name(NextStep step) {
  switch (step) {
  case NextStep::Proceed:
    return "proceed";
  case NextStep::Retry:
    return "retry";
  case NextStep::FallBack:
    return "fall back";
  case NextStep::FixCall:
    return "fix the call";
  case NextStep::FixModel:
    return "fix the model";
  case NextStep::Stop:
    return "stop";
  }
  return "unknown step";
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
