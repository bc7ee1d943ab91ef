# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports in build/ to which several processes add rows."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def update(report: Path, change: Callable[[Any], Any], tell: Callable[[Any], object] = str) -> None:
    """Replaces a JSON file by what `change` makes of its value, None if there is none, and hands
    that to `tell`; other processes wait."""
    report.parent.mkdir(parents=True, exist_ok=True)
    with open(report, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        value = change(json.loads(text) if text else None)
        file.seek(0)
        file.truncate()
        file.write(json.dumps(value, indent=1) + "\n")
        tell(value)


def add_row(
    report: Path, row: dict[str, Any], *key: str, tell: Callable[[Any], object] = str
) -> None:
    """Adds a row to a list, instead of an earlier one with the same values under these keys; hands
    all rows to `tell`."""

    def change(rows: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        others = [r for r in rows or [] if any(r[name] != row[name] for name in key)]
        return sorted([*others, row], key=lambda r: [str(r[name]) for name in key])

    update(report, change, tell)
