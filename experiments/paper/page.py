# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/evaluation.md: the paper's tables and figures beside what was measured here.

The published figures are those of "The Next 700 ML-Enabled Compiler Optimizations" (CC 2024),
Sections 5 and 6, and of the talk "ML-LLVM-Tools" (EuroLLVM 2023).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from result_tables import table

from experiments.paper.characteristics import RUNNERS
from mlbridge.outputs import write_whole
from mlbridge.report import charts
from mlbridge.report.page import Figure, picture

Reports = Mapping[str, dict[str, Any]]
Rows = list[dict[str, Any]]

#: Milliseconds of the sweep of Section 5.3 by runner.
SWEEPS = {
    "onnx": 68,
    "aot": 21,  # TensorFlow's
    "pipe, bitstream": 772,
    "pipe, json": 3154,
    "grpc, protobuf": 5948,
}


#: RLlib's modules over gRPC, in the report of the step allocation.
RLLIB = "grpc, RLlib"
#: The environment that generates code once.
ENDING = "environment, rewards at the end"


def over(value: float, floor: float, digits: int = 2) -> str:
    return f"{value / floor:.{digits}f} ×"


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))


class Page:
    """What is written, and the pictures beside it."""

    def __init__(self, target: Path, reports: Reports) -> None:
        self.target, self.reports = target, reports
        self.parts: list[str] = []

    def text(self, *paragraphs: str) -> None:
        self.parts += paragraphs

    def rows(self, rows: Rows) -> None:
        self.parts.append(table(rows))

    def chart(self, name: str, caption: str, spec: charts.Spec) -> None:
        """A picture in the folder of the page."""
        path = self.target.with_name(f"evaluation-{name}.png")
        write_whole(path, picture([Figure(caption, spec)], "png"))
        self.parts.append(f"![{caption}]({path.name})")

    def section(self, title: str, step: str, why: str, write: Callable[[Page, Any], None]) -> None:
        """A table or figure of the paper, from the report of a step; `why` says what differs."""
        self.parts.append(f"## {title}")
        report = self.reports.get(step)
        if report is None:
            self.parts.append(f"Not measured: `make paper ARGS='--only {step}'`.")
            return
        minutes = max(1, round(report["seconds"] / 60))
        self.parts.append(
            f"Measured {report['when']} at `{report['commit']}` on {report['machine']}, in"
            f" {minutes} min with a load of {report['load']}: `{report['command']}`."
        )
        try:
            write(self, report["found"])
        except KeyError as missing:
            self.parts.append(f"That report has no {missing}: `make paper ARGS='--only {step}'`.")
        self.parts.append(f"*What differs from the paper.* {why}")


def deployment(page: Page, found: Any) -> None:
    seconds = {row["way"]: row["seconds"] for row in found["ways"]}
    slow = seconds["a process each"]
    published = {
        "a process each": (5829, 10342),
        "grpc": (1318, 1221),
        "pipe, json": (1236, 1141),
        "pipe, bitstream": (1227, 1132),
        "onnx": (1140, 1093),
    }
    rows = []
    for way, taken in seconds.items():
        of_paper = published.get(way)
        rows.append(
            {
                "way": way,
                "seconds": taken,
                "times as fast as a process each": over(slow, taken),
                "published, SPEC 2006": of_paper and over(5829, of_paper[0]),
                "published, SPEC 2017": of_paper and over(10342, of_paper[1]),
            }
        )
    page.rows(rows)
    page.text(
        f"{found['modules']} modules, {found['steps']} decisions, the same in every way. In process"
        f" a compilation takes {over(seconds['onnx'], seconds['stock -Oz'])} of stock `-Oz` with"
        f" ONNX Runtime and {over(seconds['native'], seconds['stock -Oz'])} with the native engine."
    )


