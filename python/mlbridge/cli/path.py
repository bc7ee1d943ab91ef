# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge path`: where a compiler plugin is."""

from __future__ import annotations

import argparse

from .common import DONE
from .flags import path_of


def run(options: argparse.Namespace) -> int:
    """Print it."""
    print(path_of(options.optimization))
    return DONE
