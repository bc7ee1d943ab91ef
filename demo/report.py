# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's results as a table, a picture and JSON, and what makes them a failure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from demo.agreement import Agreement
from demo.measure import Result

mpl.use("Agg")
import matplotlib.pyplot as plt


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean of positive numbers; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def ratio_mean(results: Sequence[Result], name: str, of: Callable[[Any], float]) -> float:
    """Geometric mean over programs of a build's value against the -Oz build's."""
    return geometric_mean(of(r.builds[name]) / of(r.builds["oz"]) for r in results)


def report(
    results: Sequence[Result], engines: Sequence[Agreement], left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """What build/demo/report.json holds."""
    return {
        "programs": [
            {
                "name": result.program.name,
                "oz_text": result.builds["oz"].text,
                "o2_text": result.builds["o2"].text,
                "onnx_text": result.builds["onnx"].text,
                "server_text": result.builds["server"].text,
                "oz_seconds": round(result.builds["oz"].wall_seconds, 3),
                "onnx_seconds": round(result.builds["onnx"].wall_seconds, 3),
                "server_seconds": round(result.builds["server"].wall_seconds, 3),
                "decisions": result.builds["onnx"].decisions,
                "output_identical": result.output_identical(),
                "objects_identical": result.objects_identical(),
            }
            for result in results
        ],
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


def print_table(results: Sequence[Result], console: Console) -> None:
    """One line for each program, geometric means last."""
    table = Table(title="Executable bytes and compile time against stock clang -Oz")
    for heading in (
        "program", "files", "-Oz bytes", "-O2", "onnx bytes", "onnx", "server",
        "-Oz s", "onnx s", "server s", "decisions", "output", "objects",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "program" else "right")
    for result in results:
        oz, o2 = result.builds["oz"], result.builds["o2"]
        onnx, server = result.builds["onnx"], result.builds["server"]
        table.add_row(
            result.program.name,
            str(len(oz.objects)),
            f"{oz.text}",
            f"{o2.text / oz.text:.3f}",
            f"{onnx.text}",
            f"{onnx.text / oz.text:.3f}",
            f"{server.text / oz.text:.3f}",
            f"{oz.wall_seconds:.2f}",
            f"{onnx.wall_seconds:.2f}",
            f"{server.wall_seconds:.2f}",
            str(onnx.decisions),
            "same" if result.output_identical() else "DIFFERS",
            "same" if result.objects_identical() else "DIFFER",
        )
    table.add_section()
    table.add_row(
        "all",
        str(sum(len(r.builds["oz"].objects) for r in results)),
        str(sum(r.builds["oz"].text for r in results)),
        f"{ratio_mean(results, 'o2', lambda b: b.text):.3f}",
        str(sum(r.builds["onnx"].text for r in results)),
        f"{ratio_mean(results, 'onnx', lambda b: b.text):.3f}",
        f"{ratio_mean(results, 'server', lambda b: b.text):.3f}",
        f"{sum(r.builds['oz'].wall_seconds for r in results):.1f}",
        f"{ratio_mean(results, 'onnx', lambda b: b.wall_seconds):.2f} x",
        f"{ratio_mean(results, 'server', lambda b: b.wall_seconds):.2f} x",
        str(sum(r.builds["onnx"].decisions for r in results)),
    )
    console.print(table)
    console.print(
        "bytes: executable sections of the program's own objects; -O2, onnx, server: bytes against "
        "-Oz; s: wall seconds of compiling.\nLast line: sums, and geometric means of the ratios.",
        highlight=False,
    )


def print_agreements(engines: Sequence[Agreement], console: Console) -> None:
    """How each engine decided beside onnx, and what each near-tie was."""
    table = Table(title="Decisions beside those of onnx")
    for heading in (
        "engine",
        "decisions",
        "same",
        "near-ties",
        "different",
        "objects",
        "same bytes",
    ):
        table.add_column(heading, justify="left" if heading == "engine" else "right")
    for engine in engines:
        counts = (engine.decisions, engine.same, len(engine.near_ties()), len(engine.different()))
        objects = (engine.objects, engine.objects - len(engine.other_objects))
        table.add_row(engine.engine, *map(str, counts + objects))
    console.print(table)
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
    temporary = path.with_suffix(".tmp.png")
    figure.savefig(temporary, dpi=130)
    plt.close(figure)
    temporary.replace(path)


def write_json(value: Any, path: Path) -> None:
    """Write `value` so that the file is never seen half written."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.replace(path)
