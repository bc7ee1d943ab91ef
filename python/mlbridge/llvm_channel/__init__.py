# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM's interactive channels, at which unmodified compilers ask: the host, its FIFOs, and the
training logs that LLVM writes in the same format."""
