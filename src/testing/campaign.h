// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of a long campaign that every run of the tests does.
#ifndef MLBRIDGE_TESTING_CAMPAIGN_H
#define MLBRIDGE_TESTING_CAMPAIGN_H

#include <cstddef>
#include <cstdlib>

namespace mlbridge::testing {

/// All of it for `make nightly`, which sets the variable; else a sample.
inline size_t campaign(size_t all, size_t sample) {
  return ::secure_getenv("MLBRIDGE_LONG_TESTS") ? all : sample;
}

} // namespace mlbridge::testing

#endif
