// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that an object of a class that is in no header is laid out as it was in the LLVM for which
// the plugin was built. Nothing is believed before it has been looked at.
#ifndef MLBRIDGE_EVICTION_LAYOUT_H
#define MLBRIDGE_EVICTION_LAYOUT_H

#include <mlbridge/status.h>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/TensorSpec.h"
#include "llvm/Config/llvm-config.h"

#include <cstring>
#include <malloc.h>
#include <vector>

namespace mlbridge::eviction::layout {

/// The heap's block is at least as large.
template <typename T> bool hasRoom(const T &Object) {
  return malloc_usable_size(const_cast<T *>(&Object)) >= sizeof(T);
}

/// A word of a member that may be something else.
template <typename T> uintptr_t wordOf(const T &Member, size_t Index = 0) {
  uintptr_t Word;
  std::memcpy(&Word, reinterpret_cast<const char *>(&Member) + Index * sizeof(Word), sizeof(Word));
  return Word;
}

/// The object with the members that its class adds, of which Runner is one, or null if it is laid
/// out in another way. The first function makes LLVM's runner, unless there is one by then.
template <typename Layout, typename Base> Layout *viewOf(Base &Object) {
  auto &Whole = static_cast<Layout &>(Object);
  return hasRoom(Whole) && Object.getAdvisorMode() == Base::AdvisorMode::Release &&
                 !wordOf(Whole.Runner)
             ? &Whole
             : nullptr;
}

/// Checks first that it is a vector (of libstdc++: begin, end, end of storage).
inline bool areFeatures(const std::vector<llvm::TensorSpec> &Specs) {
  const uintptr_t Begin = wordOf(Specs), End = wordOf(Specs, 1), Room = wordOf(Specs, 2);
  return Begin && Begin < End && End <= Room && (End - Begin) % sizeof(llvm::TensorSpec) == 0 &&
         llvm::any_of(Specs, [](const llvm::TensorSpec &F) { return F.name() == "mask"; });
}

inline Status isOther() {
  return Status(Code::Unsupported, "the learned advisor of this LLVM is not laid out as that of "
                                   "LLVM " LLVM_VERSION_STRING ", for which this plugin was built");
}

} // namespace mlbridge::eviction::layout

#endif
