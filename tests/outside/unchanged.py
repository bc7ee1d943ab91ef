# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether an object is the stock compiler's, byte for byte, where nothing was decided that changes
it: the model says what the compiler does by itself, it can't be opened, or the remarks of a shipped
one say that it has left all as it was.

    unchanged.py [--first SEED] [--count N] [--report FILE] [PROGRAM...]

Programs are Csmith's, or those that are named (C, C++). Number N is always compiled in one way.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from compare import COMPILING, CSMITH, UNFIT, Verdict, run
from compiler import printed_flags
from csmith import OPTIONS, generate
from onnx import TensorProto, helper, numpy_helper
from tally import BAD, Tally, save
from tqdm import tqdm

SUITE = "unchanged"
#: Options of the compiler, of which a program takes some.
MORE = (*OPTIONS, "-flto", "-ffast-math", "-fno-math-errno", "-g3")
INT, FLOAT = TensorProto.INT64, TensorProto.FLOAT


@dataclass(frozen=True)
class Stock:
    """A way to compile in which nothing should change."""

    optimization: str
    name: str
    levels: str
    flags: tuple[str, ...]
    #: If the compiler says this, something was decided.
    decided: str = ""

    @property
    def gcc(self) -> bool:
        return self.optimization == "gcc-settings"


def answering(path: Path, output: str, shape: list[int], answer: int) -> str:
    """A network that always answers the same."""
    value = numpy_helper.from_array(np.full(shape, answer, np.int64), "value")
    node = helper.make_node("Constant", [], [output], value=value)
    return _saved(path, [node], [], helper.make_tensor_value_info(output, INT, shape))


def repeating(path: Path, output: str, asked: str) -> str:
    """A network whose answer is one of its inputs: what LLVM's heuristic would do."""
    tensor = helper.make_tensor_value_info
    node = helper.make_node("Identity", [asked], [output])
    return _saved(path, [node], [tensor(asked, INT, [1])], tensor(output, INT, [1]))


def _saved(path: Path, nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto],
           output: onnx.ValueInfoProto) -> str:  # fmt: skip
    graph = helper.make_graph(nodes, "stock", inputs, [output])
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), str(path))
    return f"native:{path}"


def ways(folder: Path) -> list[Stock]:
    """All of them; `folder` is for models."""
    nothing = folder / "candidates.json"
    after = {"name": "nothing", "passes": "no-op-module", "after_stock": True, "options": []}
    nothing.write_text(json.dumps({"version": 1, "candidates": [after]}))
    gone = f"unix:{folder}/nobody.sock"

    def way(optimization: str, name: str, levels: str, *options: str, decided: str = "") -> Stock:
        line = printed_flags(optimization, "--deadline", "60s", *options)
        return Stock(optimization, name, levels, line, decided)

    all_levels = "O0 O1 O2 O3 Os Oz"
    found = [
        way("loop-distribution", "never", all_levels, "--model", "function:never"),
        way("loop-distribution", "shipped", "O2 O3", decided="remark: distributed into"),
        way("polly-tiling", "untiled", "O0 O1 O2 O3", "--model",
            answering(folder / "tiles.onnx", "sizes", [8], 1)),
        way("phase-ordering", "nothing", all_levels, "--model", f"candidates:{nothing}"),
        way("inliner", "as-llvm", all_levels, "--model",
            repeating(folder / "inline.onnx", "inlining_decision", "inlining_default")),
        way("regalloc-eviction", "as-llvm", all_levels, "--effort", "1", "--model",
            repeating(folder / "evict.onnx", "index_to_evict", "eviction_default")),
        way("gcc-settings", "stock", all_levels, "--model",
            answering(folder / "setting.onnx", "setting", [], 0)),
    ]  # fmt: skip
    models = ("phase-ordering", "inliner", "regalloc-eviction", "regalloc-priority",
              "register-allocation", "loop-distribution", "gcc-settings")  # fmt: skip
    return found + [way(name, "gone", all_levels, "--model", gone) for name in models]


