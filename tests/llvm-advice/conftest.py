# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What all tests of LLVM's advisors are given."""

from advising import place as place
