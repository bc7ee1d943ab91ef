// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PipeModelRunner of the 2024 release: a model in another process, behind two named pipes.
#ifndef MLBRIDGE_COMPAT_PIPEMODELRUNNER_H
#define MLBRIDGE_COMPAT_PIPEMODELRUNNER_H

#include "MLModelRunner/MLModelRunner.h"

#include <memory>
#include <string>

namespace MLBridge {

/// A file name, from what published code passes: const char *, std::string, llvm::StringRef, an
/// llvm::cl::opt<std::string>.
class FileName {
public:
  FileName(const char *text) : text_(text ? text : "") {}
  template <typename T, typename = decltype(std::declval<const T &>().data()),
            typename = decltype(std::declval<const T &>().size())>
  FileName(const T &text) : text_(text.data(), text.size()) {}
  const std::string &str() const { return text_; }

private:
  std::string text_;
};

/// Both ends may be plain files as well: a recorded conversation.
class PipeModelRunner : public MLModelRunner {
public:
  /// Opens Inbound for reading, as soon as it is there, then waits until somebody reads Outbound;
  /// the model's side opens them in that order, too. Blocks until the deadline at most.
  PipeModelRunner(const FileName &OutboundName, const FileName &InboundName, SerDesKind SerDesType,
                  llvm::LLVMContext *Ctx = nullptr);
  ~PipeModelRunner() override;

  static bool classof(const MLModelRunner *R) { return R->getKind() == Kind::Pipe; }
  void requestExit() override {}

private:
  void *evaluateUntyped() override;

  class Channel;
  std::unique_ptr<Channel> Ends;
  std::string Reply;
};

} // namespace MLBridge

#endif
