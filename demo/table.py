# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables that grow: a line is printed as soon as it is known, to a terminal as to a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from tqdm import tqdm

Say = Callable[[str], None]


def say(text: str = "") -> None:
    """Print at once, above a progress bar if there is one."""
    tqdm.write(text, file=sys.stdout)
    sys.stdout.flush()


class Table:
    """The first column is at the left, the others are at the right of theirs."""

    def __init__(self, columns: Sequence[tuple[str, int]], say: Say = say) -> None:
        """Headings, and how wide what is below them may become."""
        self._widths = [max(width, len(heading)) for heading, width in columns]
        self._say = say
        self.row([heading for heading, _ in columns])
        self.rule()

    def row(self, cells: Iterable[object]) -> None:
        texts = [
            f"{cell:{'>' if place else '<'}{width}}"
            for place, (cell, width) in enumerate(zip(map(str, cells), self._widths, strict=True))
        ]
        self._say(" ".join(texts).rstrip())

    def rule(self) -> None:
        self._say(" ".join("-" * width for width in self._widths))
