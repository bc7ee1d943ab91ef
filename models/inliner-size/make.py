# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of limits of this folder as a network, and the search for the table.

    models/inliner-size/make.py make                  policy.onnx from table.json
    models/inliner-size/make.py search [--minutes N]  coordinate search, from that table on
    models/inliner-size/make.py thresholds            constant -inline-threshold, to compare with

The last two compile modules of the training programs (`python3 -m programs.corpus training`) and
compare with -Oz what a program has after its equal functions were merged, as a linker does: the
geometric mean over programs. The same corpus, compiler and seed give the same numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from onnx_text import network as network_of

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parents[1] / "build" / "programs" / "corpus"
SHF_EXECINSTR, SHF_GROUP = 0x4, 0x200
#: LLVM's own limit at -Oz.
USUAL = 5
THRESHOLDS = (-20, 0, 2, 5, 8, 12, 20, 35, 60)
#: Seconds for one module.
LIMIT = 60
Table = list[list[int]]


GRAPH = """
"inliner-size" (int64[1] cost_estimate, int64[1] callee_users, int64[1] is_multiple_blocks,
                int64[1] inlining_default) => (int64[1] inlining_decision)
<int64[1] first = {0}> {
  reached = GreaterOrEqual (callee_users, users)
  ones = Cast <to = 7> (reached)
  column = ReduceSum <keepdims = 0> (ones, first)
  row = Mul (is_multiple_blocks, width)
  place = Add (row, column)
  limit = Gather (limits, place)
  below = Less (cost_estimate, limit)
  cheap = Less (cost_estimate, usual)
  default = Cast <to = 9> (inlining_default)
  dear = Not (cheap)
  wanted = Or (default, dear)
  inline = And (wanted, below)
  inlining_decision = Cast <to = 7> (inline)
}"""


def network(table: Table, users: Sequence[int]) -> onnx.ModelProto:
    """Inlines where cost_estimate is below the limit of its row (callees of one block, of several)
    and column (callee_users below users[0], below users[1], …), but not what costs less than LLVM's
    own limit and LLVM would leave for later."""
    constants = {
        "users": users,
        "usual": [USUAL],
        "width": [len(users) + 1],
        "limits": [limit for row in table for limit in row],
    }
    return network_of(
        GRAPH,
        {name: np.array(value, np.int64) for name, value in constants.items()},
        {"mlbridge.table": json.dumps({"users": users, "limits": table})},
    )


@dataclass(frozen=True)
class Code:
    """Executable bytes of an object: by function of those that a linker merges, and the rest."""

    own: int
    merged: dict[bytes, int]


def code_of(module: Path, flags: Sequence[str]) -> Code | None:
    """None if it can't be compiled in time."""
    from mlbridge.elf import sections

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "o.o"
        command = ["clang-22", "-Oz", "-ffunction-sections", "-Wno-override-module", *flags]
        command += ["-x", "ir", str(module), "-c", "-o", str(target)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode or b"warning" in done.stderr:
            return None
        found = [s for s in sections(target.read_bytes()) if s.flags & SHF_EXECINSTR]
    return Code(
        sum(s.size for s in found if not s.flags & SHF_GROUP),
        {s.name: s.size for s in found if s.flags & SHF_GROUP},
    )


def linked(codes: Sequence[Code]) -> int:
    merged: dict[bytes, int] = {}
    for code in codes:
        for name, size in code.merged.items():
            merged[name] = max(size, merged.get(name, 0))
    return sum(code.own for code in codes) + sum(merged.values())


class Sample:
    """Modules of the training programs, compiled at -Oz."""

    def __init__(self, folder: Path, most: int) -> None:
        """Programs of at most so many modules: of a few modules of a larger one, too little would
        be merged."""
        from mlbridge import corpus

        training = corpus.open(CORPUS).part("training")
        by_program: dict[str, list[Path]] = {}
        for program, count in Counter(m.program for m in training).items():
            for module in training if count <= most else []:
                if module.program == program:
                    path = folder / f"{module.hash}.bc"
                    path.write_bytes(training.read(module))
                    by_program.setdefault(program, []).append(path)
        self.programs = by_program
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._plain = self._compile([])

    def _compile(self, flags: Sequence[str]) -> dict[Path, Code | None]:
        paths = [path for paths in self.programs.values() for path in paths]
        return dict(zip(paths, self._pool.map(lambda p: code_of(p, flags), paths), strict=True))

    def ratios(self, flags: Sequence[str]) -> dict[str, float]:
        """The size of each program with these flags over that of -Oz."""
        found = {}
        made = self._compile(flags)
        for program, paths in self.programs.items():
            both = [(a, b) for p in paths if (a := made[p]) and (b := self._plain[p])]
            if size := linked([b for _, b in both]):
                found[program] = linked([a for a, _ in both]) / size
        return found


def show(what: object, ratios: dict[str, float]) -> None:
    worst = max(ratios, key=ratios.__getitem__)
    mean = geometric_mean(ratios.values())
    print(f"{what}: {mean:.4f}, at most {ratios[worst]:.4f} ({worst})", flush=True)


def search(sample: Sample, stated: dict[str, list], minutes: float, folder: Path) -> Table:  # type: ignore[type-arg]
    """One limit after the other, up and down by a step that shrinks; what grows a program by more
    than 0.6 % counts against a table."""
    from mlbridge import files

    def value(table: Table) -> float:
        path = folder / "policy.onnx"
        onnx.save(network(table, stated["users"]), path)
        option = f"-inliner-model=native:{path}"
        ratios = sample.ratios(files.clang_words(files.plugin("inliner"), option))
        show(table, ratios)
        excess = sum(max(0.0, math.log(ratio) - 0.006) for ratio in ratios.values())
        return math.log(geometric_mean(ratios.values())) + 5 * excess / len(ratios)

    best: Table = stated["limits"]
    lowest, until = value(best), time.monotonic() + 60 * minutes
    for step in (20, 10, 5):
        for row, column in [(r, c) for r in range(2) for c in range(len(best[0]))]:
            for change in (step, -step):
                if time.monotonic() > until:
                    return best
                tried = [list(limits) for limits in best]
                tried[row][column] += change
                if (tried_value := value(tried)) < lowest:
                    best, lowest = tried, tried_value
                    break
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["make", "search", "thresholds"])
    parser.add_argument("--minutes", type=float, default=60, help="of the search")
    parser.add_argument("--most", type=int, default=110, help="modules of a program")
    options = parser.parse_args()
    stated = json.loads((HERE / "table.json").read_text())
    if options.what == "make":
        onnx.save(network(stated["limits"], stated["users"]), HERE / "policy.onnx")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        sample = Sample(Path(folder), options.most)
        if options.what == "thresholds":
            for limit in THRESHOLDS:
                show(limit, sample.ratios(["-mllvm", f"-inline-threshold={limit}"]))
            return 0
        found = search(sample, stated, options.minutes, Path(folder))
    print(json.dumps({"users": stated["users"], "limits": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
