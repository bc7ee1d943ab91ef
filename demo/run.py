# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Build held-out programs with stock clang, with and without the model (`make demo`).

    python3 demo/run.py [--model FILE.onnx] [--jobs N] [PROGRAM ...]

Each program is compiled at -Oz, at -O2, and with the plugin asking the model: by ONNX Runtime in
process, by a Python server that runs the same file, by the native engine, and compiled ahead of
time. Then the candidates that ship are compared with -Oz, at efforts 1 and 3. All are linked and
run their own test. Prints tables; writes report.json and chart.png into build/demo. Exits with 1 if
an output differs, an engine decided otherwise (but for near-ties) or made another object, a
compiler fell back, no decision was made, the code grew, or with an effort any object did.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from tqdm import tqdm

from demo.agreement import agreements
from demo.measure import Build, Result, build_program
from demo.report import EFFORTS, draw_chart, failures, print_agreements, print_table, report
from demo.server import ModelServer
from programs.catalog import ROOT, ProgramsError, load, select
from programs.fetch import fetch
from programs.plugin import LOG, MODEL, candidate_flags, compiled, plugin_flags

OUTPUT = ROOT / "build" / "demo"
LEAST_PROGRAMS = 8


def configurations(uris: Mapping[str, str]) -> dict[str, list[str]]:
    """The flags of each way to build: without the model, with it at each URI, with an effort."""
    asking = {way: ["-Oz", *plugin_flags(uri, "--log", LOG)] for way, uri in uris.items()}
    comparing = {way: ["-Oz", *candidate_flags(int(effort))] for way, effort in EFFORTS.items()}
    return {"oz": ["-Oz"], "o2": ["-O2"], **asking, **comparing}


def run(
    model: Path, names: Sequence[str], jobs: int, console: Console, output: Path = OUTPUT
) -> list[str]:
    """The whole demo; returns what went wrong."""
    if not model.is_file():
        raise ProgramsError(f"no model at {model}; it is shipped in models/phase-ordering-size")
    programs = [program for program in select(load(), list(names)) if program.set == "demo"]
    if not names and len(programs) < LEAST_PROGRAMS:
        raise ProgramsError(f"{len(programs)} programs in the demo set, expected {LEAST_PROGRAMS}")
    wanted = programs
    programs = fetch(wanted, least=None if names else LEAST_PROGRAMS)
    left_out = [program.name for program in wanted if program not in programs]
    output.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with ModelServer(model, output / "server.log") as server:
        uris = {
            "onnx": f"onnx:{model}",
            "server": server.uri,
            "native": f"native:{model}",
            "aot": f"aot:{compiled(model, output / 'policy.so')}",
        }
        ways = configurations(uris)
        total = len(programs) * len(ways)
        with tqdm(total=total, desc="demo", unit="build", file=sys.stderr) as bar:
            for program in programs:
                builds: dict[str, Build] = {}
                for way, flags in ways.items():
                    bar.set_postfix_str(f"{program.name} {way}")
                    place = output / "programs" / program.name / way
                    builds[way] = build_program(program, flags, place, jobs)
                    bar.update()
                if builds["oz"].failure:
                    raise ProgramsError(f"the plain -Oz build fails: {builds['oz'].failure}")
                results.append(Result(program, builds))
    engines = agreements(results, model)
    print_table(results, console)
    print_agreements(engines, console)
    if not names:
        found = report(results, engines, left_out)
        (output / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    draw_chart(results, output / "chart.png")
    if left_out:
        console.print(f"left out, because they could not be fetched: {', '.join(left_out)}")
    console.print(f"the server answered {server.statistics.get('replies', 0)} requests")
    written = "chart.png is" if names else "report.json and chart.png are"
    console.print(f"{written} in {output}", soft_wrap=True, highlight=False)
    return failures(results, engines)


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="demo/run.py", description=about)
    parser.add_argument("names", nargs="*", help="only these programs (then no report.json)")
    parser.add_argument("--model", type=Path, default=MODEL, help="default: the shipped policy")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 132)
    start = time.monotonic()
    try:
        wrong = run(options.model.resolve(), options.names, options.jobs, console, options.output)
    except ProgramsError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    console.print(f"{time.monotonic() - start:.0f} s")
    for text in wrong:
        print(f"demo: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
