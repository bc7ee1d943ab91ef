# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Build held-out programs with stock clang, with and without the model (`make demo`).

    python3 demo/run.py [--all-engines] [--model FILE.onnx] [--jobs N] [PROGRAM ...]

Each program is compiled at -Oz, at -O2, with the plugin asking the model in process (ONNX Runtime)
and in a Python server that runs the same file, and with the candidates that ship compared with -Oz,
at efforts 1 and 3. What is timed has the machine to itself. All are linked and run their own test,
and then the program's line is printed, smallest program first. Then all are linked as a whole, with
and without `mlbridge flags smallest`. At last a few of them, or with --all-engines all, are built
with the native engine and with the model compiled ahead of time. Writes report.html, report.json,
chart.png and linked.png into build/demo. Exits with 1 if an output differs, an
engine decided otherwise (but for near-ties) or made another object, a compiler fell back, no
decision was made, the code grew, or with an effort any object or linked program did.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tqdm import tqdm

from demo.agreement import agreements
from demo.measure import Build, Objects, Result, build_program, compile_anew
from demo.report import (
    EFFORTS,
    LINKED,
    SizeTable,
    draw_linked,
    failures,
    print_agreements,
    print_linked,
    print_times,
    report,
    write_section,
)
from demo.sources import Sources
from demo.table import say
from mlbridge import report as pages
from programs import linked, pins
from programs.catalog import ROOT, Program, ProgramsError, load, select
from programs.plugin import LOG, MODEL, candidate_flags, compiled, plugin_flags
from programs.server import ModelServer

OUTPUT = ROOT / "build" / "demo"
LEAST_PROGRAMS = 8
DRAWN = "effort3"  # whose functions' sizes the page has
TIMED = ("oz", "onnx", "server", *EFFORTS)
#: Those that are built with the other engines too, unless all are: small ones of three kinds, with
#: a quarter of all decisions.
AGREEING = ("jansson", "byacc", "zlib")
OTHER_ENGINES = ("native", "aot")


def by_size(programs: Sequence[Program]) -> list[Program]:
    """Smallest first, by the bytes of the sources to compile as they are pinned."""
    pinned = pins.read()

    def size(program: Program) -> int:
        modules = pinned[program.name].modules if program.name in pinned else ()
        return sum(module.size for module in modules)

    return sorted(programs, key=size)


def asking(uri: str) -> list[str]:
    """The flags of a build that asks the model at this URI."""
    return ["-Oz", *plugin_flags(uri, "--log", LOG)]


def configurations(uris: Mapping[str, str]) -> dict[str, list[str]]:
    """The flags of each way to build: without the model, with it at each URI, with an effort."""
    comparing = {way: ["-Oz", *candidate_flags(int(effort))] for way, effort in EFFORTS.items()}
    return {
        "oz": ["-Oz"],
        "o2": ["-O2"],
        **{way: asking(uri) for way, uri in uris.items()},
        **comparing,
    }


def fetched(sources: Sources, wanted: Sequence[Program], least: int) -> Iterator[Program]:
    """Those that are there, as soon as each is; the others are named, and too many an error."""
    failed: list[str] = []
    for program in wanted:
        try:
            sources.wait_for(program)
        except ProgramsError as error:
            failed.append(f"{program.name}: {error}")
            if len(wanted) - len(failed) < least:
                count = f"{len(failed)} of {len(wanted)} programs could not be fetched"
                raise ProgramsError("\n".join([count, *failed])) from error
            print(f"demo: going on without {failed[-1]}", file=sys.stderr)
        else:
            yield program


def build(
    program: Program,
    ways: Mapping[str, list[str]],
    output: Path,
    sources: Sources,
    pool: Executor,
    bar: tqdm[Any],
) -> Result:
    """One program in each way: the timed ones one after the other, then the rest side by side."""

    def compile_it(way: str) -> Objects:
        bar.set_postfix_str(f"{program.name} {way}")
        made = compile_anew(program, ways[way], output / "programs" / program.name / way, pool)
        bar.update()
        return made

    with sources.undisturbed():
        timed = {way: compile_it(way) for way in TIMED}
    finishing = {way: pool.submit(made.finish) for way, made in timed.items()}
    for way in ways.keys() - timed.keys():
        finishing[way] = pool.submit(compile_it(way).finish)
    result = Result(program, {way: finishing[way].result() for way in ways})
    if result.builds["oz"].failure:
        raise ProgramsError(f"the plain -Oz build fails: {result.builds['oz'].failure}")
    return result


def ask_other_engines(
    results: Sequence[Result], model: Path, output: Path, pool: Executor, bar: tqdm[Any]
) -> None:
    """Add the builds by the native engine, and by the model compiled ahead of time."""
    building: list[tuple[Result, str, Future[Build]]] = []

    def start(way: str, uri: str) -> None:
        flags = asking(uri)
        for result in reversed(results):  # the largest first, so that cores are busy to the end
            folder = output / "programs" / result.program.name / way
            future = pool.submit(build_program, result.program, flags, folder)
            building.append((result, way, future))

    if not results:
        return
    bar.set_postfix_str(", ".join(OTHER_ENGINES))
    library = pool.submit(compiled, model, output / "policy.so")
    start("native", f"native:{model}")
    start("aot", f"aot:{library.result()}")
    for result, way, future in building:
        result.builds[way] = future.result()
        bar.update()


