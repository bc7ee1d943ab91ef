// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM's eviction advisors. LLVM 22 has them in a public header; LLVM 19 exports the same classes
// from its library, so that this states as much of them as is used here.
#ifndef MLBRIDGE_EVICTION_EVICTION_ADVISOR_H
#define MLBRIDGE_EVICTION_EVICTION_ADVISOR_H

#if __has_include("llvm/CodeGen/RegAllocEvictionAdvisor.h")
#include "llvm/CodeGen/RegAllocEvictionAdvisor.h"
#else

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/CodeGen/LiveInterval.h"
#include "llvm/CodeGen/MachineBlockFrequencyInfo.h"
#include "llvm/CodeGen/MachineLoopInfo.h"
#include "llvm/Pass.h"

namespace llvm {

class AllocationOrder;
class LiveIntervals;
class LiveRegMatrix;
class MachineRegisterInfo;
class RAGreedy;
class RegisterClassInfo;
class VirtRegMap;

using SmallVirtRegSet = SmallSet<Register, 16>;

// Virtual functions and members are in LLVM's order.
class RegAllocEvictionAdvisor {
public:
  virtual ~RegAllocEvictionAdvisor() = default;
  virtual MCRegister tryFindEvictionCandidate(const LiveInterval &, const AllocationOrder &,
                                              uint8_t, const SmallVirtRegSet &) const = 0;
  virtual bool canEvictHintInterference(const LiveInterval &, MCRegister,
                                        const SmallVirtRegSet &) const = 0;

protected:
  RegAllocEvictionAdvisor(const MachineFunction &, const RAGreedy &);

  const MachineFunction &MF;
  const RAGreedy &RA;
  LiveRegMatrix *const Matrix;
  LiveIntervals *const LIS;
  VirtRegMap *const VRM;
  MachineRegisterInfo *const MRI;
  const TargetRegisterInfo *const TRI;
  const RegisterClassInfo &RegClassInfo;
  const ArrayRef<uint8_t> RegCosts;
  const bool EnableLocalReassign;
};

class DefaultEvictionAdvisor : public RegAllocEvictionAdvisor {
public:
  DefaultEvictionAdvisor(const MachineFunction &MF, const RAGreedy &RA)
      : RegAllocEvictionAdvisor(MF, RA) {}

private:
  MCRegister tryFindEvictionCandidate(const LiveInterval &, const AllocationOrder &, uint8_t,
                                      const SmallVirtRegSet &) const override;
  bool canEvictHintInterference(const LiveInterval &, MCRegister,
                                const SmallVirtRegSet &) const override;
};

class RegAllocEvictionAdvisorAnalysis : public ImmutablePass {
public:
  enum class AdvisorMode : int { Default, Release, Development };

  explicit RegAllocEvictionAdvisorAnalysis(AdvisorMode Mode) : ImmutablePass(ID), Mode(Mode) {}
  static char ID;
  virtual std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &,
                                                              const RAGreedy &) = 0;
  AdvisorMode getAdvisorMode() const { return Mode; }
  virtual void logRewardIfNeeded(const MachineFunction &, function_ref<float()>) {}

protected:
  void getAnalysisUsage(AnalysisUsage &AU) const override { AU.setPreservesAll(); }

private:
  StringRef getPassName() const override;
  const AdvisorMode Mode;
};

/// Null without a channel's name, whether or not the channel is used.
RegAllocEvictionAdvisorAnalysis *createReleaseModeAdvisor();

/// LLVM 22 hands the analyses over; here they are found.
class RegAllocEvictionAdvisorProvider {
public:
  enum class AdvisorMode : int { Default, Release, Development };
  RegAllocEvictionAdvisorProvider(AdvisorMode, LLVMContext &) {}
  virtual ~RegAllocEvictionAdvisorProvider() = default;
  virtual std::unique_ptr<RegAllocEvictionAdvisor>
  getAdvisor(const MachineFunction &, const RAGreedy &, AnalysisResolver &) = 0;
};

} // namespace llvm

#endif

#endif
