// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists of a compiler's levels of optimization, as a plugin's option states them: "O2,Os". GCC's
// plugin includes this file, so it needs nothing but the standard library.
#ifndef MLBRIDGE_COMPILERS_SHARED_LEVELS_H
#define MLBRIDGE_COMPILERS_SHARED_LEVELS_H

#include <algorithm>
#include <string>

namespace mlbridge::plugin {

inline bool hasLevel(const std::string &List, const std::string &Level) {
  return ("," + List + ",").find("," + Level + ",") != std::string::npos;
}

/// True if each level of the list is one of `Known`; a list has at least one.
inline bool areLevels(const std::string &List, const std::string &Known) {
  for (size_t Begin = 0, End = 0; End < List.size(); Begin = End + 1) {
    End = std::min(List.find(',', Begin), List.size());
    if (Begin == End || !hasLevel(Known, List.substr(Begin, End - Begin)))
      return false;
  }
  return !List.empty();
}

} // namespace mlbridge::plugin

#endif
