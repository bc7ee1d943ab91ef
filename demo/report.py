# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's results as tables and JSON, and what makes them a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from result_tables import section

from demo.agreement import Agreement
from demo.measure import Build, Result
from demo.table import Say, Table, say
from mlbridge.ratio import Ratio
from mlbridge.report import charts
from mlbridge.report.page import Figure, picture
from programs.linked import problems

#: What is linked at -Oz, in link-time optimization alone and with `mlbridge flags smallest`.
LINKED = {"-Oz": "-Oz", "-flto": "-flto=full", "smallest": "effort 1", "effort 3": "effort 3"}
#: Ways that compare candidates with -Oz, and how many.
EFFORTS = {"effort1": "1", "effort3": "3"}


def interval(results: Sequence[Result], name: str) -> Ratio:
    """Bytes of a build against the -Oz build's, paired by program."""
    found = Ratio.of(r.builds[name].text / r.builds["oz"].text for r in results)
    assert found is not None, "there are results"
    return found


def linked_interval(results: Sequence[Result], way: str) -> Ratio:
    """Bytes of linked programs against those of -Oz, paired by program."""
    found = Ratio.of(r.linked[way].bytes / r.linked["-Oz"].bytes for r in results)
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
                "linked": {way: result.linked[of].bytes for way, of in LINKED.items()},
                "output_identical": result.output_identical(),
                "objects_identical": result.objects_identical(),
            }
        )
    return {
        "format": "mlbridge-demo",
        "version": 1,
        "programs": programs,
        "geomean_onnx_over_oz": ratio_mean(results, "onnx", lambda b: b.text),
        "over_oz": {way: interval(results, way).as_json() for way in ("onnx", *EFFORTS)},
        "linked_over_oz": {
            way: linked_interval(results, of).as_json()
            for way, of in LINKED.items()
            if way != "-Oz"
        },
        "engines": [engine.summary() for engine in engines],
        "left_out": list(left_out),
    }


