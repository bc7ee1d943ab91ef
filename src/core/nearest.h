// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// "Did you mean": the known word that is nearest to a misspelt one.
#ifndef MLBRIDGE_CORE_NEAREST_H
#define MLBRIDGE_CORE_NEAREST_H

#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <string>
#include <string_view>

namespace mlbridge {

/// The word with the least edit distance, if that is small for its length; else empty. Looks at
/// some thousand words at most.
std::string_view nearest(std::string_view word, Span<const std::string_view> known);
/// "; did you mean 'x'?" or nothing.
std::string didYouMean(std::string_view word, Span<const std::string_view> known);
/// The same and all that is known: "; did you mean 'a'? (agents: a, b)".
std::string suggestion(std::string_view word, Span<const std::string_view> known,
                       std::string_view what);

/// The error of a part of the library that the program doesn't link, such as the scheme 'native'.
/// `target`: what has it, MLBridge::TARGET in CMake.
Status notLinked(std::string_view kind, std::string_view name, std::string_view target);

} // namespace mlbridge

#endif
