// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_TESTING_FEW_DESCRIPTORS_H
#define MLBRIDGE_TESTING_FEW_DESCRIPTORS_H

#include "core/descriptor.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <vector>

namespace mlbridge::testing {

/// No more than so many descriptors can be had.
class FewDescriptors {
public:
  explicit FewDescriptors(int left) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    std::vector<Descriptor> free; // there may be gaps
    for (int i = 0; i < left; ++i)
      free.emplace_back(::dup(0));
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(free.back().get()) + 1;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewDescriptors(const FewDescriptors &) = delete;

private:
  rlimit before_{};
};

} // namespace mlbridge::testing

#endif