def figure_6(page: Page, found: Any) -> None:
    programs = found["programs"]
    gyms = {"a reward each step": "environment", "a reward at the end": ENDING}
    rows = [
        {"name": name, "way": gym, "value": ways[environment] / ways["onnx"]}
        for name, ways in programs.items()
        for gym, environment in gyms.items()
    ]
    spec = charts.points(rows, list(gyms), "times as fast as the environment")
    page.chart("figure-6", "Compile time of a gym's policy in process, by program", spec)
    by = {gym: [row["value"] for row in rows if row["way"] == gym] for gym in gyms}
    each, last = by.values()
    page.text(
        "Published: 2 to 13 times as fast as CompilerGym. Here, by ONNX Runtime in process:"
        f" {min(each):.1f} to {max(each):.1f} times as fast as the environment with a reward at"
        f" each step, geometric mean {mean(each):.1f}; {min(last):.1f} to {max(last):.1f}, mean"
        f" {mean(last):.1f}, with one at the end, which a deployed policy would do with."
    )


def threads(page: Page, found: Any) -> None:
    seconds = found["seconds"]
    counts = list(seconds["stock"])
    rows: Rows = []
    for way, by in seconds.items():
        row: dict[str, Any] = {"way": way}
        row |= {f"{count} thread" + "s" * (count != "1"): by[count] for count in counts}
        row["2 over 1"] = over(by["1"], by["2"]) if "2" in by else None
        rows.append(row)
    page.rows(rows)
    page.text("Published, in seconds:")
    page.rows(
        [
            {"way": "inliner, TensorFlow", "1": 596, "2": 501, "4": 361, "8": 307},
            {"way": "RL4ReAl, ONNX", "1": 291, "2": 257, "4": 248, "8": 248},
            {"way": "RL4ReAl, gRPC", "1": 5572, "2": None, "4": None, "8": None},
        ]
    )
    listed = ", ".join(f"{name} ({count})" for name, count in found["programs"].items())
    page.text(f"Programs, with the number of their modules: {listed}.")


def allocation(page: Page, found: Any) -> None:
    rows = []
    for name, ways in found.items():
        rows.append(
            {
                "program": name,
                "files": ways["files"],
                "stock s": ways["stock"]["whole"],
                "gRPC to RLlib s": ways[RLLIB]["whole"],
                "gRPC to native s": ways["grpc"]["whole"],
                "onnx s": ways["onnx"]["whole"],
                "native s": ways["native"]["whole"],
                "RLlib / onnx": over(ways[RLLIB]["whole"], ways["onnx"]["whole"]),
                "RLlib / native": over(ways[RLLIB]["whole"], ways["native"]["whole"]),
                "asking, RLlib / onnx": over(ways[RLLIB]["asking"], ways["onnx"]["asking"], 1),
                "asking, gRPC / native": over(ways["grpc"]["asking"], ways["native"]["asking"], 1),
            }
        )
    page.rows(rows)

    def ratio(part: str, one: str, other: str) -> float:
        return mean(ways[one][part] / ways[other][part] for ways in found.values())

    page.text(
        "Geometric means of the programs: asking RLlib's modules over gRPC, as the original does,"
        f" takes {ratio('asking', RLLIB, 'onnx'):.1f} times as long as asking the same networks by"
        " ONNX Runtime in process, and"
        f" {ratio('asking', RLLIB, 'native'):.1f} times as long as by the native engine; the whole"
        f" compilation {ratio('whole', RLLIB, 'onnx'):.2f} and"
        f" {ratio('whole', RLLIB, 'native'):.2f} times. Over gRPC to a server in which the native"
        f" engine answers, asking takes {ratio('asking', 'grpc', 'native'):.1f} times as long as in"
        f" process, and the whole compilation {ratio('whole', 'grpc', 'native'):.2f} times."
        " Published: 12.4 times in total, 2 to 40 by program (talk), 19 and 22.4 times with one and"
        " eight threads (paper)."
    )


