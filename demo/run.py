# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Build held-out programs with stock clang, with and without the model (`make demo`).

    python3 demo/run.py [--model FILE.onnx] [--jobs N] [PROGRAM ...]

Each program is compiled at -Oz, at -O2, with the plugin asking the ONNX model in process, and with
the plugin asking a Python server that runs the same file. All four are linked and run their own
test. Prints a table; writes report.json, details.json and chart.png into build/demo. Exits with 1
if an output or an object differs, a compiler fell back, no decision was made, or the code grew.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from tqdm import tqdm

from demo.measure import Configuration, Result, measure
from demo.report import details, draw_chart, failures, print_table, report, write_json
from demo.server import ModelServer
from programs.catalog import ROOT, ProgramsError, load, select
from programs.fetch import fetch
from programs.plugin import MODEL, plugin_flags

OUTPUT = ROOT / "build" / "demo"
LEAST_PROGRAMS = 8


def configurations(model: Path, server: str) -> list[Configuration]:
    """The four ways that each program is built."""
    return [
        Configuration("oz", ("-Oz",)),
        Configuration("o2", ("-O2",)),
        Configuration("onnx", ("-Oz", *plugin_flags(f"onnx:{model}")), asks=True),
        Configuration("server", ("-Oz", *plugin_flags(server)), asks=True),
    ]


def run(model: Path, names: Sequence[str], jobs: int, console: Console) -> list[str]:
    """The whole demo; returns what went wrong."""
    if not model.is_file():
        raise ProgramsError(f"no model at {model}; it is shipped in models/phase-ordering-size")
    programs = [program for program in select(load(), list(names)) if program.set == "demo"]
    if not names and len(programs) < LEAST_PROGRAMS:
        raise ProgramsError(f"{len(programs)} programs in the demo set, expected {LEAST_PROGRAMS}")
    fetch(programs)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with ModelServer(model, OUTPUT / "server.log") as server:
        ways = configurations(model, server.uri)
        total = len(programs) * len(ways)
        with tqdm(total=total, desc="demo", unit="build", file=sys.stderr) as bar:
            for program in programs:
                results.append(
                    measure(
                        program, ways, OUTPUT / "programs", jobs, bar.set_postfix_str, bar.update
                    )
                )
    print_table(results, console)
    if not names:
        write_json(report(results), OUTPUT / "report.json")
    flags = {way.name: way.flags for way in ways}
    write_json(details(results, flags, jobs), OUTPUT / "details.json")
    draw_chart(results, OUTPUT / "chart.png")
    console.print(f"the server answered {server.statistics.get('replies', 0)} requests")
    written = "details.json and chart.png" if names else "report.json, details.json and chart.png"
    console.print(f"{written} are in {OUTPUT}", soft_wrap=True, highlight=False)
    return failures(results)


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="demo/run.py", description=about)
    parser.add_argument("names", nargs="*", help="only these programs (then no report.json)")
    parser.add_argument("--model", type=Path, default=MODEL, help="default: the shipped policy")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 132)
    start = time.monotonic()
    try:
        wrong = run(options.model.resolve(), options.names, options.jobs, console)
    except ProgramsError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    console.print(f"{time.monotonic() - start:.0f} s")
    for text in wrong:
        print(f"demo: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
