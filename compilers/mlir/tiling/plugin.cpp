// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For stock mlir-opt-22: a model decides how each product, convolution and reduction of linalg is
// tiled, and whether it is vectorized.
//   mlir-opt-22 --load-pass-plugin=mlbridge-mlir-tiling.so
//     --pass-pipeline='builtin.module(mlbridge-tiling{model=URI})'
#include "legality.h"
#include "question.h"
#include "shared/options.h"

#include <mlbridge/model.h>

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

#include "llvm-c/Core.h"
#include "llvm/Config/llvm-config.h"

#include <utility>

using namespace mlir;

namespace mlbridge::tiling {

namespace {

constexpr const char *PassName = "mlbridge-tiling";

class Tiling final : public PassWrapper<Tiling, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Tiling)

  Tiling() = default;
  Tiling(const Tiling &Other) : PassWrapper(Other) {}
  StringRef getArgument() const override { return PassName; }
  StringRef getDescription() const override {
    return "Tiles and vectorizes linalg's products, convolutions and reductions as a model decides";
  }
  void getDependentDialects(DialectRegistry &Registry) const override {
    Registry.insert<affine::AffineDialect, arith::ArithDialect, func::FuncDialect,
                    memref::MemRefDialect, scf::SCFDialect, tensor::TensorDialect,
                    vector::VectorDialect>();
  }

  LogicalResult initialize(MLIRContext *Context) override {
    const Location Unknown = UnknownLoc::get(Context);
    if (const Status Valid = check(); !Valid)
      return emitError(Unknown) << PassName << ": " << Valid.message();
    return success();
  }

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> Reductions;
    getOperation().walk([&](linalg::LinalgOp Op) {
      if (Op.getNumReductionLoops())
        Reductions.push_back(Op);
    });
    const Memory Shared(getOperation());
    const bool Scheduled = !Reductions.empty() && hasSchedule(getOperation());
    for (linalg::LinalgOp Op : Reductions) {
      const std::string Why = Scheduled
                                  ? "the module has a schedule of its own, of the dialect transform"
                                  : refusal(Op, Shared);
      if (!Why.empty()) {
        left(Op, Why);
        continue;
      }
      const Expected<Choice> Answer = ask(Op);
      if (!Answer) {
        // This operation and those after it stay as they are.
        giveUp(Op, Answer.status());
        return;
      }
      apply(Op, *Answer);
    }
  }

