# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs or compiles every example of the README, the contributor's guide and docs/; those that take
long, for `make nightly`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blocks import TESTED, blocks
from page import ROOT, Page
from sampling import NIGHTLY

# From an empty folder to a result: every block is run, in one terminal.
PATHS = [ROOT / "docs/first-plugin.md", *sorted((ROOT / "docs/paths").glob("*.md"))]
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
PAGES += PATHS[1:]
PAGES += [
    ROOT / f"{at}/README.md"
    for at in (
        *("compat", "examples/sqlite", "examples/tiling", "compilers/gcc/settings"),
        "compilers/llvm/multiversioning",
    )
]


@pytest.fixture
def page_run(tmp_path: Path, prefix: Path) -> Iterator[Page]:
    page = Page(tmp_path, prefix)
    yield page
    page.kill()


def whole(path: Path) -> Any:
    """A page with what takes long. pytest's limit is the quarter of an hour of a path."""
    needs_ray = path == ROOT / "docs/cluster.md" or (path.stem == "training" and path in PATHS)
    trains = [pytest.mark.training] if needs_ray else []
    return pytest.param(path, True, id=f"{path.name}, whole", marks=[NIGHTLY, *trains])


LONG = [p for p in PAGES if any(b.options.get("test") == "nightly" for b in blocks(p))]


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        *(pytest.param(p, False, id=p.name) for p in PAGES),
        *map(whole, LONG),
    ],
)
def test_the_examples_of(path: Path, whole: bool, page_run: Page) -> None:
    for block in blocks(path):
        if block.language in TESTED or "file" in block.options:
            page_run.run(block, whole)
    page_run.close()


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.name)
def test_nothing_of_a_path_is_only_shown(path: Path) -> None:
    for block in blocks(path):
        assert block.language in TESTED or "file" in block.options, block
        assert block.options.get("test", "nightly") in ("nightly", "server"), block


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_the_prefix_is_set_or_explained(path: Path) -> None:
    text = path.read_text()
    assert "$PREFIX" not in text or "export PREFIX=" in text or "README.md#install" in text


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_the_links_of(path: Path) -> None:
    def prose(page: Path) -> str:
        return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)

    for file, anchor in re.findall(r"\]\((?!\w+:)([^)#]*)#?([^)]*)\)", prose(path)):
        target = path.parent / file if file else path
        assert target.exists(), f"{path.name}: no file {file}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(prose(target)), f"{path.name}: no heading {file}#{anchor}"
