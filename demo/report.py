# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's results as a table, a picture and JSON, and what makes them a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from demo.agreement import Agreement
from demo.measure import Build, Result
from mlbridge.measuring import Ratio

mpl.use("Agg")
import matplotlib.pyplot as plt

#: Ways that compare candidates with -Oz, and how many.
EFFORTS = {"effort1": "1", "effort3": "3"}


def interval(results: Sequence[Result], name: str) -> Ratio:
    """Bytes of a build against the -Oz build's, paired by program."""
    found = Ratio.of(r.builds[name].text / r.builds["oz"].text for r in results)
    assert found is not None, "there are results"
    return found


def ratio_mean(results: Sequence[Result], name: str, of: Callable[[Build], float]) -> float:
    """Geometric mean over programs of a build's value against the -Oz build's."""
    return geometric_mean(of(r.builds[name]) / of(r.builds["oz"]) for r in results)


def report(
    results: Sequence[Result], engines: Sequence[Agreement], left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """What build/demo/report.json holds."""
    programs = []
    for result in results:
        builds = result.builds
        ways = ("oz", "o2", "onnx", "server", *EFFORTS)
        texts = {f"{way}_text": builds[way].text for way in ways}
        seconds = {
            f"{way}_seconds": round(builds[way].wall_seconds, 3) for way in ways if way != "o2"
        }
        programs.append(
            {
                "name": result.program.name,
                **texts,
                **seconds,
                "decisions": builds["onnx"].decisions,
                "output_identical": result.output_identical(),
                "objects_identical": result.objects_identical(),
            }
        )
    return {
        "programs": programs,
        "geomean_onnx_over_oz": ratio_mean(results, "onnx", lambda b: b.text),
        "over_oz": {way: interval(results, way).as_json() for way in ("onnx", *EFFORTS)},
        "engines": [engine.summary() for engine in engines],
        "left_out": list(left_out),
    }


def failures(results: Sequence[Result], engines: Sequence[Agreement]) -> list[str]:
    """Everything that must not be: each makes the demo exit with 1."""
    found: list[str] = []
    for result in results:
        name = result.program.name
        for configuration, build in result.builds.items():
            if build.failure:
                found.append(f"{name} {configuration}: {build.failure}")
            elif build.output != result.builds["oz"].output:
                found.append(f"{name} {configuration}: its output differs from the -Oz build's")
            found += [f"{name} {configuration}: fell back: {text}" for text in build.fallbacks]
            if build.actions is not None and build.decisions == 0:
                found.append(f"{name} {configuration}: the model made no decision")
        for way in EFFORTS:
            found += [
                f"{name} {way}: {source} is larger than at -Oz"
                for source, size in result.builds[way].sizes.items()
                if size > result.builds["oz"].sizes[source]
            ]
    for engine in engines:
        found += [f"{engine.engine} decided differently: {one}" for one in engine.different()]
        found += [
            f"{engine.engine} decided as onnx, but the object differs: {where}"
            for where in engine.other_objects
        ]
    mean = ratio_mean(results, "onnx", lambda b: b.text)
    if not mean <= 1.0:
        found.append(f"executable bytes are {mean:.4f} x -Oz in geometric mean, expected <= 1.00")
    return found


def print_columns(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[object]], console: Console
) -> None:
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="right" if table.columns else "left")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def print_table(results: Sequence[Result], console: Console) -> None:
    """Sizes, then times: a line for each program, sums and geometric means last."""
    groups = [*((r.program.name, [r]) for r in results), ("all", list(results))]

    def total(some: Sequence[Result], way: str, of: Callable[[Build], float]) -> float:
        return sum(of(result.builds[way]) for result in some)

    def ratios(
        some: Sequence[Result], ways: Sequence[str], of: Callable[[Build], float], digits: int
    ) -> list[str]:
        return [f"{ratio_mean(some, way, of):.{digits}f}" for way in ways]

    def text(build: Build) -> float:
        return build.text

    def wall(build: Build) -> float:
        return build.wall_seconds

    compared = [f"effort {number}" for number in EFFORTS.values()]
    sizes = [
        [
            name,
            total(some, "oz", lambda b: len(b.objects)),
            total(some, "oz", text),
            *ratios(some, ("o2", "onnx", "server", *EFFORTS), text, 3),
            total(some, "onnx", lambda b: b.decisions),
            "same" if all(result.output_identical() for result in some) else "DIFFERS",
            "same" if all(result.objects_identical() for result in some) else "DIFFER",
        ]
        for name, some in groups
    ]
    headings = ["program", "files", "-Oz bytes", "-O2", "onnx", "server", *compared]
    headings += ["decisions", "output", "objects"]
    print_columns("Executable bytes against stock clang -Oz", headings, sizes, console)
    times = [
        [
            name,
            f"{total(some, 'oz', wall):.2f}",
            *ratios(some, ("onnx", "server", *EFFORTS), wall, 2),
        ]
        for name, some in groups
    ]
    headings = ["program", "-Oz s", "onnx", "server", *compared]
    print_columns("Compile time against stock clang -Oz", headings, times, console)
    means = ", ".join(f"{way} {interval(results, way)}" for way in ("onnx", *EFFORTS))
    console.print(
        "bytes: executable sections of the program's own objects; s: wall seconds of compiling; the"
        " rest: ratios.\neffort N: the smallest of -Oz and N candidates, for each object. Last"
        f" line: sums, and geometric means.\nBytes over -Oz, with 95 % intervals: {means}",
        highlight=False,
    )


