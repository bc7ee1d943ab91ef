# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rewards measured on what a compiler made, each with its unit and against a baseline.

`Size` and `Throughput` measure a module against -Oz of the same module, `run_time` a command
against another. A `Cache` keeps what was measured (docs/validation.md).
"""

from __future__ import annotations

from .cache import Cache
from .measures import Reward, Size, Throughput, Timed, run_time

__all__ = ["Cache", "Reward", "Size", "Throughput", "Timed", "run_time"]
