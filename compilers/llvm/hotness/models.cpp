// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "models.h"

#include "features.h"
#include "profile.h"

#include <mlbridge/function.h>
#include <mlbridge/uri.h>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/xxhash.h"

#include <optional>

using namespace llvm;

namespace mlbridge::hotness {

Signature signature() {
  const auto Width = int64_t(featureNames().size());
  return {{TensorSpec::of<float>("functions", {Dynamic, Width}),
           TensorSpec::of<int64_t>("goal", {1}), TensorSpec::of<std::string>("names", {Dynamic})},
          {TensorSpec::of<int64_t>("sizes", {Dynamic})}};
}

namespace {

/// The answer for a function, by its row and the question.
using Answer = std::function<For(FunctionCall &Call, size_t Row)>;

mlbridge::Function answering(Answer One) {
  return [One = std::move(One)](FunctionCall &Call) -> Status {
    const auto Width = featureNames().size();
    const size_t Count = Call.in<float>("functions").size() / Width;
    const auto Length = int64_t(Count);
    const mlbridge::Expected<TensorView> To = Call.resizeOutput(0, {&Length, 1});
    if (!To)
      return To.status();
    for (size_t Row = 0; Row < Count; ++Row)
      To->as<int64_t>()[Row] = int64_t(One(Call, Row));
    return Status();
  };
}

void registerConstant(const char *Name, For Always) {
  (void)registerFunction(Name, signature(),
                         answering([=](FunctionCall &, size_t) { return Always; }));
}

mlbridge::Expected<double> shareOf(const Uri &From) {
  double Share = 0.5;
  const std::string Given = From.option("share");
  if (!Given.empty() && (StringRef(Given).getAsDouble(Share) || Share < 0 || Share > 1))
    return Status(Code::InvalidArgument, "function:" + From.place +
                                             ": share: expected a number from 0 to 1, got '" +
                                             Given + "'");
  return Share;
}

/// The part of a module's functions with the lowest frequencies is compiled for size.
mlbridge::Expected<FunctionModel> frequencies(const Uri &From) {
  if (Status Allowed = From.allowOnly({"share"}); !Allowed)
    return Allowed;
  const mlbridge::Expected<double> Share = shareOf(From);
  if (!Share)
    return Share.status();
  FunctionModel Made;
  Made.signature = signature();
  Made.newFunction = [Share = *Share] {
    return answering([Share](FunctionCall &Call, size_t Row) {
      const size_t Place = Row * featureNames().size() + size_t(Feature::rank);
      return double(Call.in<float>("functions")[Place]) <= Share ? For::SmallestSize : For::Speed;
    });
  };
  return Made;
}

mlbridge::Expected<FunctionModel> random(const Uri &From) {
  if (Status Allowed = From.allowOnly({"share", "seed"}); !Allowed)
    return Allowed;
  const mlbridge::Expected<double> Share = shareOf(From);
  if (!Share)
    return Share.status();
  const mlbridge::Expected<uint64_t> Seed = From.number("seed", 0);
  if (!Seed)
    return Seed.status();
  FunctionModel Made;
  Made.signature = signature();
  Made.newFunction = [Share = *Share, Seed = *Seed] {
    return answering([=](FunctionCall &Call, size_t Row) {
      const std::string &Name = Call.in<std::string>("names")[Row];
      const uint64_t Drawn = xxh3_64bits(Name + ":" + std::to_string(Seed));
      return double(Drawn >> 11) * 0x1p-53 < Share ? For::SmallestSize : For::Speed;
    });
  };
  return Made;
}

} // namespace

void registerModels() {
  static const bool Once = [] {
    registerConstant("speed", For::Speed);
    registerConstant("size", For::Size);
    registerConstant("smallest", For::SmallestSize);
    (void)registerFunction("frequencies", frequencies);
    (void)registerFunction("random", random);
    (void)registerScheme("profile", openProfile);
    return true;
  }();
  (void)Once;
}

} // namespace mlbridge::hotness
