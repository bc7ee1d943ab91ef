// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "link_command.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/StringSaver.h"

#include <cstring>

using namespace llvm;

namespace mlbridge::phase_ordering {

std::string whyNoCode(const Pipeline &Begins) {
  const ErrorOr<std::unique_ptr<MemoryBuffer>> Line =
      MemoryBuffer::getFileAsStream("/proc/self/cmdline");
  if (!Line || !Begins.isLink())
    return "";
  BumpPtrAllocator Allocator;
  StringSaver Saver(Allocator);
  SmallVector<const char *> Words;
  const std::string Text = (*Line)->getBuffer().str();
  for (size_t At = 0; At < Text.size(); At += strlen(Words.back()) + 1)
    Words.push_back(&Text[At]);
  cl::ExpandResponseFiles(Saver, cl::TokenizeGNUCommandLine, Words);
  unsigned Partitions = 1;
  for (StringRef Word : Words) {
    if (!Word.consume_front("--") && !Word.consume_front("-"))
      continue;
    if (Word == "lto-emit-llvm" || Word == "plugin-opt=emit-llvm")
      return "with --lto-emit-llvm no code is generated";
    Word.consume_front("plugin-opt=");
    if (Word.starts_with("dwo_dir="))
      return "with -gsplit-dwarf debug information is written to files of its own";
    if (Word.consume_front("lto-partitions="))
      to_integer(Word, Partitions);
  }
  if (Partitions > 1 && Begins.Phase == ThinOrFullLTOPhase::FullLTOPostLink)
    return "with --lto-partitions=" + std::to_string(Partitions) +
           " code is generated for pieces of the module";
  return "";
}

} // namespace mlbridge::phase_ordering
