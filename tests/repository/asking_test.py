# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many statements ask, as docs/reinforcement-learning.md says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reinforcement-learning.md"
SETTINGS = r"(?:OpenOptions|EpisodeOptions) \w+;|(?:Opening|Episode)\.\w+ = "
ASKING = (
    r"Agents::open\(|Model::open\(|Policy\.bind\(|\brun\(Environment|Policy\.newRunner\(|"
    r"Asked\.evaluate\("
)


def test_the_statements_are_counted() -> None:
    rows = re.findall(r"\| \[[^]]+\]\((\.\./compilers\S+)\) \| (\d+) \| (\d+) \|", PAGE.read_text())
    assert len(rows) == 4
    for file, whole, least in rows:
        text = (PAGE.parent / file).resolve().read_text()
        asking, settings = (len(re.findall(pattern, text)) for pattern in (ASKING, SETTINGS))
        assert (asking, asking + settings) == (int(least), int(whole)), file
