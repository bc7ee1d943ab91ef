// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "settings.h"

#include "shared/levels.h"

#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace mlbridge::plugin {

namespace {

/// A plugin's warning or error. LLVM 19 has no general one.
class PluginDiagnostic final : public DiagnosticInfo {
public:
  PluginDiagnostic(DiagnosticSeverity Severity, const Twine &Text)
      : DiagnosticInfo(kind(), Severity), Text(Text.str()) {}
  void print(DiagnosticPrinter &To) const override { To << Text; }

private:
  static int kind() {
    static const int Kind = getNextAvailablePluginDiagnosticKind();
    return Kind;
  }
  const std::string Text;
};

} // namespace

Status Settings::validate() const {
  const Status Given = checkModel();
  return Given ? checkValues() : Given;
}

Status Settings::checkValues() const {
  if (Status Base = check(); !Base)
    return Base;
  if (Missing != "refuse" && Missing != "zero")
    return invalid("missing", "refuse or zero", Missing);
  if (!areLevels(Levels, "O1,O2,O3,Os,Oz"))
    return invalid("levels", "O1, O2, O3, Os, Oz, or several with commas between", Levels);
  return Status();
}

bool Settings::wants(StringRef Level) const { return hasLevel(Levels, Level.str()); }

bool Settings::wants(const llvm::Function &F, CodeGenOptLevel Level) const {
  static constexpr const char *Names[] = {"O0", "O1", "O2", "O3"};
  return !F.hasOptNone() && wants(levelOf(F, Names[static_cast<int>(Level)]));
}

void Settings::report(LLVMContext &Context, DiagnosticSeverity Severity,
                      const Twine &Message) const {
  Context.diagnose(PluginDiagnostic(Severity, Prefix + ": " + Message));
}

void Settings::giveUp(LLVMContext &Context, const Twine &Why, StringRef Consequence) const {
  if (mustNotFail())
    report(Context, DS_Error, Why);
  else
    report(Context, DS_Warning, Why + "; " + Consequence);
}

void Settings::refuse(LLVMContext &Context, const Status &Failure) const {
  report(Context, DS_Error, Failure.message());
}

StringRef levelOf(const llvm::Function &F, StringRef Pipeline) {
  return F.hasMinSize() ? "Oz" : F.hasOptSize() ? "Os" : Pipeline;
}

std::string placeOf(const llvm::Function &F) {
  return (F.getParent()->getSourceFileName() + ":" + F.getName()).str();
}

} // namespace mlbridge::plugin
