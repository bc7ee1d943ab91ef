# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures a question's round trip from GCC, MLIR, Polly and SQLite, by each runner, beside the
same question from a bare program, and writes build/bench/sites.json.

    run.py [--rounds N] [--only SITE]

Each round compiles a file of many functions, or asks about many rows, and then asks the same model
as often from a program that does nothing else. What is timed is the wait for the reply, as MLBridge
records it, without what the compiler does to ask. The report has medians, in microseconds.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
sys.path[:0] = [str(BENCH), str(BENCH / "in-process"), str(ROOT / "tests" / "shared")]

from beyond_llvm import RUNNERS, asked, tiles_network  # noqa: E402
from networks import perceptron  # noqa: E402
from shared import parser, report, show  # noqa: E402

import mlbridge  # noqa: E402
import mlbridge.files  # noqa: E402

#: Of a round; the first of a process may have to wait until everything is there. Polly takes long.
QUESTIONS, FEW = 200, 40
NEST = """
void f{0}(double a[restrict 99][99], double b[restrict 99][99]) {{
  for (int i = 1; i < {1}; ++i)
    for (int j = 1; j < {1}; ++j)
      a[i][j] += b[j][i - 1];
}}
"""
PRODUCT = """
func.func @f{0}(%a: memref<{1}x16xf32>, %b: memref<16x16xf32>, %c: memref<{1}x16xf32>) {{
  linalg.matmul ins(%a, %b : memref<{1}x16xf32>, memref<16x16xf32>) outs(%c : memref<{1}x16xf32>)
  return
}}
"""


Ask = Callable[[str, Path], None]


@dataclass
class Site:
    """Something that asks `network` so many questions: `ask` has it ask the URI, in a folder."""

    network: Path
    ask: Ask
    questions: int = QUESTIONS


def run(*command: str | Path) -> None:
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)


def gcc(folder: Path) -> Site:
    source = folder / "many.c"
    source.write_text("".join(f"int f{n}(int x) {{ return x * {n}; }}\n" for n in range(QUESTIONS)))
    plugin = mlbridge.files.gcc_plugin("gcc_settings")
    option = "-fplugin-arg-gcc_settings"

    def ask(uri: str, work: Path) -> None:
        asking = [f"-fplugin={plugin}", f"{option}-model={uri}", f"{option}-on-failure=fail"]
        run("gcc-12", "-O2", *asking, "-c", source, "-o", work / "made.o")

    return Site(ROOT / "models" / "gcc-settings" / "policy.onnx", ask)


def mlir(folder: Path) -> Site:
    source = folder / "products.mlir"
    source.write_text("".join(PRODUCT.format(n, 8 + n % 9) for n in range(QUESTIONS)))
    plugin = mlbridge.files.plugin("mlir-tiling")

    def ask(uri: str, work: Path) -> None:
        tiling = f"mlbridge-tiling{{model={uri} on-failure=fail}}"
        passes = f"--pass-pipeline=builtin.module({tiling})"
        run("mlir-opt-22", f"--load-pass-plugin={plugin}", passes, source, "-o", work / "made")

    return Site(ROOT / "models" / "mlir-tiling" / "policy.onnx", ask)


def polly(folder: Path) -> Site:
    source = folder / "nests.c"
    source.write_text("".join(NEST.format(n, 50 + n % 49) for n in range(FEW)))
    plugin = mlbridge.files.plugin("polly-tiling")

    def ask(uri: str, work: Path) -> None:
        options = (f"-polly-tiling-model={uri}", "-polly-tiling-on-failure=fail")
        asking = mlbridge.files.clang_words(plugin, *options)
        command = ["clang-22", "-O3", "-mllvm", "-polly", *asking]
        run(*command, "-c", source, "-o", work / "made.o")

    return Site(tiles_network(folder / "tiles.onnx"), ask, FEW)


def sqlite(folder: Path, build: Path) -> Site:
    model = folder / "sum.onnx"
    model.write_bytes(perceptron(2, 16, 1).SerializeToString())
    rows = f"WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t LIMIT {QUESTIONS})"

    def ask(uri: str, work: Path) -> None:
        query = f"{rows} SELECT sum(mlbridge('{uri}', x, 2 * x)) FROM t"
        run("sqlite3", "-cmd", f".load '{build}/bench/sqlite/mlbridge'", ":memory:", query)

    return Site(model, ask)


def bare(questions: int) -> Ask:
    """Nothing but the questions."""

    def ask(uri: str, _: Path) -> None:
        with closing(mlbridge.open(uri)) as model:
            zeros = {s.name: np.zeros(s.shape, s.dtype) for s in model.signature.inputs}
            for _number in range(questions):
                model.evaluate(**zeros)

    return ask


def waits(ask: Ask, questions: int, uri: str, work: Path) -> list[float]:
    """Microseconds of each question but the first."""
    log = work / "log"
    log.mkdir()
    ask(f"{uri}{'&' if '?' in uri else '?'}record={log}", work)
    found: list[float] = []
    for file in log.iterdir():
        for episode in mlbridge.Recording(file).episodes():
            found += [wait * 1e6 for wait in episode.waits]
    shutil.rmtree(log)
    if len(found) != questions:
        raise RuntimeError(f"{uri} was asked {len(found)} times; expected {questions}")
    return found[1:]


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", default="")
    arguments = options.parse_args()
    makers: dict[str, Callable[[Path], Site]] = {
        "GCC": gcc,
        "MLIR": mlir,
        "Polly": polly,
        "SQLite": lambda folder: sqlite(folder, arguments.build),
    }
    chosen = [name for name in makers if arguments.only in name]
    # SQLite's extension is not in the package, beside which these are.
    os.environ.setdefault("MLBRIDGE_COMPONENT_PATH", str(arguments.build / "lib" / "mlbridge"))
    os.environ.setdefault("MLBRIDGE_ONNXRUNTIME", str(mlbridge.files.find_onnx_runtime() or ""))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as name:
        for site in tqdm(chosen, unit="site"):
            folder = Path(name) / site
            folder.mkdir()
            its = makers[site](folder)
            for runner in RUNNERS:
                found: defaultdict[str, list[float]] = defaultdict(list)
                with asked(runner, its.network, folder) as uri:
                    for at in range(arguments.rounds):
                        both = [("here", its.ask), ("bare", bare(its.questions))]
                        for where, ask in both if at % 2 else both[::-1]:
                            found[where] += waits(ask, its.questions, uri, folder)
                here, alone = (statistics.median(found[where]) for where in ("here", "bare"))
                row = {"us": round(here, 2), "bare_us": round(alone, 2)}
                rows.append({"site": site, "runner": runner, **row})
                rows[-1]["ratio"] = round(here / alone, 2)
    show(rows)
    report("sites", {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