def chosen(number: int, all_ways: Sequence[Stock]) -> tuple[Stock, str, list[str]]:
    """How the program of this number is compiled."""
    drawn = random.Random(f"unchanged {number}")
    way = all_ways[number % len(all_ways)]
    level = drawn.choice(way.levels.split())
    thin = [] if way.gcc else ["-flto=thin"]
    return way, level, [option for option in (*MORE, *thin) if drawn.random() < 0.12]


def check(way: Stock, level: str, options: Sequence[str], source: Path, folder: Path) -> Verdict:
    """Same, changed (something was decided), wrong, crashed or unfit."""
    cxx = source.suffix in (".C", ".cc", ".cpp")
    compiler = ("g++-12" if cxx else "gcc-12") if way.gcc else "clang++-22" if cxx else "clang-22"
    asked = [f"-Rpass={way.optimization}"] if way.decided else []
    # Or else bitcode of GCC has a random number.
    same = ["-frandom-seed=1"] if way.gcc else []
    made: list[bytes] = []
    said = ""
    for plugin in (False, True):
        target = folder / "program.o"
        target.unlink(missing_ok=True)
        command = [compiler, "-w", f"-{level}", *(way.flags if plugin else ()), *asked, *same]
        done = run([*command, *options, *CSMITH, "-c", source.name, "-o", target],
                   source.parent, COMPILING)  # fmt: skip
        if done.code != 0 or not target.is_file():
            last = "\n".join(done.said.splitlines()[-5:])
            return Verdict("crashed", last) if plugin else Verdict(UNFIT, last)
        made.append(target.read_bytes())
        said = done.said
    if made[0] == made[1]:
        return Verdict("same")
    if way.decided and way.decided in said:
        return Verdict("changed")
    return Verdict("wrong", said)


def command_of(way: Stock, level: str, options: Sequence[str]) -> str:
    """What compiles it as here, with {0} for the program; the stock compiler lacks the plugin."""
    compiler = "gcc-12" if way.gcc else "clang-22"
    return shlex.join([compiler, f"-{level}", *way.flags, *options, *CSMITH, "-c", "{0}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="*", type=Path, metavar="PROGRAM")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", type=Path, help="file of the counts")
    arguments = parser.parse_args()
    unfit = 0
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as models:
        all_ways = ways(Path(models))

        def one(number: int) -> tuple[int, Verdict]:
            way, level, options = chosen(number, all_ways)
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary)
                source = folder / "program.c"
                if arguments.programs:
                    # Every program in every way.
                    source = arguments.programs[number // len(all_ways)].resolve()
                else:
                    generate(number, source)
                return number, check(way, level, options, source, folder)

        count = len(arguments.programs) * len(all_ways) or arguments.count
        first = 0 if arguments.programs else arguments.first
        numbers = range(first, first + count)
        with ThreadPoolExecutor(arguments.jobs) as workers:
            for number, verdict in tqdm(
                workers.map(one, numbers), total=count, unit="program", disable=None
            ):
                way, level, options = chosen(number, all_ways)
                tally = tallies.setdefault(way.optimization, Tally(SUITE, way.optimization))
                if verdict.kind == UNFIT:
                    unfit += 1
                    continue
                tally.programs += 1
                tally.changed += verdict.kind == "changed"
                if verdict.kind in BAD:
                    with tempfile.TemporaryDirectory() as temporary:
                        source = Path(temporary) / "program.c"
                        if arguments.programs:
                            source = arguments.programs[number // len(all_ways)]
                        else:
                            generate(number, source)
                        command = command_of(way, level, options)
                        tally.bad(verdict.kind, f"{way.name}-{number}", command, source)
                    print(verdict.why, flush=True)
    print(f"{unfit} of {count} programs aren't compiled by the stock compiler")
    return 0 if save(list(tallies.values()), arguments.report) else 1


if __name__ == "__main__":
    sys.exit(main())
