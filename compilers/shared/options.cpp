// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "options.h"

#include <mlbridge/uri.h>

#include <utility>

namespace mlbridge::plugin {

std::string ModelOptions::nameOf(const std::string &Option) const {
  return Prefix.empty() ? Option : "-" + Prefix + "-" + Option;
}

Status ModelOptions::invalid(const std::string &Option, const std::string &Expected,
                             const std::string &Value) const {
  return {Code::InvalidArgument,
          nameOf(Option) + ": expected " + Expected + ", got '" + Value + "'"};
}

Status ModelOptions::checkModel() const {
  return Model.empty()
             ? Status(Code::InvalidArgument, "no model was given (" + nameOf("model") + "=URI)")
             : Status();
}

Status ModelOptions::check() const {
  const Expected<Duration> Time = parseDuration(Deadline);
  if (!Time || Time->count() <= 0)
    return invalid("deadline", "a time such as 5s, 250ms or a number of seconds", Deadline);
  if (OnFailure != "stock" && OnFailure != "fail")
    return invalid("on-failure", "stock or fail", OnFailure);
  return {};
}

OpenOptions ModelOptions::opening(std::string Unit) const {
  OpenOptions Opening;
  Opening.deadline = *parseDuration(Deadline);
  Opening.sharedBudget = true;
  Opening.context.unit = std::move(Unit);
  return Opening;
}

std::string ModelOptions::describe(const Status &Failure) const {
  const bool NamesModel = Failure.message().find(Model) != std::string::npos;
  return (NamesModel ? "" : Model + ": ") + Failure.toString();
}

} // namespace mlbridge::plugin
