# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The evaluation of "The Next 700 ML-Enabled Compiler Optimizations" (CC 2024), done again."""
