// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PLUGIN_DIAGNOSTIC_H
#define MLBRIDGE_LLVM_PLUGIN_DIAGNOSTIC_H

#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"

#include <string>

namespace mlbridge::plugin {

/// A plugin's warning or error. LLVM 19 has no general one.
class PluginDiagnostic : public llvm::DiagnosticInfo {
public:
  PluginDiagnostic(llvm::DiagnosticSeverity Severity, const llvm::Twine &Text)
      : DiagnosticInfo(kind(), Severity), Text(Text.str()) {}
  void print(llvm::DiagnosticPrinter &To) const override { To << Text; }

private:
  static int kind() {
    static const int Kind = llvm::getNextAvailablePluginDiagnosticKind();
    return Kind;
  }
  const std::string Text;
};

} // namespace mlbridge::plugin

#endif
