// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One of the allocator's optimizations in one module: its model, and whether that still decides.
#ifndef MLBRIDGE_EVICTION_OPTIMIZATION_H
#define MLBRIDGE_EVICTION_OPTIMIZATION_H

#include "learned.h"
#include "plugin/advisor.h"

#include "llvm/CodeGen/MachineFunction.h"

namespace mlbridge::eviction {

/// Asks the model, and lets no answer through on which LLVM's advisor can't act: that trusts it.
class CheckedRunner : public llvm::MLModelRunner {
public:
  /// Features are written where the model reads them.
  CheckedRunner(llvm::LLVMContext &Context, const std::vector<llvm::TensorSpec> &Features,
                std::unique_ptr<LLVMModelRunner> Runner)
      : MLModelRunner(Context, Kind::Release, Features.size()), Runner(std::move(Runner)) {
    for (size_t I = 0; I < Features.size(); ++I)
      setUpBufferForTensor(I, Features[I], this->Runner->getTensorUntyped(I));
  }

  /// Why the model can't be asked, or why its last answer was refused; Ok after one that was not.
  const Status &status() const { return Refusal ? Runner->status() : Refusal; }
  /// True if LLVM's advisor took this runner for a function.
  bool isTaken() const { return IsTaken; }

  void switchContext(llvm::StringRef Name) override {
    IsTaken = true;
    Runner->switchContext(Name);
  }

protected:
  Status Refusal;
  const std::unique_ptr<LLVMModelRunner> Runner;

private:
  bool IsTaken = false;
};

/// Used by one thread.
class Optimization {
public:
  Optimization(plugin::Settings Options, llvm::Module &M);

  /// True if the model is asked about this function; false once it has failed.
  bool wants(const llvm::MachineFunction &MF) const;
  bool hasFailed() const { return HasFailed; }
  /// Reports that the command line is wrong: an error.
  void refuse(const Status &Failure);
  /// Reports a failure, the first one only: LLVM's heuristic decides for the rest of the module. Ok
  /// is none.
  void note(const Status &Result);
  /// Reports it for a function's allocation, which ends with it in a process that tries one.
  void note(const llvm::MachineFunction &MF, const Status &Result);

  const plugin::Settings Options;
  llvm::Module &M;

private:
  bool HasFailed = false;
};

/// LLVM's learned advisors for one module, with a runner that is a `Checked`. The model is opened
/// when the first function needs it.
template <typename Provider, typename Checked> class LearnedAdvisors {
public:
  using Maker = Expected<std::unique_ptr<Provider>> (*)(llvm::LLVMContext &, const NewRunner &);
  LearnedAdvisors(Optimization &Owner, Maker Make, llvm::TensorSpec Advice)
      : Owner(Owner), Make(Make), Advice(std::move(Advice)) {}

  /// Null if LLVM's default is to advise this function; `More` is what else the provider takes.
  template <typename... Args>
  auto getAdvisor(const llvm::MachineFunction &MF, Args &&...More)
      -> decltype(std::declval<Provider>().getAdvisor(MF, std::forward<Args>(More)...)) {
    if (!Owner.wants(MF) || !open())
      return nullptr;
    auto Advisor = Learned->getAdvisor(MF, std::forward<Args>(More)...);
    if (Runner->isTaken())
      return Advisor;
    Owner.note(Status(Code::Unsupported, "LLVM's learned advisor uses another runner"));
    return nullptr;
  }

  /// Requires that an advisor was made.
  Checked &runner() const { return *Runner; }

private:
  bool open() {
    if (Learned)
      return true;
    llvm::LLVMContext &Context = Owner.M.getContext();
    auto NewProvider = Make(Context, [&](std::vector<llvm::TensorSpec> Features) {
      llvm::append_range(Features, Checked::more());
      const Model Policy = plugin::openForProcess(Owner.Options);
      auto New = std::make_unique<Checked>(
          Context, Features, plugin::newRunner(Owner.Options, Policy, Owner.M, Features, Advice));
      Runner = New.get();
      return New;
    });
    Owner.note(NewProvider ? Runner->status() : NewProvider.status());
    if (Owner.hasFailed())
      return false;
    Learned = std::move(*NewProvider);
    return true;
  }

  Optimization &Owner;
  const Maker Make;
  const llvm::TensorSpec Advice;
  std::unique_ptr<Provider> Learned; // owns the runner
  Checked *Runner = nullptr;
};

} // namespace mlbridge::eviction

#endif
