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

double bytesOf(Value Operand) {
  const auto Type = dyn_cast<ShapedType>(Operand.getType());
  const double Bits = getElementTypeOrSelf(Operand).getIntOrFloatBitWidth();
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

void describe(linalg::LinalgOp Op, const Machine &Target, Runner &Policy) {
  const Span<float> Rows = Policy.input<float>("loops");
  std::fill(Rows.begin(), Rows.end(), 0.0F);
  const llvm::SmallVector<int64_t> Registers = registersFor(Op, Target.vectorBits);
  const int Along = alongVectors(Op);
  float *Row = Rows.data();
  double Iterations = 1;
  bool Window = false;
  for (const auto [Number, One] : llvm::enumerate(loopsOf(Op))) {
    const double Columns[LoopColumns] = {static_cast<double>(One.trips),
                                         static_cast<double>(One.parallel),
                                         static_cast<double>(static_cast<int>(Number) == Along),
                                         static_cast<double>(One.operands),
                                         static_cast<double>(One.inOutput),
                                         static_cast<double>(One.beside),
                                         static_cast<double>(One.window),
                                         static_cast<double>(Registers[Number])};
    Row = std::copy_n(Columns, LoopColumns, Row);
    Iterations *= static_cast<double>(One.trips);
    Window |= One.window;
  }
  double Inputs = 0, Outputs = 0;
  for (OpOperand &Operand : Op->getOpOperands())
    (Op.isDpsInit(&Operand) ? Outputs : Inputs) += bytesOf(Operand.get());
  const Type Element = getElementTypeOrSelf(Op.getDpsInits().front());
  const int64_t Lanes = Target.vectorBits / elementBits(Op);
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
      static_cast<double>(Target.cache1),
      static_cast<double>(Target.cache2),
      static_cast<double>(Target.cache3),
      static_cast<double>(Target.vectorBits),
      static_cast<double>(Lanes)};
  std::copy_n(Columns, OperationColumns, Policy.input<float>("operation").data());
}

Expected<Choice> chosen(linalg::LinalgOp Op, Runner &Policy) {
  const Span<const int64_t> Sizes = Policy.output<int64_t>("sizes");
  const int64_t Vectorize = Policy.output<int64_t>("vectorize")[0];
  Choice Answer;
  for (const auto [Loop, Trips] : llvm::enumerate(Op.getStaticLoopRanges())) {
    if (Sizes[Loop] < 1)
      return Status(Code::InvalidArgument, "sizes: " + std::to_string(Sizes[Loop]) + " for loop " +
                                               std::to_string(Loop) + "; expected at least 1");
    Answer.sizes.push_back(std::min(Sizes[Loop], Trips));
  }
  if (Vectorize != 0 && Vectorize != 1)
    return Status(Code::InvalidArgument,
                  "vectorize: " + std::to_string(Vectorize) + "; expected 0 or 1");
  Answer.vectorize = Vectorize == 1;
  return Answer;
}

} // namespace mlbridge::tiling