def clients(page: Page, found: Any) -> None:
    across: dict[str, dict[str, Any]] = {}
    for row in found:
        across.setdefault(row["runner"], {})[row["client"]] = row["ms"]
    rows = []
    for runner, by in across.items():
        published = SWEEPS.get(runner)
        rows.append(
            {
                "runner": runner,
                **{f"{client} ms": by.get(client) for client in ("C++", "C", "mlir-opt")},
                "2024's classes ms": by.get("2024's classes"),
                "published ms": published,
                "times as fast as published": published and over(published, by["C++"], 1),
            }
        )
    page.rows(rows)
    points = [
        {"name": row["runner"], "way": row["client"], "value": row["ms"]} for row in found
    ] + [{"name": name, "way": "published", "value": ms} for name, ms in SWEEPS.items()]
    ways = list(dict.fromkeys(point["way"] for point in points))
    spec = charts.points(points, ways, "milliseconds of 100 queries of 500 to 50 000 floats")
    page.chart("figure-5c", "Round trips by runner and client", spec)


def waits(page: Page, found: Any) -> None:
    rows = [
        {
            "client": row["client"],
            "runner": row["runner"],
            "µs": row["µs"],
            "a bare program µs": row["floor µs"],
        }
        for row in found["questions"]
    ]
    page.rows(rows)


def training_time(page: Page, found: Any) -> None:
    rates, steps = found["rates"], found["steps"]
    slow = rates["a process each"]
    page.rows(
        [
            {
                "way": way,
                f"seconds for {steps} steps": round(steps / rate, 1),
                "steps a second": rate,
                "times as fast as a process each": over(rate, slow),
            }
            for way, rate in rates.items()
        ]
    )
    page.text(
        "Published, for 500 iterations: about 10 000 s with a process each, 5 700 s over gRPC,"
        " 5 500 s over pipes: 1.8 times as fast."
    )
    rows = [
        {"way": way, "steps": at, "seconds": seconds}
        for way, curve in found["curves"].items()
        for at, seconds in curve
    ]
    ways = list(found["curves"])
    spec = charts.view(
        rows,
        height=260,
        mark={"type": "line", "strokeWidth": 2},
        encoding={
            "x": charts.field("steps", "quantitative", "steps"),
            "y": charts.field("seconds", "quantitative", "seconds"),
            "color": charts.field("way", "nominal", None, sort=ways),
        },
    )
    page.chart("figure-5a", "Time of an environment's steps", spec)


def workers(page: Page, found: Any) -> None:
    slow = found[min(found, key=int)]["seconds an episode"]
    page.rows(
        [
            {"workers": count, **one, "times as fast": over(slow, one["seconds an episode"])}
            for count, one in found.items()
        ]
    )
    page.text(
        "Published, seconds of an episode on a processor: 15 with one worker, 8 with five, less"
        " than 4 with ten; 2 with ten workers and a trainer on a GPU."
    )


def algorithms(page: Page, found: Any) -> None:
    rows = []
    for algorithm, one in found.items():
        best = one["best"][0]
        rows.append(
            {
                "algorithm": algorithm.upper(),
                "trials": len(one["best"]),
                "best learning rate": float(best["drawn"]["lr"]),
                "steps": best["steps"],
                "mean reward of an episode": best["reward"],
                "seconds": one["seconds"],
            }
        )
    page.rows(rows)


def lines(page: Page, found: Any) -> None:
    page.rows([{"pass": name, "lines": count} for name, count in found.items()])
    page.text("The same lines for every runner; which one is an option. Published:")
    page.rows(
        [
            {"pass": "POSET-RL", "before": None, "gRPC": "3+3 (4)", "pipes": 3, "ONNX": 3},
            {"pass": "RL-LoopDistribution", "before": 65, "gRPC": "3+3 (5)", "pipes": 4, "ONNX": 3},
            {"pass": "RL4ReAl", "before": 75, "gRPC": "10+3 (28)", "pipes": 4, "ONNX": 3},
        ]
    )


def footprint(page: Page, found: Any) -> None:
    page.rows(
        [
            {
                "what": row["what"],
                "KB": row["kb"],
                "peak MB": row["rss_mb"],
                "build CPU s": row["build_seconds"],
                "compile CPU s": row["compile_seconds"],
            }
            for row in found["opt_like"]
        ]
    )
    page.text(
        "Published: clang of 102.79 MB grows by 0.08 MB, its peak memory of 1553.8 MB by 0.4 MB,"
        " its build of 307 s by 8 s."
    )


