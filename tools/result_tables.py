# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables in Markdown, and what each measurement writes beside its report for docs/results.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Rows = Sequence[Mapping[str, Any]]


def cell(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "**no**"}[value]
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def table(rows: Rows) -> str:
    """A table whose heads are the keys of the first row, with blanks for underscores."""
    heads = [key.replace("_", " ") for key in rows[0]]
    lines = [heads, *([cell(row.get(key)) for key in rows[0]] for row in rows)]
    first, *rest = (max(4, *map(len, column)) for column in zip(*lines, strict=True))
    rule = ["-" * first, *("-" * (width - 1) + ":" for width in rest)]
    padded = [
        [line[0].ljust(first), *(text.rjust(w) for text, w in zip(line[1:], rest, strict=True))]
        for line in (lines[0], rule, *lines[1:])
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def section(report: Path, title: str, text: str, *parts: str | Rows) -> str:
    """Writes a section of the page beside the report; returns its parts, paragraphs and tables."""
    where = report.relative_to(ROOT) if report.is_relative_to(ROOT) else report
    measured = f"Measured {datetime.now(timezone.utc):%Y-%m-%d}; `{where}`. {text}"
    body = [part if isinstance(part, str) else table(part) for part in parts if part]
    report.with_suffix(".md").write_text("\n\n".join([f"## {title}", measured, *body]) + "\n")
    return "\n\n".join(body)
