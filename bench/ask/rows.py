# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows that every client reports."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def row(
    client: str,
    model: str,
    runner: str,
    us: float,
    floor: str,
    floor_us: float,
    *,
    most: float | None = None,
) -> Row:
    """Microseconds of a question and of its floor; the ratio may have a limit."""
    ratio = round(us / floor_us, 3)
    return {
        "client": client,
        "model": model,
        "runner": runner,
        "µs": round(us, 4),
        "floor": floor,
        "floor µs": round(floor_us, 4),
        "ratio": ratio,
        "limit": most and f"≤ {most}",
        "holds": most and ratio <= most,
    }
