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

mpl.use("Agg")
import matplotlib.pyplot as plt


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
        texts = {f"{way}_text": builds[way].text for way in ("oz", "o2", "onnx", "server")}
        seconds = {
            f"{way}_seconds": round(builds[way].wall_seconds, 3) for way in ("oz", "onnx", "server")
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
    """One line for each program, sums and geometric means last."""

    def row(name: str, some: Sequence[Result]) -> list[object]:
        def total(way: str, of: Callable[[Build], float]) -> float:
            return sum(of(result.builds[way]) for result in some)

        return [
            name,
            total("oz", lambda b: len(b.objects)),
            total("oz", lambda b: b.text),
            f"{ratio_mean(some, 'o2', lambda b: b.text):.3f}",
            total("onnx", lambda b: b.text),
            *(f"{ratio_mean(some, way, lambda b: b.text):.3f}" for way in ("onnx", "server")),
            f"{total('oz', lambda b: b.wall_seconds):.2f}",
            *(
                f"{ratio_mean(some, way, lambda b: b.wall_seconds):.2f}"
                for way in ("onnx", "server")
            ),
            total("onnx", lambda b: b.decisions),
            "same" if all(result.output_identical() for result in some) else "DIFFERS",
            "same" if all(result.objects_identical() for result in some) else "DIFFER",
        ]

    headings = ["program", "files", "-Oz bytes", "-O2", "onnx bytes", "onnx", "server", "-Oz s"]
    headings += ["onnx time", "server time", "decisions", "output", "objects"]
    rows = [row(result.program.name, [result]) for result in results]
    title = "Executable bytes and compile time against stock clang -Oz"
    print_columns(title, headings, [*rows, row("all", results)], console)
    console.print(
        "bytes: executable sections of the program's own objects; s: wall seconds of compiling; the"
        " rest: bytes and time against -Oz.\nLast line: sums, and geometric means of the ratios.",
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
    size = [r.builds["onnx"].text / r.builds["oz"].text for r in results]
    size.append(geometric_mean(size))
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
    colors = ["tab:green" if value <= 1 else "tab:red" for value in size]
    bars = top.bar(names, [100 * (value - 1) for value in size], color=colors)
    top.bar_label(bars, fmt="%+.1f", padding=2, fontsize=8)
    top.axhline(0, color="black", linewidth=0.8)
    top.margins(y=0.15)
    top.set_ylabel("executable bytes,\n% against -Oz")
    top.set_title("Stock clang -Oz, its middle end ordered by the model (held-out programs)")
    for offset, name, label in ((-0.2, "onnx", "in process"), (0.2, "server", "Python server")):
        times = [r.builds[name].wall_seconds / r.builds["oz"].wall_seconds for r in results]
        times.append(geometric_mean(times))
        bottom.bar([index + offset for index in range(len(names))], times, 0.38, label=label)
    bottom.axhline(1, color="black", linewidth=0.8)
    bottom.set_ylabel("compile time,\n× -Oz")
    bottom.margins(y=0.25)
    bottom.legend(loc="upper left", ncols=2, fontsize=8)
    bottom.set_xticks(range(len(names)), names, rotation=35, ha="right")
    figure.savefig(path, dpi=130)
    plt.close(figure)
