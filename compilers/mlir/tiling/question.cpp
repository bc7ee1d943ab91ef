// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "question.h"

#include "loops.h"
#include "registers.h"

using namespace mlir;

namespace mlbridge::tiling {

Signature signature() {
  return {{TensorSpec::of<float>("loops", {MaxLoops, LoopColumns}),
           TensorSpec::of<float>("operation", {OperationColumns})},
          {TensorSpec::of<int64_t>("sizes", {MaxLoops}), TensorSpec::of<int64_t>("vectorize")}};
}

namespace {

double bytesOf(Value Of) {
  const auto Type = dyn_cast<ShapedType>(Of.getType());
  const double Bits = getElementTypeOrSelf(Of).getIntOrFloatBitWidth();
  return (Type ? static_cast<double>(Type.getNumElements()) : 1) * Bits / 8;
}

bool isMultiplyAdd(linalg::LinalgOp Op) {
  bool Multiplies = false, Adds = false;
  for (Operation &Next : *Op.getBlock()) {
    const StringRef Name = Next.getName().getStringRef();
    Multiplies |= Name == "arith.mulf" || Name == "arith.muli";
    Adds |= Name == "arith.addf" || Name == "arith.addi";
  }
  return Multiplies && Adds;
}

} // namespace

void describe(linalg::LinalgOp Op, const Machine &For, Runner &Asked) {
  const Span<float> Rows = Asked.input<float>("loops");
  std::fill(Rows.begin(), Rows.end(), 0.0F);
  const llvm::SmallVector<int64_t> Registers = registersFor(Op, For.vectorBits);
  const int Along = alongVectors(Op);
  float *Row = Rows.data();
  double Iterations = 1;
  bool Window = false;
  for (const auto [At, Its] : llvm::enumerate(loopsOf(Op))) {
    const double Columns[LoopColumns] = {static_cast<double>(Its.trips),
                                         static_cast<double>(Its.parallel),
                                         static_cast<double>(static_cast<int>(At) == Along),
                                         static_cast<double>(Its.operands),
                                         static_cast<double>(Its.inOutput),
                                         static_cast<double>(Its.beside),
                                         static_cast<double>(Its.window),
                                         static_cast<double>(Registers[At])};
    Row = std::copy_n(Columns, LoopColumns, Row);
    Iterations *= static_cast<double>(Its.trips);
    Window |= Its.window;
  }
  double Inputs = 0, Outputs = 0;
  for (OpOperand &Operand : Op->getOpOperands())
    (Op.isDpsInit(&Operand) ? Outputs : Inputs) += bytesOf(Operand.get());
  const Type Element = getElementTypeOrSelf(Op.getDpsInits().front());
  const int64_t Lanes = For.vectorBits / elementBits(Op);
  const double Columns[OperationColumns] = {
      static_cast<double>(Op.getNumLoops()),
      Iterations,
      static_cast<double>(elementBits(Op)),
      static_cast<double>(isa<FloatType>(Element)),
      static_cast<double>(isMultiplyAdd(Op)),
      static_cast<double>(Window),
      static_cast<double>(Op.getNumDpsInputs()),
      Inputs,
      Outputs,
      static_cast<double>(Op.getBlock()->getOperations().size() - 1), // the last one yields
      static_cast<double>(Op.hasPureTensorSemantics()),
      static_cast<double>(For.cache1),
      static_cast<double>(For.cache2),
      static_cast<double>(For.cache3),
      static_cast<double>(For.vectorBits),
      static_cast<double>(Lanes)};
  std::copy_n(Columns, OperationColumns, Asked.input<float>("operation").data());
}

Expected<Choice> chosen(linalg::LinalgOp Op, Runner &Asked) {
  const Span<const int64_t> Sizes = Asked.output<int64_t>("sizes");
  const int64_t Vectorize = Asked.output<int64_t>("vectorize")[0];
  Choice Its;
  for (const auto [Loop, Trips] : llvm::enumerate(Op.getStaticLoopRanges())) {
    if (Sizes[Loop] < 1)
      return Status(Code::InvalidArgument, "sizes: " + std::to_string(Sizes[Loop]) + " for loop " +
                                               std::to_string(Loop) + "; expected at least 1");
    Its.sizes.push_back(std::min(Sizes[Loop], Trips));
  }
  if (Vectorize != 0 && Vectorize != 1)
    return Status(Code::InvalidArgument,
                  "vectorize: " + std::to_string(Vectorize) + "; expected 0 or 1");
  Its.vectorize = Vectorize == 1;
  return Its;
}

} // namespace mlbridge::tiling
