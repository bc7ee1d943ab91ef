# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bars on a terminal, where tqdm is installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def shown(
    items: Iterable[Item], total: int, unit: str, progress: bool, what: str = ""
) -> Iterable[Item]:
    """The items, with a bar if `progress`."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    hidden = None if progress else True  # None: unless it is a terminal
    bar: Iterable[Item] = tqdm(items, what, total, unit=unit, disable=hidden, leave=False)
    return bar
