# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds that llc takes to compile programs whose registers models allocate, program by program.

    python3 -m experiments.paper.allocation [--set NAME] [--files N] [--rounds N] [-o FILE]

The talk "ML-LLVM-Tools" (EuroLLVM 2023) compares RL4ReAl asking over gRPC with asking in process,
program by program. Here llc-22 asks the four networks that ship (models/register-allocation) over
gRPC and by ONNX Runtime and the native engine in process; the decisions are the same. FILE gets the
seconds of whole compilations and those of asking, medians of rounds.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

import mlbridge.files
from experiments.paper.command import keep, parser_of
from programs.catalog import ROOT
from programs.corpus import extracted

sys.path[:0] = [str(ROOT / part) for part in ("bench", "bench/ask", "tests/shared")]
from agents import answering  # noqa: E402

registers: Any = importlib.import_module("registers")

WAYS = ("stock", "grpc", "onnx", "native")


def sampled(part: str, most: int) -> dict[str, list[Path]]:
    """So many modules of each program: every nth by size."""
    programs = defaultdict(list)
    for module, path in extracted(part):
        programs[module.program].append((module.bytes, path))
    found = {}
    for name, modules in sorted(programs.items()):
        ordered = [path for _, path in sorted(modules)]
        found[name] = ordered[:: -(-len(ordered) // most)]
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    plugin = mlbridge.files.plugin("register-allocation")
    programs = sampled(options.set, options.files)
    with tqdm(total=len(programs) * options.rounds, desc="allocation", unit="program") as bar:
        for name, paths in programs.items():
            bar.set_postfix_str(name)
            seconds: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            with tempfile.TemporaryDirectory(prefix="mlbridge-allocation-") as made:
                folder = Path(made)
                files = registers.prepared(paths, folder)
                for at in range(options.rounds):
                    for way in WAYS[:: 1 if at % 2 else -1]:
                        own = folder / f"{way}-{at}"
                        own.mkdir()
                        if way == "stock":
                            parts = [registers.compiled(file, folder) for file in files]
                        else:
                            with answering(way, registers.NETWORKS, own) as uri:
                                asks = ["-load", plugin, f"-register-allocation-model={uri}"]
                                asks.append("-register-allocation-on-failure=fail")
                                parts = [registers.compiled(file, folder, *asks) for file in files]
                        seconds[way].append(
                            {part: sum(one[part] for one in parts) for part in ("whole", "asking")}
                        )
                    bar.update()
            found[name] = {"files": len(files)} | {
                way: {
                    part: round(statistics.median(one[part] for one in taken), 4)
                    for part in ("whole", "asking")
                }
                for way, taken in seconds.items()
            }
    return found


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = parser_of(__doc__, "test-A")
    parser.add_argument("--files", type=int, default=8, help="of a program, at most")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    found = measure(options)
    for name, ways in found.items():
        asking = ways["grpc"]["asking"] / max(ways["native"]["asking"], 1e-9)
        whole = ways["grpc"]["whole"] / ways["native"]["whole"]
        print(f"{name}: over gRPC, asking takes {asking:.1f} times as long, compiling {whole:.2f}")
    keep(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