private:
  plugin::ModelOptions options() const { return {"", Uri, Wait, OnFailure}; }

  Status check() {
    const plugin::ModelOptions Options = options();
    for (const Status &Valid : {Options.checkModel(), Options.check()})
      if (!Valid)
        return Valid;
    if (FloatSums != "reassociate" && FloatSums != "in-order")
      return Options.invalid("float-sums", "reassociate or in-order", FloatSums);
    for (const Option<int64_t> *Size : {&Cache1, &Cache2, &Cache3})
      if (*Size < 1)
        return Options.invalid(Size->getArgStr().str(), "a number above 0", std::to_string(*Size));
    if (VectorBits < 64 || VectorBits > 4096 || !llvm::isPowerOf2_64(VectorBits))
      return Options.invalid(VectorBits.getArgStr().str(), "a power of two from 64 to 4096",
                             std::to_string(VectorBits));
    return {};
  }

  /// Names the operation for the model's side, and for messages.
  static std::string place(linalg::LinalgOp Op) {
    std::string Text;
    llvm::raw_string_ostream To(Text);
    if (const auto Line = Op.getLoc()->findInstanceOf<FileLineColLoc>())
      To << Line.getFilename().getValue() << ":";
    if (auto Function = Op->getParentOfType<FunctionOpInterface>())
      To << Function.getName() << ":";
    To << Op->getName().getStringRef();
    return Text;
  }

  Expected<Choice> ask(linalg::LinalgOp Op) {
    const OpenOptions Opening = options().opening(place(Op));
    if (!Policy) {
      Policy = Model::open(Uri.getValue(), Opening);
      if (Status Bound = Policy.bind(signature()); !Bound)
        return Bound;
    }
    Runner Evaluation = Policy.newRunner(Opening.context);
    describe(Op, {Cache1, Cache2, Cache3, VectorBits}, Evaluation);
    if (Status Evaluated = Evaluation.evaluate(); !Evaluated)
      return Evaluated;
    return chosen(Op, Evaluation);
  }

  void giveUp(linalg::LinalgOp Op, const Status &Failure) {
    const bool Fails = options().mustNotFail();
    InFlightDiagnostic Report = Fails ? emitError(Op.getLoc()) : emitWarning(Op.getLoc());
    Report << PassName << ": " << place(Op) << ": " << Failure.toString();
    if (Fails)
      signalPassFailure();
    else
      Report << "; it and what follows stay as they are";
  }

  static remark::RemarkOpts remarkOf(linalg::LinalgOp Op, StringRef Name) {
    auto Function = Op->getParentOfType<FunctionOpInterface>();
    return remark::RemarkOpts::name(Name).category(PassName).function(Function ? Function.getName()
                                                                               : "");
  }

  static void left(linalg::LinalgOp Op, StringRef Why) {
    remark::missed(Op.getLoc(), remarkOf(Op, "Left"))
        << (Op->getName().getStringRef() + " is left as it is: " + Why).str();
  }

  void apply(linalg::LinalgOp Op, Choice Chosen) {
    if (!Chosen.vectorize && ArrayRef(Chosen.sizes) == ArrayRef(Op.getStaticLoopRanges()))
      return left(Op, "the model chose whole loops, and no vectors");
    std::string Ordered;
    if (!takesAnyOrder(Op, FloatSums == "reassociate")) {
      if (!keepsOrder(Op, Chosen.sizes))
        return left(Op, "in the tiles that the model chose, its sums would have another order");
      if (std::exchange(Chosen.vectorize, false))
        Ordered = "the order of its sums matters";
    }
    const std::string Name = Op->getName().getStringRef().str();
    std::string Text = Name + ": tiles of ";
    for (const auto [Loop, Size] : llvm::enumerate(Chosen.sizes))
      Text += (Loop ? "x" : "") + std::to_string(Size);
    const Location Where = Op.getLoc();
    const remark::RemarkOpts Decided = remarkOf(Op, "Decided");
    Outcome Tiled = tile(Op, Chosen, VectorBits);
    if (!Tiled.changed)
      return left(Op, Tiled.why.empty() ? Ordered : Tiled.why);
    if (!Ordered.empty())
      Tiled.why = Ordered;
    if (!Tiled.why.empty())
      Text += ", not vectorized: " + Tiled.why;
    else if (Chosen.vectorize)
      Text += ", vectorized";
    remark::passed(Where, Decided) << Text;
  }

  Model Policy;
  Option<std::string> Uri{*this, "model", llvm::cl::desc("The model that decides: a URI")};
  Option<std::string> Wait{
      *this, "deadline", llvm::cl::init("5s"),
      llvm::cl::desc("The longest wait for the model: 5s, 250ms, or a number of seconds")};
  Option<std::string> OnFailure{
      *this, "on-failure", llvm::cl::init("stock"),
      llvm::cl::desc("If the model fails: nothing is changed, and a warning (stock), or fail")};
  Option<std::string> FloatSums{
      *this, "float-sums", llvm::cl::init("reassociate"),
      llvm::cl::desc(
          "Whether floating-point numbers are summed in any order, by fused multiply-add "
          "as well (reassociate), or as if untiled, to the last bit (in-order)")};
  Option<int64_t> Cache1{*this, "l1-bytes", llvm::cl::init(32 << 10),
                         llvm::cl::desc("The first cache of data of what the code is for")};
  Option<int64_t> Cache2{*this, "l2-bytes", llvm::cl::init(1 << 20),
                         llvm::cl::desc("Its second cache")};
  Option<int64_t> Cache3{*this, "l3-bytes", llvm::cl::init(32 << 20),
                         llvm::cl::desc("Its third cache")};
  Option<int64_t> VectorBits{*this, "vector-bits", llvm::cl::init(256),
                             llvm::cl::desc("The width of its vector registers")};
};

} // namespace

} // namespace mlbridge::tiling

extern "C" [[gnu::visibility("default")]] mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  // MLIR compares the versions of this structure only, which hardly change, and not its own.
  unsigned Major = 0, Minor = 0;
  LLVMGetVersion(&Major, &Minor, nullptr);
  const bool Same = Major == LLVM_VERSION_MAJOR && Minor == LLVM_VERSION_MINOR;
  return {Same ? uint32_t(MLIR_PLUGIN_API_VERSION) : 0,
          Same ? "mlbridge-mlir-tiling" : "mlbridge-mlir-tiling for MLIR " LLVM_VERSION_STRING, "1",
          [] {
            (void)mlbridge::tiling::registerAgents(); // again: the names are taken, by these
            PassRegistration<mlbridge::tiling::Tiling>();
          }};
}