def write_section(path: Path, found: dict[str, Any]) -> None:
    """Writes beside report.json what docs/results.md says of it."""
    texts = {"-Oz": "oz", "-O2": "o2", "onnx": "onnx", "server": "server"}
    efforts = {f"effort {number}": way for way, number in EFFORTS.items()}
    ratios = {"onnx": "onnx", **efforts}
    seconds = {"-Oz": "oz", "onnx": "onnx", "server": "server", **efforts}
    programs = [
        {"program": p["name"]}
        | {name: p[f"{way}_text"] for name, way in texts.items()}
        | {f"{n} / -Oz": f"{p[f'{w}_text'] / p['oz_text']:.4f}" for n, w in ratios.items()}
        | {f"{name} s": f"{p[f'{way}_seconds']:.2f}" for name, way in seconds.items()}
        | {"decisions": p["decisions"]}
        | {"identical": p["output_identical"] and p["objects_identical"]}
        for p in found["programs"]
    ]
    means = (
        f"{name} **{mean['mean']:.4f}** [{mean['low']:.4f}, {mean['high']:.4f}]"
        for name, mean in ((name, found["over_oz"][way]) for name, way in ratios.items())
    )
    engines = [
        {key: len(value) if isinstance(value, list) else value for key, value in engine.items()}
        for engine in found["engines"]
    ]
    section(
        path,
        "Size of real programs (`make demo`)",
        "Bytes of executable sections of each program's own objects; seconds to compile. None of"
        " these programs was seen in training. *Identical*: the program's output equals that of"
        " the -Oz build, and all engines produced the same objects. *effort N*: the smallest of"
        " -Oz and N candidates, for each object (`mlbridge flags --effort`).",
        programs,
        f"Geometric means over -Oz, with 95 % intervals: {', '.join(means)}",
        "Linked programs, executable bytes: at -Oz with --gc-sections, and linked as a whole.",
        [{"program": p["name"]} | p["linked"] for p in found["programs"]],
        "Geometric means over -Oz: "
        + ", ".join(
            f"{way} **{mean['mean']:.4f}** [{mean['low']:.4f}, {mean['high']:.4f}]"
            for way, mean in found["linked_over_oz"].items()
        ),
        "The same model by other engines; *near ties*: another action whose score is within the"
        " tolerance of the best one; *objects*: objects compared, of files for which all decisions"
        " agree.",
        engines,
    )


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
        if result.linked:
            found += [f"linked: {text}" for text in problems(name, result.linked)]
        for way in EFFORTS:
            found += [
                f"{name} {way}: {source} has more executable bytes than at -Oz"
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


def cells(
    results: Sequence[Result], ways: Sequence[str], of: Callable[[Build], float], digits: int
) -> list[str]:
    """The ratio to -Oz of each way; of several programs the geometric mean."""
    return [f"{ratio_mean(results, way, of):.{digits}f}" for way in ways]


def total(results: Sequence[Result], way: str, of: Callable[[Build], float]) -> float:
    return sum(of(result.builds[way]) for result in results)


def text(build: Build) -> float:
    return build.text


def wall(build: Build) -> float:
    return build.wall_seconds


class SizeTable:
    """Sizes and whether everything is the same: a line for each program, as soon as it is known."""

    def __init__(self, say: Say = say) -> None:
        say("Bytes of code that stock clang -Oz makes, and the others' as ratios to that;")
        say("effort N: of each object the smallest of -Oz and N candidates.")
        say("")
        compared = [(f"effort {number}", 5) for number in EFFORTS.values()]
        columns = [("program", 8), ("files", 3), ("-Oz", 7), ("-O2", 5), ("onnx", 5), ("server", 5)]
        columns += [*compared, ("decisions", 5), ("checks", 6)]
        self._table = Table(columns, say)

    def add(self, name: str, results: Sequence[Result]) -> None:
        """A program; or several, as sums and geometric means."""
        wrong = {
            "output differs": not all(result.output_identical() for result in results),
            "objects differ": not all(result.objects_identical() for result in results),
        }
        self._table.row(
            [
                name,
                total(results, "oz", lambda build: len(build.objects)),
                total(results, "oz", text),
                *cells(results, ("o2", "onnx", "server", *EFFORTS), text, 3),
                total(results, "onnx", lambda build: build.decisions),
                ", ".join(name for name, is_so in wrong.items() if is_so) or "ok",
            ]
        )

    def end(self, results: Sequence[Result]) -> None:
        self._table.rule()
        self.add("all", results)


def print_times(results: Sequence[Result], say: Say = say) -> None:
    """Seconds of compiling: a line for each program, sum and geometric means last."""
    say("")
    say("Seconds of compiling with stock clang -Oz, and the others' as ratios to that")
    say("")
    compared = [(f"effort {number}", 5) for number in EFFORTS.values()]
    columns = [("program", 8), ("-Oz", 6), ("onnx", 5), ("server", 5), *compared]
    table = Table(columns, say)
    groups = [*((result.program.name, [result]) for result in results), ("all", results)]
    for name, some in groups:
        if name == "all":
            table.rule()
        seconds = f"{total(some, 'oz', wall):.2f}"
        table.row([name, seconds, *cells(some, ("onnx", "server", *EFFORTS), wall, 2)])
    say("")
    say("Geometric means of bytes over -Oz, with 95 % intervals")
    say("")
    for way, name in {"onnx": "onnx", **{w: f"effort {n}" for w, n in EFFORTS.items()}}.items():
        say(f"{name:<8} {interval(results, way)}")


def print_linked(results: Sequence[Result], say: Say = say) -> None:
    """Bytes of linked programs: a line for each, geometric means with intervals last."""
    say("")
    say("Linked with --gc-sections: executable bytes at -Oz, and the others' as ratios to that")
    say("")
    others = list(LINKED.items())[1:]
    table = Table([("program", 8), ("-Oz", 7), *((way, 8) for way, _ in others)], say)
    for result in results:
        usual = result.linked["-Oz"].bytes
        ratios = (f"{result.linked[of].bytes / usual:.3f}" for _, of in others)
        table.row([result.program.name, usual, *ratios])
    table.rule()
    for way, of in others:
        say(f"{way:<8} {linked_interval(results, of)}")


def draw_linked(results: Sequence[Result], file: Path) -> None:
    """A bar for each program and way."""
    ways = list(LINKED)[1:]
    rows = [
        {
            "name": result.program.name,
            "way": way,
            "ratio": result.linked[LINKED[way]].bytes / result.linked["-Oz"].bytes,
        }
        for result in results
        for way in ways
    ]
    spec = charts.changes(rows, ways, "executable bytes of the linked program over -Oz, %")
    file.write_bytes(picture([Figure("Linked programs", spec)], "png"))


def print_agreements(engines: Sequence[Agreement], say: Say = say) -> None:
    """How each engine decided beside onnx, and what each near-tie was."""
    say("")
    say("Decisions beside those of onnx, and bytes of the objects whose decisions are all the same")
    say("")
    headings = ["programs", "decisions", "same", "near-ties", "different", "objects", "same bytes"]
    table = Table([("engine", 8), *((heading, 6) for heading in headings)], say)
    for e in engines:
        counts = (len(e.programs), e.decisions, e.same, len(e.near_ties()), len(e.different()))
        table.row([e.engine, *counts, e.objects, e.objects - len(e.other_objects)])
    for engine in engines:
        for one in engine.near_ties():
            say(f"near-tie, {engine.engine}: {one}")
