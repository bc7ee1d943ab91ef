// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One question of the allocator in one module: which model answers it, and whether it still does.
#ifndef MLBRIDGE_REGALLOC_ADVICE_QUESTION_H
#define MLBRIDGE_REGALLOC_ADVICE_QUESTION_H

#include "advice/advice.h"
#include "learned.h"

#include "llvm/CodeGen/MachineFunction.h"

namespace mlbridge::regalloc {

/// Asks the model, and lets no answer through on which LLVM's advisor can't act: that trusts it.
class CheckedRunner : public llvm::MLModelRunner {
public:
  /// Its features are written where the model reads them.
  CheckedRunner(llvm::LLVMContext &Context, const std::vector<llvm::TensorSpec> &Features,
                std::unique_ptr<LLVMModelRunner> Of)
      : MLModelRunner(Context, Kind::Release, Features.size()), Of(std::move(Of)) {
    for (size_t I = 0; I < Features.size(); ++I)
      setUpBufferForTensor(I, Features[I], this->Of->getTensorUntyped(I));
  }

  /// Why the model can't be asked, or why its last answer was refused; Ok after one that was not.
  const Status &status() const { return Refused ? Of->status() : Refused; }
  /// Whether LLVM's advisor took this runner for a function.
  bool taken() const { return Taken; }

  void switchContext(llvm::StringRef Name) override {
    Taken = true;
    Of->switchContext(Name);
  }

protected:
  Status Refused;
  const std::unique_ptr<LLVMModelRunner> Of;

private:
  bool Taken = false;
};

/// In one module; used by one thread.
class Question {
public:
  Question(advice::Settings Options, llvm::Module &M);

  /// Whether the model is asked about this function; not if it has failed.
  bool wants(const llvm::MachineFunction &MF) const;
  bool failed() const { return Failed; }
  /// The command line is wrong: an error.
  void refuse(const Status &Why);
  /// Says why, once: LLVM's heuristic decides for the rest of the module. Nothing if `Why` is Ok.
  void note(const Status &Why);
  void note(const llvm::MachineFunction &MF, const Status &Why);

  const advice::Settings Options;
  llvm::Module &M;

private:
  bool Failed = false;
};

/// LLVM's learned advisors for one module, with a runner that is a `Checked`. The model is opened
/// when the first function needs it.
template <typename Provider, typename Checked> class LearnedAdvisors {
public:
  using Maker = Expected<std::unique_ptr<Provider>> (*)(llvm::LLVMContext &, const NewRunner &);
  LearnedAdvisors(Question &Asked, Maker Make, llvm::TensorSpec Advice)
      : Asked(Asked), Make(Make), Advice(std::move(Advice)) {}

  /// Null if LLVM's default is to advise this function; `More` is what else the provider takes.
  template <typename... Args>
  auto getAdvisor(const llvm::MachineFunction &MF, Args &&...More)
      -> decltype(std::declval<Provider>().getAdvisor(MF, std::forward<Args>(More)...)) {
    if (!Asked.wants(MF) || !open())
      return nullptr;
    auto Its = Learned->getAdvisor(MF, std::forward<Args>(More)...);
    if (Runner->taken())
      return Its;
    Asked.note(Status(Code::Unsupported, "LLVM's learned advisor uses another runner"));
    return nullptr;
  }

  /// After an advisor was made.
  Checked &runner() const { return *Runner; }

private:
  bool open() {
    if (Learned)
      return true;
    llvm::LLVMContext &Context = Asked.M.getContext();
    auto Made = Make(Context, [&](std::vector<llvm::TensorSpec> Features) {
      llvm::append_range(Features, Checked::more());
      const Model Of = advice::opened(Asked.Options);
      auto New = std::make_unique<Checked>(
          Context, Features, advice::newRunner(Asked.Options, Of, Asked.M, Features, Advice));
      Runner = New.get();
      return New;
    });
    Asked.note(Made ? Runner->status() : Made.status());
    if (Asked.failed())
      return false;
    Learned = std::move(*Made);
    return true;
  }

  Question &Asked;
  const Maker Make;
  const llvm::TensorSpec Advice;
  std::unique_ptr<Provider> Learned; // owns the runner
  Checked *Runner = nullptr;
};

} // namespace mlbridge::regalloc

#endif
