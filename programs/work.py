# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Large files that the programs' `work` reads: the same ones on every machine."""

from __future__ import annotations

import json
import random
from html import escape
from pathlib import Path

LINES = 60_000


def text() -> list[str]:
    """Lines of words of which some are frequent, as in a language."""
    rng = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(4000)]
    weights = [1 / (1 + rank) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=rng.randint(4, 14))) for _ in range(LINES)]


def write(folder: Path) -> None:
    """big.txt, big.md, big.xml and big.json, unless they are there."""
    if (folder / "big.json").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    lines = text()
    (folder / "big.txt").write_text("\n".join(lines) + "\n")
    marks = ("# ", "- ", "> ", "1. ", "    ", "", "", "*", "`")
    paragraphs = (f"{marks[n % len(marks)]}{line} [a](b)" for n, line in enumerate(lines))
    (folder / "big.md").write_text("\n\n".join(paragraphs) + "\n")
    elements = (f'<line number="{n}">{escape(line)}</line>' for n, line in enumerate(lines))
    (folder / "big.xml").write_text("<lines>\n" + "\n".join(elements) + "\n</lines>\n")
    (folder / "big.json").write_text(json.dumps({str(n): line for n, line in enumerate(lines)}))