def link_them(results: Sequence[Result], output: Path, pool: Executor, bar: tqdm[Any]) -> None:
    """Link each program at -Oz, in link-time optimization, and with `mlbridge flags smallest`."""
    ways = linked.ways("full", [int(number) for number in EFFORTS.values()])
    bar.set_postfix_str("linking")

    def one(result: Result, way: str) -> linked.Linked:
        folder = output / "linked" / result.program.name / way.replace(" ", "-")
        only_test = replace(result.program, workloads=())
        return linked.build(only_test, ways[way], folder, jobs=1)

    started = [
        (result, way, pool.submit(one, result, way))
        for result in reversed(results)
        for way in LINKED.values()
    ]
    for result, way, future in started:
        result.linked[way] = future.result()
        bar.update()


def draw(found: dict[str, Any], results: Sequence[Result], output: Path, whole: bool) -> None:
    """The chart; and the page, if the report is of the whole demo."""
    evaluated = pages.evaluation.read(found, "demo")
    (output / "chart.png").write_bytes(pages.chart(evaluated, "png"))
    if whole:
        builds = []
        for result in results:
            name = result.program.name
            before, after = (output / "programs" / name / way / "objects" for way in ("oz", DRAWN))
            builds.append(
                pages.sizes.Build(name, pages.sizes.read(after), pages.sizes.read(before))
            )
        recordings = sorted(output.glob("programs/*/onnx/decisions/*.mlbrec"))
        decided = [pages.decisions.read(recordings, "the model")] if recordings else []
        pages.write(output / "report.html", [evaluated, *builds, *decided], "make demo")


def run(
    model: Path,
    names: Sequence[str] = (),
    jobs: int = 2,
    output: Path = OUTPUT,
    all_engines: bool = False,
) -> list[str]:
    """The whole demo; returns what went wrong."""
    if not model.is_file():
        raise ProgramsError(f"no model at {model}; it is shipped in models/phase-ordering-size")
    listed = [program for program in select(load(), list(names)) if program.set == "demo"]
    least = len(listed) if names else LEAST_PROGRAMS
    if len(listed) < least:
        raise ProgramsError(f"{len(listed)} programs in the demo set, expected {least}")
    agreeing = {program.name for program in listed}
    if not names and not all_engines:
        agreeing &= {*AGREEING}
    output.mkdir(parents=True, exist_ok=True)
    wanted = by_size(listed)
    results: list[Result] = []
    with (
        Sources(wanted) as sources,
        ThreadPoolExecutor(jobs) as pool,
        ModelServer(model, output / "server.log") as server,
    ):
        ways = configurations({"onnx": f"onnx:{model}", "server": server.uri})
        total = len(wanted) * (len(ways) + len(LINKED)) + len(agreeing) * len(OTHER_ENGINES)
        with tqdm(total=total, unit="build", leave=False, file=sys.stderr, disable=None) as bar:
            table = SizeTable()
            for program in fetched(sources, wanted, least):
                results.append(build(program, ways, output, sources, pool, bar))
                table.add(program.name, results[-1:])
            table.end(results)
            print_times(results)
            link_them(results, output, pool, bar)
            print_linked(results)
            chosen = [result for result in results if result.program.name in agreeing]
            ask_other_engines(chosen, model, output, pool, bar)
    results = in_order(results, listed)
    engines = agreements(results, model)
    print_agreements(engines)
    left_out = [p.name for p in listed if p not in {result.program for result in results}]
    found = report(results, engines, left_out)
    draw(found, results, output, whole=not names)
    draw_linked(results, output / "linked.png")
    if not names:
        path = output / "report.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
        write_section(path, found)
    say()
    if left_out:
        say(f"left out, because they could not be fetched: {', '.join(left_out)}")
    say(f"the server answered {server.statistics.get('replies', 0)} requests")
    pictures = "chart.png and linked.png"
    written = f"{pictures} are" if names else f"report.html, report.json, {pictures} are"
    say(f"{written} in {output}")
    return failures(results, engines)


def in_order(results: Sequence[Result], programs: Sequence[Program]) -> list[Result]:
    """As the catalog has them."""
    return sorted(results, key=lambda result: programs.index(result.program))


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="demo/run.py", description=about)
    parser.add_argument("names", nargs="*", help="only these programs (then no report.json)")
    parser.add_argument(
        "--all-engines",
        action="store_true",
        help=f"compare all engines on all programs, not only on {', '.join(AGREEING)}",
    )
    parser.add_argument("--model", type=Path, default=MODEL, help="default: the shipped policy")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    start = time.monotonic()
    try:
        wrong = run(
            options.model.resolve(),
            options.names,
            options.jobs,
            options.output,
            options.all_engines,
        )
    except ProgramsError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    say(f"{time.monotonic() - start:.0f} s")
    for text in wrong:
        print(f"demo: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
