# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cost of an iteration of a module's innermost loops, vectorized or not."""

from __future__ import annotations

import json
import re
import tempfile
from functools import partial
from pathlib import Path

from ..process_runner import run_tool

_FUNCTION = re.compile(r"^define .*?@\"?([^\"(]+)\"?\(")
_BLOCK = re.compile(r"^\"?([^\s\":]+)\"?:")
_STEP = re.compile(r"^  %index\.next\d* = add (?:nuw )?(?:nsw )?i\d+ %index\d*, (\d+)$")
_LOOP = re.compile(r"^  br .*!llvm\.loop (!\d+)")
_MADE = re.compile(r"# -- Begin function (\S+)")
_LABEL = re.compile(r"^(?:\.LBB\d+_\d+:|# %bb\.\d+:)\s*(?:# %(\S+))?")
_INNER = re.compile(r"# => *This Inner Loop Header")
_ITERATIONS = 100
_LIMIT = 60.0  # seconds of a tool


def iteration_cycles(module: Path) -> float:
    """Cycles that llvm-mca predicts for one iteration of each innermost loop of one block, in all.

    `module`: text, for x86-64, as LLVM's vectorizer left it, with names for all blocks (instnamer),
    which those that were there before loop distribution had then.
    The cycles of a vectorized loop's block are divided by the elements that it does at once; the
    loops that do what is left of its iterations, and those for when a comparison of addresses
    fails, count nothing. No cache misses, and all loops count alike: it compares versions of the
    same loops. InvalidArgument if a tool fails.
    """
    elements = _elements(module.read_text())
    with tempfile.TemporaryDirectory(prefix="mlbridge-") as folder:
        tool = partial(run_tool, cwd=folder, timeout=_LIMIT, what=str(module))
        tool(["llc-22", "-O3", str(module.absolute()), "-o", "out.s"])
        marked, at_once = _regions(Path(folder, "out.s").read_text(), elements)
        if not at_once:
            return 0.0
        Path(folder, "marked.s").write_text(marked)
        mca = ("llvm-mca-22", "-mtriple=x86_64", "-mcpu=generic", f"-iterations={_ITERATIONS}")
        tool([*mca, "-json", "marked.s", "-o", "report"])
        regions = json.loads(Path(folder, "report").read_bytes())["CodeRegions"]
    cycles = [float(region["SummaryView"]["TotalCycles"]) for region in regions]
    return sum(total / _ITERATIONS / count for total, count in zip(cycles, at_once, strict=True))


def _elements(text: str) -> dict[tuple[str, str], int]:
    """The number of iterations that a block's loop does at once, 0 if it counts nothing."""
    nodes = dict(re.findall(r"^(!\d+) = distinct (!\{.*\})$", text, re.MULTILINE))
    marks = re.findall(r'^(!\d+) = !\{!"llvm\.loop\.isvectorized"', text, re.MULTILINE)
    elements: dict[tuple[str, str], int] = {}
    function = block = ""
    step = 1
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            function, block, step = match[1], "", 1
        elif match := _BLOCK.match(line):
            block, step = match[1], 1
        elif match := _STEP.match(line):
            step = int(match[1])
        elif match := _LOOP.match(line):
            parts = re.findall(r"!\d+", nodes.get(match[1], ""))
            is_main = block.startswith("vector.body")
            is_rest = not is_main and any(mark in parts for mark in marks)
            elements[function, block] = 0 if is_rest or "lver.orig" in block else step
    return elements


def _regions(assembly: str, elements: dict[tuple[str, str], int]) -> tuple[str, list[int]]:
    """The assembly with those loops marked for llvm-mca, and the iterations each does at once."""
    lines: list[str] = []
    at_once: list[int] = []
    function = block = ""
    is_open = False
    for line in assembly.splitlines():
        if match := _MADE.search(line):
            function = match[1]
        match = _LABEL.match(line)
        if is_open and (match or line.startswith(".Lfunc_end")):
            lines.append(f"# LLVM-MCA-END {len(at_once)}")
            is_open = False
        if match:
            block = match[1] or ""
        lines.append(line)
        count = elements.get((function, block), 0)
        if _INNER.search(line) and count and not is_open:
            at_once.append(count)
            lines.append(f"# LLVM-MCA-BEGIN {len(at_once)}")
            is_open = True
    return "\n".join(lines) + "\n", at_once
