# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long GCC, MLIR, Polly and SQLite wait for a reply, by each runner, beside a bare program.

Each round compiles a file of many functions, or asks about many rows, and then asks the same model
as often from a program that does nothing else. What is timed is the wait for the reply, as MLBridge
records it, without what the compiler does to ask.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from beyond_llvm import RUNNERS, asked, tiles_network
from networks import perceptron
from rows import Row, row
from shared import ROOT
from tqdm import tqdm

import mlbridge
import mlbridge.files

#: Questions of a round, of which the first has to wait until everything is there. Polly takes long.
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
class Client:
    """Something that asks `network` so many questions: `ask` has it ask the URI, in a folder."""

    network: Path
    ask: Ask
    questions: int = QUESTIONS


def run(*command: str | Path) -> None:
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)


def gcc(folder: Path, _: Path) -> Client:
    source = folder / "many.c"
    source.write_text("".join(f"int f{n}(int x) {{ return x * {n}; }}\n" for n in range(QUESTIONS)))
    plugin = mlbridge.files.gcc_plugin("gcc_settings")
    option = "-fplugin-arg-gcc_settings"

    def ask(uri: str, work: Path) -> None:
        asking = [f"-fplugin={plugin}", f"{option}-model={uri}", f"{option}-on-failure=fail"]
        run("gcc-12", "-O2", *asking, "-c", source, "-o", work / "made.o")

    return Client(ROOT / "models" / "gcc-settings" / "policy.onnx", ask)


def mlir(folder: Path, _: Path) -> Client:
    source = folder / "products.mlir"
    source.write_text("".join(PRODUCT.format(n, 8 + n % 9) for n in range(QUESTIONS)))
    plugin = mlbridge.files.plugin("mlir-tiling")

    def ask(uri: str, work: Path) -> None:
        tiling = f"mlbridge-tiling{{model={uri} on-failure=fail}}"
        passes = f"--pass-pipeline=builtin.module({tiling})"
        run("mlir-opt-22", f"--load-pass-plugin={plugin}", passes, source, "-o", work / "made")

    return Client(ROOT / "models" / "mlir-tiling" / "policy.onnx", ask)


def polly(folder: Path, _: Path) -> Client:
    source = folder / "nests.c"
    source.write_text("".join(NEST.format(n, 50 + n % 49) for n in range(FEW)))
    plugin = mlbridge.files.plugin("polly-tiling")

    def ask(uri: str, work: Path) -> None:
        options = (f"-polly-tiling-model={uri}", "-polly-tiling-on-failure=fail")
        asking = mlbridge.files.clang_words(plugin, *options)
        command = ["clang-22", "-O3", "-mllvm", "-polly", *asking]
        run(*command, "-c", source, "-o", work / "made.o")

    return Client(tiles_network(folder / "tiles.onnx"), ask, FEW)


def sqlite(folder: Path, build: Path) -> Client:
    model = folder / "sum.onnx"
    model.write_bytes(perceptron(2, 16, 1).SerializeToString())
    rows = f"WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t LIMIT {QUESTIONS})"

    def ask(uri: str, work: Path) -> None:
        query = f"{rows} SELECT sum(mlbridge('{uri}', x, 2 * x)) FROM t"
        run("sqlite3", "-cmd", f".load '{build}/bench/sqlite/mlbridge'", ":memory:", query)

    return Client(model, ask)


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


CLIENTS = {"GCC": gcc, "MLIR": mlir, "Polly": polly, "SQLite": sqlite}


def measured(name: str, options: argparse.Namespace) -> list[Row]:
    """A row for each runner."""
    # SQLite's extension is not in the package, beside which these are.
    os.environ.setdefault("MLBRIDGE_COMPONENT_PATH", str(options.build / "lib" / "mlbridge"))
    os.environ.setdefault("MLBRIDGE_ONNXRUNTIME", str(mlbridge.files.find_onnx_runtime() or ""))
    rows = []
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as place:
        folder = Path(place)
        client = CLIENTS[name](folder, options.build)
        for runner in tqdm(RUNNERS, desc=name, unit="runner"):
            found: defaultdict[str, list[float]] = defaultdict(list)
            with asked(runner, client.network, folder) as uri:
                for at in range(options.rounds):
                    both = [("here", client.ask), ("bare", bare(client.questions))]
                    for where, ask in both if at % 2 else both[::-1]:
                        found[where] += waits(ask, client.questions, uri, folder)
            us, bare_us = (statistics.median(found[where]) for where in ("here", "bare"))
            shipped = client.network.is_relative_to(ROOT)
            model = client.network.parent.name if shipped else client.network.stem
            rows.append(row(name, model, runner, us, "a bare program", bare_us))
    return rows
