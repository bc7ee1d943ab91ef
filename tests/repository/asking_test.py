# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many statements ask, as docs/reinforcement-learning.md says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reinforcement-learning.md"
POLLY = ROOT / "compilers" / "llvm" / "polly-tiling" / "plugin.cpp"
SETTINGS = r"(?:OpenOptions|EpisodeOptions) \w+;|(?:Opening|Episode)\.[\w.]+ = "
ASKING = (
    r"Agents::open\(|Model::open\(|Policy\.bind\(|\brun\(\w+, |Policy\.newRunner\(|"
    r"Evaluation\.evaluate\("
)


def test_the_calls_in_c_are_counted() -> None:
    """All but those that read what has gone wrong."""
    text = PAGE.read_text().partition("| in C |")[2]
    rows = re.findall(r"\| \[[^]]+\]\((\S+)\).* \| (\d+) \|", text)
    assert len(rows) == 3
    for file, count in rows:
        calls = re.findall(r"\bmlbridge_(\w+)\(", (PAGE.parent / file).resolve().read_text())
        asking = [name for name in calls if not re.search("code|message", name)]
        assert len(asking) == int(count) <= 10, file
    assert len(re.findall(r"mlbridge_open_options \w+ = ", POLLY.read_text())) == 1


def test_the_statements_are_counted() -> None:
    rows = re.findall(r"\| \[[^]]+\]\((\.\./compilers\S+)\) \| (\d+) \| (\d+) \|", PAGE.read_text())
    assert len(rows) == 4
    for file, whole, least in rows:
        text = (PAGE.parent / file).resolve().read_text()
        asking, settings = (len(re.findall(pattern, text)) for pattern in (ASKING, SETTINGS))
        assert (asking, asking + settings) == (int(least), int(whole)), file