def characteristics(page: Page, found: Any) -> None:
    rows = []
    for row in found["rows"]:
        cells = {}
        for runner in RUNNERS:
            cell = row["runners"][runner]
            cells[{"local": "unix, shm, pipe"}.get(runner, runner)] = (
                cell["said"] if cell["holds"] else f"**not shown** ({cell['said']})"
            )
        published = dict(
            zip(("gRPC", "pipes", "ONNX", "TensorFlow"), row["published"], strict=True)
        )
        rows.append(
            {"characteristic": row["characteristic"], **cells}
            | {f"published: {name}": text or "–" for name, text in published.items()}
        )
    page.rows(rows)
    held = sum(result.endswith("passed") for result in found["tests"].values())
    page.text(f"{held} of {len(found['tests'])} groups of tests passed that show this.")


def ratios_at_a_glance(found: Mapping[str, Any]) -> Iterable[tuple[str, str, list[float]]]:
    """The ratios that the paper's conclusions rest on: what, as published, and here, of which the
    smallest and the largest are of interest."""
    if by := found.get("allocation"):
        for runner in ("onnx", "native"):
            for part, published in (("asking", "–"), ("whole compilation", "12.4 × (2 … 40 ×)")):
                key = part.split()[0]
                ratios = [ways[RLLIB][key] / ways[runner][key] for ways in by.values()]
                what = f"register allocation, RLlib over gRPC over {runner} in process: {part}"
                yield what, published, ratios
    if by := found.get("threads"):
        for way, published in (("inliner", over(596, 501)), ("stock", "–")):
            taken = by["seconds"][way]
            yield f"link, one thread over two: {way}", published, [taken["1"] / taken["2"]]
    if by := found.get("clients"):
        ours = {row["runner"]: row["ms"] for row in by if row["client"] == "C++"}
        ratios = [ms / ours[runner] for runner, ms in SWEEPS.items() if runner in ours]
        yield "round trips, published over ours, by runner", "–", ratios
    if by := found.get("deployment"):
        taken = {row["way"]: row["seconds"] for row in by["ways"]}
        ratio = taken["a process each"] / taken["onnx"]
        yield "phase ordering, a process for each query over ONNX", "5.11 ×, 9.46 ×", [ratio]
    if by := found.get("training-time"):
        slow = by["rates"]["a process each"]
        ratios = [rate / slow for way, rate in by["rates"].items() if " " not in way.split(",")[0]]
        yield "steps of training, each way over a process for each", "1.8 ×", ratios


def glance(page: Page) -> None:
    rows = []  # geometric means; beside them the smallest and the largest
    found = {step: report["found"] for step, report in page.reports.items()}
    with contextlib.suppress(KeyError):  # the section says that a report is of an earlier form
        for what, published, ratios in ratios_at_a_glance(found):
            low, high = min(ratios), max(ratios)
            here = over(low, 1) if low == high else f"{mean(ratios):.1f} × ({low:.1f} … {high:.1f})"
            rows.append({"ratio": what, "published": published, "here": here})
    if rows:
        page.text("## At a glance")
        page.rows(rows)


HEAD = """# The evaluation of the paper, redone

"The Next 700 ML-Enabled Compiler Optimizations" (CC 2024) evaluates its library in Sections 5 and
6, on SPEC CPU, with LLVM 10 and 17. `make paper` does the same here on open programs, with stock
compilers of LLVM 22, and writes this page. Absolute times can't be compared: programs, compilers
and machines are others. So the page compares ratios, each to the slowest or the original way of
the same table, except for the round trips of Section 5.3, whose work is the same. The load is the
mean number of processes that ran or waited, as at the end of the measurement: where it is above the
number of cores, other work ran beside it, and the figures are rough.

`make paper ARGS="--only threads"` does one step again; what was interrupted goes on. All of it
takes 45 minutes to two hours on two cores."""


