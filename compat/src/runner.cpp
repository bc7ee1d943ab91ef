// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MLModelRunner/MLModelRunner.h"
#include "core/convert.h"

#include <mlbridge/uri.h>

#include <cstdlib>

namespace MLBridge {

using mlbridge::Code;
using mlbridge::Duration;
using mlbridge::ElementType;
using mlbridge::Expected;
using mlbridge::Status;

namespace {

Duration defaultDeadline() {
  if (const char *text = ::secure_getenv("MLBRIDGE_COMPAT_DEADLINE"))
    if (const Expected<Duration> given = mlbridge::parseDuration(text))
      return *given;
  return std::chrono::seconds(10);
}

/// Writes values.count elements of `type` to `into`. A value that isn't one of that type (a
/// fraction as an integer, 300 as a char, text as a number) is a Mismatch.
Status convert(const BaseSerDes::Values &values, ElementType type, void *into) {
  if (values.type == ElementType::String) {
    if (mlbridge::sizeOf(type) != 1)
      return Status(Code::Mismatch, "the model answered text where the pass asks for " +
                                        std::string(mlbridge::name(type)));
    if (values.count)
      std::memcpy(into, values.data, values.count);
    return Status();
  }
  const Status s = mlbridge::copyElements({type, into, values.count, {}}, values.type, values.data);
  return s ? s : Status(Code::Mismatch, "the pass " + s.message());
}

/// Writes what a runner found to where `resize` says: as elements of `type`, all or the first.
Status give(BaseSerDes *serdes, const void *found, ElementType type, bool several, void *into,
            void *(*resize)(void *into, size_t count)) {
  if (!found)
    return {Code::PolicyFailed, "the runner gave no answer"};
  if (serdes && serdes->values().returned == found) {
    BaseSerDes::Values values = serdes->values();
    if (!several && values.count == 0)
      return {Code::Mismatch, "the pass asks for one value and the model answered none"};
    if (!several)
      values.count = 1; // of several the first, as in the release
    return convert(values, type, resize(into, values.count));
  }
  // Bytes of whatever type the program knows.
  const size_t size = mlbridge::sizeOf(type);
  const bool lengthIsKnown =
      serdes && (serdes->getKind() == SerDesKind::Bitstream || serdes->getMessageLength() != 0);
  const size_t bytes = lengthIsKnown ? serdes->getMessageLength() : size;
  if (several ? bytes % size != 0 : bytes < size)
    return {Code::Mismatch, "the model answered " + std::to_string(bytes) +
                                " bytes where the pass asks for " +
                                (several ? "elements" : "a value") + " of " + std::to_string(size) +
                                " (" + mlbridge::name(type) + ")"};
  const size_t count = several ? bytes / size : 1;
  if (void *to = resize(into, count); count)
    std::memcpy(to, found, count * size);
  return Status();
}

} // namespace

MLModelRunner::MLModelRunner(Kind Type, SerDesKind SerDesType, llvm::LLVMContext *Ctx)
    : Ctx(Ctx), Type(Type), SerDesType(SerDesType), SerDes(makeSerDes(SerDesType)),
      Limit(defaultDeadline()) {}

MLModelRunner::MLModelRunner(Kind Type, llvm::LLVMContext *Ctx)
    : Ctx(Ctx), Type(Type), SerDesType(SerDesKind::Unknown), Limit(defaultDeadline()) {}

MLModelRunner::~MLModelRunner() = default;

void MLModelRunner::fail(Status status) {
  if (!Failure.ok())
    return;
  Failure = std::move(status);
  if (ErrorHandler)
    ErrorHandler(Failure);
}

void MLModelRunner::hasNoSerDes(const std::string &feature) {
  fail({Code::InvalidArgument, "feature '" + feature + "': this runner takes no features" +
                                   (SerDesType == SerDesKind::Unknown
                                        ? std::string()
                                        : ", because no SerDes is registered for its kind")});
}

bool MLModelRunner::askFor(ElementType type, bool several, void *into,
                           void *(*resize)(void *into, size_t count)) {
  Failure = Status();
  if (SerDes) {
    if (Status s = SerDes->takeStatus(); !s) {
      SerDes->clear();
      fail(std::move(s));
      return false;
    }
  }
  const void *found = evaluateUntyped();
  if (SerDes)
    if (Status s = SerDes->takeStatus(); !s)
      fail(std::move(s));
  if (Failure)
    if (Status s = give(SerDes.get(), found, type, several, into, resize); !s)
      fail(std::move(s));
  return Failure.ok();
}

} // namespace MLBridge
