// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Live ranges as vectors: each is the mean of the instructions that use or define it.
#ifndef MLBRIDGE_REGISTER_ALLOCATION_RANGE_EMBEDDINGS_H
#define MLBRIDGE_REGISTER_ALLOCATION_RANGE_EMBEDDINGS_H

#include "mir_embeddings.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/CodeGen/MachineFunction.h"

#include <vector>

namespace mlbridge::register_allocation {

/// The vectors of one function's live ranges. It is the function's only delegate while it lives.
class RangeEmbeddings final : llvm::MachineFunction::Delegate {
public:
  RangeEmbeddings(llvm::MachineFunction &MF, const embeddings::MachineVocabulary &Words);
  ~RangeEmbeddings() override;
  RangeEmbeddings(const RangeEmbeddings &) = delete;
  RangeEmbeddings &operator=(const RangeEmbeddings &) = delete;

  size_t dimension() const { return Embedder.dimension(); }
  /// Computed when its instructions have changed since the last call. Valid until the next call.
  llvm::ArrayRef<float> of(llvm::Register Range);

private:
  void MF_HandleInsertion(llvm::MachineInstr &MI) override { changed(MI); }
  void MF_HandleRemoval(llvm::MachineInstr &MI) override { changed(MI); }
  void MF_HandleChangeDesc(llvm::MachineInstr &MI, const llvm::MCInstrDesc &) override {
    changed(MI);
  }
  void changed(const llvm::MachineInstr &MI);

  llvm::MachineFunction &MF;
  const embeddings::MachineEmbedder Embedder;
  struct Row {
    std::vector<float> Vector;
    bool IsCurrent = false;
  };
  llvm::DenseMap<llvm::Register, Row> Rows;
};

} // namespace mlbridge::register_allocation

#endif
