// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "candidate_options.h"

#include "llvm/Support/CommandLine.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

cl::Option *findOption(StringRef Setting) {
  return cl::getRegisteredOptions().lookup(Setting.split('=').first);
}

bool OptionsInForce::set(ArrayRef<std::string> Settings) {
  for (const std::string &Setting : Settings) {
    cl::Option *Option = findOption(Setting);
    if (!Option || Option->getNumOccurrences())
      continue; // the user has set it
    Changed.push_back(Option);
    if (Option->addOccurrence(1, Option->ArgStr, StringRef(Setting).split('=').second))
      return false;
  }
  return true;
}

void OptionsInForce::reset() {
  for (cl::Option *Option : Changed)
    Option->reset();
  Changed.clear();
}

} // namespace mlbridge::phase_ordering
