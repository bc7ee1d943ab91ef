// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "models.h"

#include "shared/agents.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <mutex>

namespace mlbridge::phase_ordering {

/// The index that means stop: the last one of the mask.
static Status answerStop(FunctionCall &Call) {
  const Span<const float> Mask = Call.in<float>("action_mask");
  const Span<int64_t> Action = Call.out<int64_t>("action");
  if (Mask.empty() || Action.empty())
    return Status(Code::Mismatch, "expected an input action_mask and an output action");
  Action[0] = int64_t(Mask.size()) - 1;
  return Status();
}

static Expected<FunctionModel> sequence(const Uri &From) {
  if (Status S = From.allowOnly({"actions", "list"}); !S)
    return S;
  const std::string Text = From.option("actions");
  llvm::SmallVector<llvm::StringRef> Parts;
  llvm::StringRef(Text).split(Parts, ',', -1, /*KeepEmpty=*/false);
  std::vector<int64_t> Answers;
  for (llvm::StringRef Part : Parts) {
    int64_t Answer = 0;
    if (!llvm::to_integer(Part, Answer, 10))
      return Status(Code::InvalidArgument,
                    "function:sequence: actions: '" + Part.str() + "' is not a number");
    Answers.push_back(Answer);
  }
  FunctionModel Model;
  if (const std::string List = From.option("list"); !List.empty()) {
    auto Buffer = llvm::MemoryBuffer::getFile(List);
    if (!Buffer)
      return Status(Code::NotFound,
                    "function:sequence: list: " + List + ": " + Buffer.getError().message());
    Model.metadata["phase-ordering.actions"] = (*Buffer)->getBuffer().str();
  }
  Model.newFunction = [Answers]() -> Function {
    return [Answers, Next = size_t(0)](FunctionCall &Call) mutable -> Status {
      if (Next == Answers.size())
        return answerStop(Call);
      const Span<int64_t> Action = Call.out<int64_t>("action");
      if (Action.empty())
        return Status(Code::Mismatch, "expected an output action");
      Action[0] = Answers[Next++];
      return Status();
    };
  };
  return Model;
}

static Expected<FunctionModel> failAt(const Uri &From) {
  if (Status S = From.allowOnly({"step"}); !S)
    return S;
  const Expected<uint64_t> Step = From.number("step", 0);
  if (!Step)
    return Step.status();
  FunctionModel Model;
  Model.newFunction = [Last = *Step]() -> Function {
    return [Last, Now = uint64_t(0)](FunctionCall &Call) mutable -> Status {
      if (Now == Last)
        return Status(Code::PolicyFailed, "fails at step " + std::to_string(Now) + ", as asked");
      ++Now;
      const Span<const float> Mask = Call.in<float>("action_mask");
      const Span<const float> Taken = Call.in<float>("history");
      const Span<int64_t> Action = Call.out<int64_t>("action");
      if (Mask.empty() || Taken.size() != Mask.size() || Action.empty())
        return Status(Code::Mismatch, "expected action_mask, history and an output action");
      size_t Best = Mask.size() - 1;
      for (size_t I = Mask.size() - 1; I-- > 0;)
        if (Mask[I] > 0 && (Best == Mask.size() - 1 || Taken[I] <= Taken[Best]))
          Best = I;
      Action[0] = int64_t(Best);
      return Status();
    };
  };
  return Model;
}

/// The model of "candidates:FILE": it expects most of the first candidate, least of the last.
static mlbridge::Expected<FunctionModel> candidates(const Uri &From) {
  if (Status S = From.allowOnly({}); !S)
    return S;
  auto Buffer = llvm::MemoryBuffer::getFile(From.place);
  if (!Buffer)
    return Status(Code::NotFound, "candidates: " + From.place + ": " + Buffer.getError().message());
  FunctionModel Model;
  Model.metadata["phase-ordering.candidates"] = (*Buffer)->getBuffer().str();
  Model.newFunction = []() -> Function {
    return [](FunctionCall &Call) -> Status {
      const Span<float> Expected = Call.out<float>("log_ratio");
      for (size_t I = 0; I < Expected.size(); ++I)
        Expected[I] = float(I);
      return Status();
    };
  };
  return Model;
}

void registerModels() {
  static std::once_flag Once;
  std::call_once(Once, [] {
    // Names that are taken belong to whoever took them.
    (void)registerFunction("sequence", sequence);
    (void)plugin::registerAgent("stop", answerStop);
    (void)registerFunction("fail-at", failAt);
    (void)registerScheme("candidates", candidates);
  });
}

} // namespace mlbridge::phase_ordering
