// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/missing_features.h"

#include <algorithm>

namespace mlbridge::native {

void MissingFeatures::add(const std::string &who, const std::string &why, bool isHere) {
  constexpr size_t MostNamed = 3;
  areHere_ = areHere_ && isHere;
  auto reason = std::find_if(reasons_.begin(), reasons_.end(),
                             [&](const Reason &other) { return other.why == why; });
  if (reason == reasons_.end())
    reason = reasons_.insert(reason, {why, {}, 0});
  if (std::find(reason->named.begin(), reason->named.end(), who) != reason->named.end())
    return;
  if (reason->named.size() < MostNamed)
    reason->named.push_back(who);
  else
    ++reason->others;
}

Status MissingFeatures::status() const {
  constexpr size_t MostReasons = 32;
  std::string text;
  for (size_t i = 0; i < std::min(reasons_.size(), MostReasons); ++i) {
    const Reason &reason = reasons_[i];
    text += i ? "; " : "";
    for (size_t k = 0; k < reason.named.size(); ++k)
      text += (k ? ", " : "") + reason.named[k];
    if (reason.others)
      text += " and " + std::to_string(reason.others) + " more";
    text += ": " + reason.why;
  }
  if (reasons_.size() > MostReasons)
    text += "; and " + std::to_string(reasons_.size() - MostReasons) + " reasons more";
  if (areHere_)
    text += "; open the model with onnx: (ONNX Runtime) instead";
  return {Code::Unsupported, text};
}

} // namespace mlbridge::native
