// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/missing_features.h"

#include <algorithm>

namespace mlbridge::native {
namespace {

/// What helps where a reason has one of the words.
constexpr const char *WaysOut[][2] = {
    {"uses opset|from opset", "export it for another opset (opset_version, target_opset; "
                              "onnx.version_converter converts a file)"},
    {"STRING|texts|operator String|Regex|TfIdf|CategoryMapper|DictVectorizer",
     "encode texts before the model (numbers, integer labels)"},
    {"operator Sequence|ToSequence|FromSequence|operator Optional|a sequence",
     "export it without lists (torch.onnx.export(dynamo=True), zipmap=False)"},
    {"operator org.pytorch", "export it with torch.onnx.export(dynamo=True)"},
    {"operator com.microsoft",
     "take the file from before ONNX Runtime's optimization (or optimize with ORT_ENABLE_BASIC)"},
    {"operator Random|Bernoulli|Multinomial",
     "export it without drawing, which ?choose=sample does"},
    {"INT4|INT2|FLOAT8|FLOAT4", "quantize it to 8 bits"},
};

bool hasOneOf(std::string_view words, std::string_view text) {
  const std::string_view word = words.substr(0, words.find('|'));
  return text.find(word) != text.npos ||
         (word.size() < words.size() && hasOneOf(words.substr(word.size() + 1), text));
}

} // namespace

void MissingFeatures::add(const std::string &who, const std::string &why, bool isHere) {
  areHere_ = areHere_ && isHere;
  const auto reason = std::find_if(reasons_.begin(), reasons_.end(),
                                   [&](const Reason &other) { return other.why == why; });
  if (reason == reasons_.end())
    reasons_.push_back({why, who, 0});
  else
    reason->others += reason->first != who;
}

Status MissingFeatures::status() const {
  constexpr size_t MostReasons = 32;
  std::string text;
  for (size_t i = 0; i < std::min(reasons_.size(), MostReasons); ++i) {
    const Reason &reason = reasons_[i];
    text.append(i ? "; " : "").append(reason.first);
    if (reason.others)
      text.append(" and ").append(std::to_string(reason.others)).append(" more");
    text.append(": ").append(reason.why);
  }
  if (reasons_.size() > MostReasons)
    text += "; and " + std::to_string(reasons_.size() - MostReasons) + " reasons more";
  const char *joint = "; you can ";
  const auto advise = [&](const char *way, const char *before) {
    text.append(joint).append(way);
    joint = before;
  };
  if (areHere_)
    advise("open it with onnx:FILE (ONNX Runtime) and the same options", ", or ");
  for (const auto &[words, way] : WaysOut)
    if (std::any_of(reasons_.begin(), reasons_.end(),
                    [words = words](const Reason &reason) { return hasOneOf(words, reason.why); }))
      advise(way, " and ");
  return {Code::Unsupported, text};
}

} // namespace mlbridge::native