def write(target: Path, reports: Reports) -> None:
    """Writes the page, and the pictures beside it, of the reports that are there."""
    page = Page(target, reports)
    page.text(HEAD)
    glance(page)
    page.section(
        "Table 2: compile time of phase ordering by runner",
        "deployment",
        "The policy is POSET-RL's setting trained here (`models/poset-rl`), asked by stock clang's"
        " plugin. The original way of 2022, a process for each step, is built here with LLVM 22's"
        " `llvm-ir2vec` and `opt`, without the start of the model's Python, so it is faster than"
        " the original. `environment` is the Gymnasium environment.",
        deployment,
    )
    page.section(
        "Table 3: threads of a compilation",
        "threads",
        "The threads are ThinLTO's back ends in lld. The inliner's policy is our own"
        " (`models/inliner-size`), by the native engine where the paper uses TensorFlow; the"
        " agents of register allocation are small networks (`models/register-allocation`) where"
        " RL4ReAl has graph networks. Over gRPC all threads share one connection, which the"
        " paper's runner can't.",
        threads,
    )
    page.section(
        "RL4ReAl over gRPC and in process, program by program (talk, and Section 5.1)",
        "allocation",
        "The networks are small (two layers of 32), where RL4ReAl has graph networks, so that"
        " compiling is a larger part of the whole. RLlib's modules are asked by one thread of"
        " Python behind MLBridge's own gRPC server in C++, where the original's server is Python's"
        " gRPC.",
        allocation,
    )
    page.section(
        "Figure 5 a: time of training by runner",
        "training-time",
        "Only the environment's time is measured: a trainer's own is the same for all. The"
        " original way starts `opt` and `llc` for each step.",
        training_time,
    )
    page.section(
        "Figure 5 b: workers",
        "workers",
        "Two cores, so that more than two workers gain nothing, and no GPU. An episode is one"
        " function here, not a module.",
        workers,
    )
    page.section(
        "Section 5.2.3: algorithms",
        "algorithms",
        "Phase ordering, not register allocation, whose four agents are trained by PPO alone here."
        " A2C is RLlib's PPO with A2C's settings. Few steps: this shows that nothing changes in the"
        " compiler, not which algorithm is the best.",
        algorithms,
    )
    page.section(
        "Figures 5 c, d and e: round trips, from C++, C and MLIR",
        "clients",
        "`aot:` is our own compiler of networks, beside TensorFlow's in the paper. The client in C"
        " stands for Pluto, which is written in C. The classes of 2024 are those of `compat` in C++"
        " and the published package in Python.",
        clients,
    )
    page.section(
        "Figures 5 d and e: questions from compilers",
        "waits",
        "The paper's passes ask nothing but the sweep above. These are questions of real"
        " optimizations: GCC's settings, MLIR's and Polly's tile sizes.",
        waits,
    )
    page.section(
        "Figure 6: a gym's policy in process",
        "deployment",
        "CompilerGym can't be installed on present Pythons; the gym is our own environment, which"
        " is faster than CompilerGym's, so the ratios are smaller.",
        figure_6,
    )
    page.section(
        "Table 4: lines of code",
        "lines",
        "Counted between marks in sources that tests compile and run; the inlining passes include"
        " signature, buffers, heuristic and error message.",
        lines,
    )
    page.section(
        "Table 5: footprint",
        "footprint",
        "A small `opt` of LLVM's static libraries takes clang's place. Its growth includes the"
        " native engine, which the paper leaves to ONNX Runtime.",
        footprint,
    )
    page.section(
        "Table 6: characteristics, each shown by tests",
        "characteristics",
        "`unix:` and `shm:` are new, as are `native:` and `aot:`; TensorFlow's runner is `tfaot:`.",
        characteristics,
    )
    page.text(
        "## What is missing",
        "A trainer on a GPU (Figure 5 b); other algorithms than PPO for register allocation; SPEC"
        " CPU, which isn't open.",
    )
    write_whole(target, ("\n\n".join(page.parts) + "\n").encode())
