# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge validate`: builds with and without a model, compared in a table, a chart, a report."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from .. import files
from ..optimizations import LEVELS, OPTIMIZATIONS
from ..outputs import write_whole
from ..spills import RECORD
from ..trials import Needs, Options
from .arguments import Parser, number_from_one, positive_seconds
from .command_line import stock_words, words
from .common import (
    DONE,
    FAILED,
    Interrupted,
    UsageError,
    must_be_writable,
    printable,
    table,
    warning,
)
from .flags import quoted
from .models import must_open
from .probe import compiler_file, must_ask
from .request import COMBINATIONS, Request, add_models, default_of, request_of

if TYPE_CHECKING:
    from ..ratio import Ratio
    from ..validation import Comparison, Report, Variant

MOST_GROWN = 5
WIDEST = 60


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge validate`."""
    parser.describe(
        """\
Builds a source tree with a plain compiler and with one that asks a model, in copies of the tree and
in turns; runs commands in both; compares outputs, executable bytes of the object files (with --lto,
of what was linked), compile time and run time and, for register allocation, what is spilled, with
95 % confidence intervals.
Exits with 1 if a build or command fails, if an output differs, or if the model is not asked or
fails.""",
        """\
COMMAND builds a tree. It is told the compiler by $CC and $CXX, and the level by $CFLAGS and
$CXXFLAGS. One word is run by the shell: -- 'make CC="$CC"'. Without options of its own it needs no
--. There is nothing to compare of mlir-tiling, which is for mlir-opt.

example:
  mlbridge validate phase-ordering --run './prog < input' --json report.json -- make -j2
  mlbridge validate phase-ordering --tree a --tree b --prepare ./configure -- make
  mlbridge validate register-allocation --level O3 --run ./bench -- make""",
    )
    parser.takes_command = True
    parser.usage = "mlbridge validate optimization [...] [OPTION ...] -- COMMAND ..."
    add_models(parser)
    parser.option("--tree DIR ...", "a source tree (default: .); each is built the same way")
    parser.option("--prepare COMMAND", "run before the build, not measured: ./configure")
    parser.option(
        "--level", f"the -O level (default: {default_of(lambda one: one.level)})", choices=LEVELS
    )
    parser.option("--run COMMAND ...", "run in each built tree, its output compared")
    parser.option("--output FILE ...", "a file that the commands write, to be compared")
    parser.option(
        "--repeat N", "build and run so often (default: 3)", type=number_from_one, default=3
    )
    parser.option(
        "--timeout TIME",
        "the most for a build or command: 90s (default: 10m)",
        type=positive_seconds,
        default=600.0,
    )
    parser.option(
        "--time TIME",
        "compare the processor time of each command for so long, in many pairs of runs: 40s",
        type=positive_seconds,
        default=0.0,
    )
    parser.option("--work DIR", "keep the copies here (default: a temporary folder, removed)")
    parser.option(
        "--ray ADDRESS",
        "a Ray cluster that is running: each tree is sent to one of its nodes, and built there",
    )
    parser.option("--json FILE", "write a report")
    parser.option("--chart FILE", "draw a chart: chart.png, chart.svg, …")
    parser.option("--report FILE", "write a page that also has the sizes of functions: report.html")


def optimizations_and_build(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The parts of the command line; without -- the build begins after the optimizations."""
    names, build = options.optimizations, options.build
    if not build:
        allowed = {*OPTIMIZATIONS, *COMBINATIONS}
        begin = next((i for i, word in enumerate(names) if word not in allowed), len(names))
        names, build = names[: max(begin, 1)], names[max(begin, 1) :]
    if not build and names[0] in {*OPTIMIZATIONS, *COMBINATIONS}:
        raise UsageError(
            "the following arguments are required: COMMAND, which builds a tree, such as -- make"
        )
    known = [name for name, one in OPTIMIZATIONS.items() if one.levels]
    for name in names:
        if name in OPTIMIZATIONS and name not in known:
            raise UsageError(
                f"{name} has no builds of programs to compare: it is for"
                f" {OPTIMIZATIONS[name].command()}; the others are {', '.join(known)}"
            )
    return names, build


def is_never_larger(request: Request) -> bool:
    """True if no object may be larger. Others than phase ordering act after what it measures."""
    return all(query.effort and query.optimization.candidates for query in request.queries)


def ways(request: Request) -> tuple[Variant, Variant]:
    """The builds that are compared: the baseline's and the policy's."""
    from .. import validation

    def line(logs: Path | None) -> list[str]:
        logged = request._replace(log=os.path.abspath(logs) if logs else None)
        return [quoted(word) for word in words(logged)]

    stock = replace(validation.PLAIN, flags=lambda _: nullcontext(stock_words(request)))
    if all(query.optimization.takes("log") for query in request.queries):
        return stock, validation.Variant("policy", lambda logs: nullcontext(line(logs)))
    allocates = any(query.optimization.allocates for query in request.queries)
    records = RECORD if allocates else ()
    return (  # recordings take time, so they aren't written where time is measured
        replace(stock, counts=lambda _: nullcontext([*stock_words(request), *records])),
        validation.Variant(
            "policy",
            lambda _: nullcontext(line(None)),
            counts=lambda logs: nullcontext([*line(logs), *records]),
        ),
    )


def nodes_of(options: argparse.Namespace, request: Request) -> Options | None:
    """How programs are compared on the nodes of a cluster, if they are."""
    if not options.ray:
        return None
    uris = [uri for query in request.queries for uri in query.uris]
    models = [file_of(uri) for uri in uris if ":" in uri]
    needed = [query.plugin for query in request.queries] + models
    return Options(
        cluster=options.ray,
        needs=Needs(
            programs=(compiler_file(request), "tar"),
            files=[*dict.fromkeys(file for file in needed if file and Path(file).is_file())],
        ),
        warned=warning("validate"),
    )


def file_of(uri: str) -> str:
    """The file that a URI names, if it names one."""
    return uri.partition(":")[2].partition("?")[0]


def run(options: argparse.Namespace) -> int:
    """Build, run, compare, and print."""
    from .. import validation, validation_nodes

    if options.output and not options.run:
        raise UsageError("--output is a file that a command writes; add --run COMMAND")
    if options.time and not options.run:
        raise UsageError("--time compares the times of commands; add --run COMMAND")
    if options.ray and (options.work or options.report):
        stated = "--work" if options.work else "--report"
        raise UsageError(f"{stated} needs the copies of the trees, which --ray has on its nodes")
    options.optimizations, words_of_build = optimizations_and_build(options)
    request = request_of(options, files.onnx_runtime())
    compiler = compiler_file(request)
    level = options.level or request.queries[0].optimization.level
    # Only a log of the plugin's own says what failed; without one a failure fails the build.
    has_logs = all(query.optimization.takes("log") for query in request.queries)
    request = request._replace(levels=level, on_failure=None if has_logs else "fail")
    for query in request.queries:
        for uri in query.uris:
            must_open(uri)
    must_ask(request)
    if options.chart or options.report:
        from .. import report as reporting

        reporting.library()  # fails before all work, not after it
        if options.chart and Path(options.chart).suffix[1:] not in reporting.PICTURES:
            endings = ", ".join(f".{name}" for name in reporting.PICTURES)
            raise UsageError(f"--chart: {options.chart} ends in none of {endings}")
    must_be_writable(json=options.json, chart=options.chart, report=options.report)

    build = words_of_build[0] if len(words_of_build) == 1 else shlex.join(words_of_build)
    trees = [Path(tree).resolve() for tree in options.tree or ["."]]
    programs = [
        validation.Program(
            name=tree.name,
            tree=tree,
            build=build,
            prepare=options.prepare or "",
            runs=tuple(options.run),
            outputs=tuple(options.output),
            cflags=f"-{level}",
            linked=request.lto is not None,
        )
        for tree in trees
    ]
    nodes = nodes_of(options, request)
    baseline, policy = ways(request)
    total = validation.steps(programs, options.repeat, not has_logs, bool(options.time))
    try:
        asked: dict[str, Any] = {
            # A compiler that is found by its name may look at how it is called.
            "compiler": compiler if os.sep in request.compiler else request.compiler,
            "repeat": options.repeat,
            "timeout": options.timeout,
            "never_larger": is_never_larger(request),
            "baseline": baseline,
            "time": options.time,
        }
        more: list[Any] = []
        if nodes:
            report = validation_nodes.validate(programs, policy, nodes, **asked)
        else:
            with folder(options.work) as work, progress(total) as done:
                report = validation.validate(programs, policy, work, progress=done, **asked)
                more = reporting.of_validation(work) if options.report else []
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
    show(report)
    found: dict[str, Any] = {
        "models": {query.optimization.name: query.uri for query in request.queries},
        "level": level,
        "lto": request.lto,
        "effort": max(query.effort for query in request.queries),
        "compiler": compiler,
        "repeat": options.repeat,
    }
    found |= report.as_json()
    if options.json:
        write_whole(options.json, json.dumps(found, indent=1).encode() + b"\n")
    if options.chart or options.report:
        evaluated = reporting.evaluation.read(found, "policy")
    if options.chart:
        write_whole(options.chart, reporting.chart(evaluated, Path(options.chart).suffix[1:]))
    if options.report:
        title = f"{', '.join(options.optimizations)}: {' '.join(one.name for one in programs)}"
        reporting.write(options.report, [evaluated, *more], title)
    for text in report.problems:
        print(f"mlbridge validate: {printable(text)}", file=sys.stderr)
    return FAILED if report.problems else DONE


@contextlib.contextmanager
def folder(stated: str | None) -> Iterator[Path]:
    """The folder for copies; a temporary one is removed, also after Ctrl-C and SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if stated is not None:
            yield Path(stated)
            return
        with tempfile.TemporaryDirectory(
            prefix="mlbridge-validate-", ignore_cleanup_errors=True
        ) as temporary:
            yield Path(temporary)
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, if tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda _: None
        return
    with tqdm(total=total, unit="step", disable=None, leave=False) as bar:

        def done(text: str) -> None:
            bar.set_postfix_str(printable(text), refresh=False)
            bar.update()

        yield done


def cell(ratio: Ratio | None) -> str:
    return "-" if ratio is None else str(ratio)


def show(report: Report) -> None:
    """The tables."""
    rows = [row(one) for one in report.programs if one.compared]
    if len(rows) > 1:
        rows.append(["all", *[""] * 4, cell(report.size), "", cell(report.compile_time)])
    if not rows:
        return
    unit = "linked" if report.programs[0].program.linked else "objects"
    head = f"program {unit} same baseline policy size decisions compile-time".split()
    table(head, rows, left=("program",))
    spilling = [one for one in report.programs if one.compared and one.spills]
    if spilling:
        print()
        table(
            ["program", "baseline", "policy", "spills"],
            [
                [one.program.name, *(f"{cost:.1f}" for cost in one.spills), cell(one.spill_ratio)]
                for one in spilling
                if one.spills
            ],
            left=("program",),
        )
    runs = [(one, ran) for one in report.programs for ran in one.runs]
    if runs:
        print()
        table(
            ["command", "exit", "output", "baseline s", "policy s", "run-time"],
            [
                [
                    report.named(one, ran.command)[:WIDEST],
                    str(ran.code),
                    "WRONG" if ran.problem else "same",
                    *(
                        f"{median(seconds):.3f}" if seconds else "-"
                        for seconds in (ran.baseline_seconds, ran.policy_seconds)
                    ),
                    cell(ran.ratio),
                ]
                for one, ran in runs
            ],
            left=("command",),
        )
    show_timings(report)
    print()
    grown = sorted(
        ((ratio, one, path) for one in report.programs for path, ratio in one.ratios.items()),
        key=lambda item: -item[0],
    )
    for ratio, one, path in grown[:MOST_GROWN]:
        if ratio > 1:
            sizes = [built[0].objects[path].bytes for built in (one.baseline, one.policy)]
            where = printable(report.named(one, path))
            print(f"grew: {where} {sizes[0]} -> {sizes[1]} executable bytes, {ratio:.3f} x")
    for one in report.programs:
        for note in one.notes():
            print(f"note: {one.program.name}: {printable(note)}")
    unit = "linked files" if unit == "linked" else unit
    unit += "" if len(report.programs) == 1 else ", in the last line programs"
    print(
        f"size: executable bytes, policy / baseline, geometric mean over {unit}; times: of pairs;"
        " [95 % confidence]"
    )
    if spilling:
        print(
            "spills: spills, reloads and copies for each call of each function, as LLVM estimates"
            " them, policy / baseline, geometric mean over files"
        )


def show_timings(report: Report) -> None:
    """The table of what the clock has compared."""
    from ..ratio import Ratio

    timed = [(one, ran) for one in report.programs for ran in one.runs if ran.timing and ran.ratio]
    rows = [
        [
            report.named(one, ran.command)[:WIDEST],
            *(f"{1000 * seconds:.2f}" for seconds in ran.timing.seconds.values()),
            cell(ran.ratio),
            str(ran.timing.repeat),
            str(ran.ratio.count),
        ]
        for one, ran in timed
        if ran.timing and ran.ratio
    ]
    if not rows:
        return
    if len(rows) > 1:
        mean = Ratio.of(ran.ratio.mean for _, ran in timed if ran.ratio)
        rows.append(["all", "", "", cell(mean), "", ""])
    print()
    table(
        ["timed", "baseline ms", "policy ms", "time", "baseline / baseline", "pairs"],
        rows,
        left=("timed",),
    )


def row(one: Comparison) -> list[str]:
    """A program's line of the table."""
    plain, asked = one.baseline[0], one.policy[0]
    return [
        one.program.name,
        str(len(plain.objects)),
        str(one.identical()),
        str(plain.bytes),
        str(asked.bytes),
        cell(one.size),
        str(one.decisions.made),
        cell(one.compile_time),
    ]