def print_agreements(engines: Sequence[Agreement], console: Console) -> None:
    """How each engine decided beside onnx, and what each near-tie was."""
    headings = ["engine", "decisions", "same", "near-ties", "different", "objects", "same bytes"]
    rows = []
    for e in engines:
        counts = (e.decisions, e.same, len(e.near_ties()), len(e.different()))
        rows.append([e.engine, *counts, e.objects, e.objects - len(e.other_objects)])
    print_columns("Decisions beside those of onnx", headings, rows, console)
    console.print(
        "near-ties: another action, whose score is within the tolerance of the best; the rest of"
        " that module isn't compared.\nobjects: of the modules decided the same.",
        highlight=False,
    )
    for engine in engines:
        for one in engine.near_ties():
            console.print(f"near-tie, {engine.engine}: {one}", soft_wrap=True, highlight=False)


def draw_chart(results: Sequence[Result], path: Path) -> None:
    """Bytes and compile time relative to -Oz, program by program."""
    names = [result.program.name for result in results] + ["geometric mean"]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
    ways = {"onnx": "the model believed", "effort1": "effort 1", "effort3": "effort 3"}
    for place, (way, label) in enumerate(ways.items()):
        ratios = [r.builds[way].text / r.builds["oz"].text for r in results]
        mean = interval(results, way)
        known = len(ratios) > 1
        ends = (mean.mean - mean.low, mean.high - mean.mean) if known else (0.0, 0.0)
        top.bar(
            [index + 0.27 * (place - 1) for index in range(len(names))],
            [100 * (value - 1) for value in [*ratios, mean.mean]],
            0.26,
            yerr=[[0.0] * len(ratios) + [100 * end] for end in ends],
            error_kw={"linewidth": 0.8},
            label=f"{label}: {100 * (mean.mean - 1):+.1f} %",
        )
    top.axhline(0, color="black", linewidth=0.8)
    top.margins(y=0.15)
    top.set_ylabel("executable bytes,\n% against -Oz")
    top.legend(loc="lower left", ncols=3, fontsize=8)
    top.set_title(
        "Stock clang -Oz with the model, and with candidates compared (held-out programs)"
    )
    timed = {"onnx": "in process", "server": "Python server"}
    timed |= {way: ways[way] for way in EFFORTS}
    for place, (name, label) in enumerate(timed.items()):
        times = [r.builds[name].wall_seconds / r.builds["oz"].wall_seconds for r in results]
        times.append(geometric_mean(times))
        at = [index + 0.2 * (place - 1.5) for index in range(len(names))]
        bottom.bar(at, times, 0.19, label=label)
    bottom.axhline(1, color="black", linewidth=0.8)
    bottom.set_ylabel("compile time,\n× -Oz")
    bottom.margins(y=0.25)
    bottom.legend(loc="upper left", ncols=4, fontsize=8)
    bottom.set_xticks(range(len(names)), names, rotation=35, ha="right")
    figure.savefig(path, dpi=130)
    plt.close(figure)
