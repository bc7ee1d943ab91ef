# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds to link programs by ThinLTO, with back ends in 1, 2, 4 and 8 threads that share a model.

    python3 -m experiments.paper.threads [--set NAME] [--programs N] [--rounds N] [-o FILE]

Table 3 of the paper: an inliner and a register allocator in process, and the allocator over gRPC.
The modules are those of a set, test-A, a file for each of its largest programs. lld links them as
stock, with the inliner that ships (native:), and with the four agents that ship (onnx:, and in a
server in Python that evaluates the same networks, over grpc:). FILE gets the seconds, medians of
rounds in which all take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tqdm import tqdm

import mlbridge.files
from experiments.paper.command import keep, parser_of
from programs.catalog import ROOT
from programs.corpus import extracted

sys.path.insert(0, str(ROOT / "tests/shared"))
from agents import answering

NETWORKS = ROOT / "models/register-allocation"
INLINER = ROOT / "models/inliner-size/policy.onnx"
THREADS = (1, 2, 4, 8)


def prepared(part: str, count: int, folder: Path) -> dict[str, list[Path]]:
    """The bitcode with summaries of so many programs, those with most."""
    programs: dict[str, list[Path]] = {}
    sizes: dict[str, int] = {}
    for module, path in extracted(part):
        programs.setdefault(module.program, []).append(path)
        sizes[module.program] = sizes.get(module.program, 0) + module.bytes
    made = {}
    for name in sorted(programs, key=lambda name: -sizes[name])[:count]:
        made[name] = [folder / f"{name}-{n}.o" for n in range(len(programs[name]))]
        for source, target in zip(programs[name], made[name], strict=True):
            command = ["clang-22", "-Oz", "-flto=thin", "-Wno-override-module", "-x", "ir", "-c"]
            subprocess.run([*command, source, "-o", target], check=True)
    return made


class Links:
    """Links all programs, one after another."""

    def __init__(self, objects: Mapping[str, Sequence[Path]], folder: Path) -> None:
        self.objects, self.out = objects, folder / "linked"

    def seconds(self, threads: int, plugin: str, environment: Mapping[str, str]) -> float:
        load = [f"-Wl,--load-pass-plugin={plugin}"] if plugin else []
        command = ["clang++-22", "-flto=thin", "-fuse-ld=lld", "-no-pie", "-nostdlib", *load]
        command += [f"-Wl,--thinlto-jobs={threads}", "-o", str(self.out)]
        # Headers' definitions are in several modules of a corpus, which has no libraries, and none
        # of its functions is called from outside.
        command += ["-Wl,--unresolved-symbols=ignore-all,--allow-multiple-definition"]
        command += ["-Wl,--export-dynamic,--entry=0"]
        began = time.perf_counter()
        for objects in self.objects.values():
            done = subprocess.run(
                [*command, *objects],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode or "warning" in done.stderr:
                raise RuntimeError(f"lld with {plugin or 'no plugin'}: {done.stderr[-2000:]}")
        return time.perf_counter() - began


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="mlbridge-threads-"))
        folder = Path(name)
        objects = prepared(options.set, options.programs, folder)
        links = Links(objects, folder)
        allocator = mlbridge.files.plugin("register-allocation")
        inliner = mlbridge.files.plugin("inliner")
        served = stack.enter_context(answering("grpc", NETWORKS, folder))
        asks = "MLBRIDGE_REGISTER_ALLOCATION_"
        fails = {f"{asks}ON_FAILURE": "fail"}
        ways: dict[str, tuple[str, dict[str, str]]] = {
            "stock": ("", {}),
            "inliner": (inliner, {"MLBRIDGE_INLINER_MODEL": f"native:{INLINER}"}),
            "allocator, onnx": (
                allocator,
                {f"{asks}MODEL": f"onnx:{NETWORKS}/{{agent}}.onnx", **fails},
            ),
            "allocator, grpc": (allocator, {f"{asks}MODEL": served, **fails}),
        }
        turns = [(way, threads) for way in ways for threads in options.threads]
        seconds: dict[str, dict[int, list[float]]] = {
            way: {threads: [] for threads in options.threads} for way in ways
        }
        with tqdm(total=options.rounds * len(turns), desc="threads", unit="link") as bar:
            for number in range(options.rounds):
                for way, threads in turns[:: -1 if number % 2 else 1]:
                    bar.set_postfix_str(f"{way}, {threads}")
                    seconds[way][threads].append(links.seconds(threads, *ways[way]))
                    bar.update()
    medians = {
        way: {str(threads): statistics.median(taken) for threads, taken in by.items()}
        for way, by in seconds.items()
    }
    return {
        "programs": {name: len(parts) for name, parts in objects.items()},
        "seconds": medians,
    }


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = parser_of(__doc__, "test-A")
    parser.add_argument("--programs", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=list(THREADS))
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args(arguments)
    found = measure(options)
    for way, by in found["seconds"].items():
        print(way, " ".join(f"{threads}: {taken:.2f} s" for threads, taken in by.items()))
    keep(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
