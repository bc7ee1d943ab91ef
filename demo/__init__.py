# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `make demo` runs: real programs built with and without the model."""
