# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Table 4 of the paper: lines of a pass that use a model, counted in sources that tests compile and
run.

    python3 -m experiments.paper.lines [-o FILE]

They stand between marks, [NAME] and [/NAME]; lines that are blank or only comment don't count.
"""

from __future__ import annotations

import re
import sys

from experiments.paper.command import keep, parser_of
from programs.catalog import ROOT

#: The source of a pass and the mark of its lines.
PASSES = {
    "phase ordering (POSET-RL's)": ("compilers/llvm/phase-ordering/ask.cpp", "three-lines"),
    "inlining in miniature, C++": ("examples/inlining/inlining.cpp", "pass"),
    "inlining in miniature, C": ("examples/inlining/inlining.c", "pass"),
}


def counted(text: str, mark: str) -> int:
    """Lines between all marks of this name. ValueError if there is none."""
    parts = re.findall(rf"\[{mark}\][^\n]*\n(.*?)\n[^\n]*\[/{mark}\]", text, re.DOTALL)
    if not parts:
        raise ValueError(f"no lines are marked [{mark}]")
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return sum(bool(line) and not line.startswith(("//", "/*", "*")) for line in lines)


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = parser_of(__doc__)
    options = parser.parse_args(arguments)
    found = {
        name: counted((ROOT / source).read_text(), mark) for name, (source, mark) in PASSES.items()
    }
    for name, lines in found.items():
        print(f"{name}: {lines}")
    keep(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
