# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training policies for compilers (docs/training.md); `mlbridge train` is its command.

Needs `pip install '.[train]'` in the source tree: PyTorch, and RLlib or Stable-Baselines3.
"""
