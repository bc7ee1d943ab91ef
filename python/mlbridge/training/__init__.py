# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training policies for compilers (docs/trainers.md); `mlbridge train` is its command.

Needs `pip install '.[train]'` in the source tree: PyTorch, and RLlib or Stable-Baselines3.
"""
