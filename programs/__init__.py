# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Real C programs to learn from and to measure on: list, download, build, sizes."""
