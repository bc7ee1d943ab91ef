# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""native: and aot: beside the C that emx-onnx-cgen makes; writes build/bench/generated-c.json.

    run.py [--rounds N] [--build FOLDER]

The command emx-onnx-cgen (of the Python package of that name) has to be on the path; without it,
nothing is measured. All are asked in turns, on one core, and answers are checked. aot: and the C
are also called without the library, as functions of a program.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "in-process")]
from networks import write  # noqa: E402
from shared import ROOT, Asker, over, parser, report  # noqa: E402

TOOL = "emx-onnx-cgen"
NETWORKS = ("100-64-64-2", "300-256-128-15", "lstm", "ggnn", "inliner")
WAYS = ("native", "aot", "aot's C function", TOOL)
TURN_NS = 3e6
Command = list[str | Path]


def run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def generated(model: Path, examples: Path, folder: Path) -> Command:
    """A program that calls the generated C."""
    graph = onnx.load(model).graph
    sizes = []
    for info in graph.input:
        kind = info.type.tensor_type
        width = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
        count = int(np.prod([d.dim_value for d in kind.shape.dim]))
        sizes.append(f"{count * width}:{width}")
    source, network, program = folder / "network.c", folder / "network.o", folder / "generated"
    outputs = int(np.prod([d.dim_value for d in graph.output[0].type.tensor_type.shape.dim]))
    whole = ("--large-weight-threshold", "0", "--model-name", "network")  # weights in the C
    run(TOOL, "compile", *whole, model, source)
    run("gcc", "-O3", "-march=native", "-c", source, "-o", network)
    run("g++", "-O2", "-std=c++17", f"-DCOUNT={len(sizes) + 1}", HERE / "function.cpp", network,
        "-lm", "-o", program)  # fmt: skip
    return [program, examples, str(outputs), *sizes]


def compiled(model: Path, examples: Path, folder: Path) -> Command:
    """A program that calls aot:'s function."""
    network, program = folder / "aot.o", folder / "compiled"
    header = folder / "network.h"
    run(sys.executable, "-m", "mlbridge", "aot", model, "-o", network, "--header", header,
        "--name", "network")  # fmt: skip
    source = HERE.parent / "in-process/compiled_function.cpp"
    flags = ("-O2", "-std=c++17", f"-I{folder}", f"-I{ROOT / 'include'}")
    run("g++", *flags, source, network, "-o", program)
    return [program, examples]


def times(commands: dict[str, Command], rounds: int) -> dict[str, float]:
    """Microseconds of an evaluation, medians of turns."""
    core = max(os.sched_getaffinity(0))
    found: dict[str, list[float]] = {way: [] for way in commands}
    with ExitStack() as stack:
        askers = {way: Asker(stack, command, core=core) for way, command in commands.items()}
        passes = {}
        for way, asker in askers.items():
            asker.nanoseconds(10)
            passes[way] = max(1, int(TURN_NS / max(asker.nanoseconds(10) / 10, 1)))
        for _ in range(rounds):
            for way, asker in askers.items():
                found[way].append(asker.nanoseconds(passes[way]) / passes[way])
    return {way: round(statistics.median(turns) / 1e3, 4) for way, turns in found.items()}


def main() -> int:
    """Measure, write, print."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=21)
    options = arguments.parse_args()
    if not shutil.which(TOOL):
        print(f"{TOOL} isn't on the path (pip install {TOOL}): nothing is measured")
        return 0
    client = options.build / "bench/in-process-client"
    rows: list[dict[str, Any]] = []
    for name in NETWORKS:
        with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as place:
            folder = Path(place)
            model, examples, _ = write(name, folder)
            library = folder / "aot.so"
            run(sys.executable, "-m", "mlbridge", "aot", model, "--shared", "-o", library)
            uris = (f"native:{model}", f"aot:{library}")
            commands: list[Command] = [[client, "ask", uri, examples] for uri in uris]
            commands += [compiled(model, examples, folder), generated(model, examples, folder)]
            found = times(dict(zip(WAYS, commands, strict=True)), options.rounds)
        theirs = found[TOOL]
        rows.append({"model": name} | {f"{way} µs": took for way, took in found.items()})
        rows[-1] |= {f"{way} over it": over(found[way], theirs) for way in WAYS[:-1]}
    report(
        "generated-c",
        rows,
        "C made of a network",
        f"The C of {TOOL}, compiled by gcc -O3 -march=native, and the same networks by `native:`"
        " and `aot:`, asked in turns on one core; medians.",
        rows,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
