# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trees, fitted to measured times, as the network of this folder.

    models/polly-tiling/make.py build             programs of random kernels (build/polly)
    models/polly-tiling/make.py measure           their times
    models/polly-tiling/make.py fit               times.json and policy.onnx from these
    models/polly-tiling/make.py make              policy.onnx from times.json
    models/polly-tiling/make.py build --unseen    programs of the kernels of experiments/polly
    models/polly-tiling/make.py measure --unseen --rounds 15 --milliseconds 40
    models/polly-tiling/make.py evaluate          what the policy gains on them, with a chart

`build` and `measure` go on where they were stopped. All ways of a kernel take turns in a round.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
import forest
import nests
from times import (
    BENCH,
    DEFAULT,
    OFF,
    PLAIN,
    USUAL,
    VECTORS,
    Kernel,
    build_all,
    measure,
    sizes,
    usual_ways,
)

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"
REPORT = BUILD / "experiments" / "polly-tiling.json"
#: What trees may choose; the first is what is taken if nothing is expected to gain.
CHOICES = VECTORS
FIT = {"count": 60, "depth": 6, "fewest": 1, "among": 10, "margin": 0.03}
#: A ratio that was measured counts as no more than this, or its inverse.
MOST = 4.0
SAMPLES = 1000


def training(count: int) -> list[Kernel]:
    return [
        Kernel(f"{seed}: {nests.family(seed)}", nests.kernel(seed),
               BUILD / "polly" / "training" / str(seed))
        for seed in range(count)
    ]  # fmt: skip


def unseen(folder: str) -> list[Kernel]:
    return [
        Kernel(path.stem, path.read_text().replace("../kernel.h", "kernel.h"),
               BUILD / "polly" / folder / path.stem)
        for path in sorted((BENCH / "kernels").glob("*.c"))
    ]  # fmt: skip


def ratios(kernel: Kernel) -> dict[str, float]:
    """The time of each way over that of -O3; of each, the least of all rounds."""
    made, times = kernel.made["ways"], kernel.times
    if not times:  # all ways are the same program
        return dict.fromkeys(made, 1.0)
    return {way: min(times[name]) / min(times[made[PLAIN]]) for way, name in made.items()}


def is_measured(kernel: Kernel) -> bool:
    programs = set(kernel.made["ways"].values())
    return len(programs) == 1 or (len(programs) > 1 and programs == set(kernel.times))


def collected(kernels: Sequence[Kernel]) -> list[dict[str, Any]]:
    """What is learned from: the loops that the plugin has asked about, and ratios."""
    return [
        {
            "kernel": kernel.name,
            "loops": [[int(x) for x in row] for row in kernel.made["rows"] if any(row)],
            "ratios": {way: round(ratio, 3) for way, ratio in ratios(kernel).items()},
        }
        for kernel in kernels
        if kernel.made["rows"]
    ]


def arrays(data: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    """Loops [n, 8, 9], and the logarithm of the ratio of each choice [n, choices]."""
    rows = np.zeros((len(data), forest.LOOPS, forest.COLUMNS), np.float32)
    for row, one in zip(rows, data, strict=True):
        row[: len(one["loops"])] = one["loops"]
    found = np.log([[one["ratios"][choice] for choice in CHOICES] for one in data])
    return rows, np.clip(found, -np.log(MOST), np.log(MOST))


def nearest(rows: Any, known: Any, y: Any) -> Any:
    """A table: what was best for the training kernel that is most alike."""
    a, b = (np.log1p(np.abs(forest.inputs(x))) for x in (rows, known))
    spread = b.std(axis=0) + 1e-6
    distance = (((a[:, None] - b[None]) / spread) ** 2).sum(-1)
    return y.argmin(axis=1)[distance.argmin(axis=1)]


def chosen(rows: Any, known: Any, y: Any) -> dict[str, Any]:
    """What each way to choose takes for each of `rows`, as learned from `known` and `y`."""
    means = y.mean(axis=0)
    tiled = means.copy()
    tiled[CHOICES.index(OFF)] = np.inf
    trees = forest.fit(forest.inputs(known), y, **FIT)  # type: ignore[arg-type]
    return {
        "best constant": np.full(len(rows), tiled.argmin()),
        "best constant or no Polly": np.full(len(rows), means.argmin()),
        "table": nearest(rows, known, y),
        "trees": forest.scores(forest.inputs(rows), trees).argmin(axis=1),
    }


def cross_validated(data: Sequence[Mapping[str, Any]], parts: int = 8) -> dict[str, Any]:
    """What each way to choose reaches for kernels that it had not seen: logarithms of ratios."""
    rows, y = arrays(data)
    part = np.random.default_rng(0).integers(0, parts, len(rows))
    found: dict[str, Any] = {}
    for number in range(parts):
        out = part == number
        for name, at in chosen(rows[out], rows[~out], y[~out]).items():
            found.setdefault(name, np.zeros(len(rows)))[out] = y[out][np.arange(out.sum()), at]
    found["best of all"] = y.min(axis=1)
    return found


def digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def make(data: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """The network, and what it was fitted to."""
    rows, y = arrays(data)
    trees = forest.fit(forest.inputs(rows), y, **FIT)  # type: ignore[arg-type]
    network = forest.network(trees, [sizes(choice) for choice in CHOICES])
    onnx.save(network, folder / "policy.onnx")


def fit(kernels: Sequence[Kernel]) -> None:
    data = collected([kernel for kernel in kernels if is_measured(kernel)])
    for name, logs in cross_validated(data).items():
        print(
            f"{name}: {np.exp(logs.mean()):.3f}, {(logs > np.log(1.02)).mean():.1%} slower than -O3"
        )
    lines = ",\n".join(json.dumps(one) for one in data)
    (HERE / "times.json").write_text(f"[\n{lines}\n]\n")
    make(data, HERE)
    print(f"{len(data)} kernels, SHA-256 of the data {digest(data)}")


def decided(kernels: Sequence[Kernel], model: str) -> list[int]:
    """The choice of the model for each kernel, in this process."""
    import mlbridge

    runner = mlbridge.open(model)
    vectors = [sizes(choice) for choice in CHOICES]
    found = []
    for kernel in kernels:
        asked = np.array(kernel.made["rows"], np.float32)
        answer = np.array(runner.evaluate(loops=asked)["sizes"]).tolist()
        found.append(vectors.index(answer))
    return found


def interval(logs: Any) -> list[float]:
    """95 %, by a bootstrap over kernels, and over the rounds of each; logs [kernels][rounds]."""
    rng = np.random.default_rng(0)
    means = []
    for _ in range(SAMPLES):
        at = rng.integers(0, len(logs), len(logs))
        means.append(np.mean([np.median(rng.choice(logs[k], len(logs[k]))) for k in at]))
    return [round(float(np.exp(x)), 3) for x in np.quantile(means, [0.025, 0.975])]


def compared(kernels: Sequence[Kernel], ways: Sequence[str], base: str) -> dict[str, Any]:
    """One way for each kernel against another: paired by rounds."""
    logs = []
    for kernel, way in zip(kernels, ways, strict=True):
        made = kernel.made["ways"]
        same = made[way] == made[base] or not kernel.times
        times, other = (kernel.times[made[x]] if not same else [1.0] for x in (way, base))
        rounds = min(len(times), len(other))  # the last ones are of the same turns
        logs.append(np.log(np.array(times[-rounds:]) / np.array(other[-rounds:])))
    medians = [float(np.median(one)) for one in logs]
    return {
        "mean": round(float(np.exp(np.mean(medians))), 3),
        "interval": interval(logs),
        "slower": sum(one > math.log(1.02) for one in medians),
        "worst": round(float(np.exp(max(medians))), 2),
        "kernels": [round(float(np.exp(one)), 3) for one in medians],
    }


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Bars for each kernel: its time with Polly's sizes and with the model, over that of -O3."""
    from matplotlib.figure import Figure

    names = found["kernels"]
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    axes = figure.add_subplot()
    at = np.arange(len(names))
    for shift, (label, colour) in enumerate(
        (("-O3", "#bbbbbb"), ("Polly's sizes", "#d98032"), ("model", "#2f6fab"))
    ):
        heights = [1.0] * len(names) if shift == 0 else found["over_o3"][label]["kernels"]
        axes.bar(at + (shift - 1) * 0.27, heights, 0.27, label=label, color=colour)
    axes.set_xticks(at, [name.replace("_", " ") for name in names], rotation=60, ha="right")
    axes.set_ylabel("time / time of -O3")
    axes.axhline(1, color="#888888", linewidth=0.8)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def choices(kernels: Sequence[Kernel], model: str) -> dict[str, list[str]]:
    """What the model and each simpler way to choose takes for each kernel."""
    data = json.loads((HERE / "times.json").read_text())
    known, y = arrays(data)
    rows = np.array([kernel.made["rows"] for kernel in kernels], np.float32)
    picks = chosen(rows, known, y)
    del picks["trees"]  # which are the model
    ways = {name: [CHOICES[at] for at in picked] for name, picked in picks.items()}
    ways["Polly's sizes"] = [DEFAULT] * len(kernels)
    ways["model"] = [CHOICES[at] for at in decided(kernels, model)]
    return ways


def evaluate(kernels: Sequence[Kernel], model: str, chart: Path | None, report: Path) -> int:
    ways = choices(kernels, model)
    if all(is_measured(kernel) for kernel in kernels):
        of_each = [ratios(kernel) for kernel in kernels]
        ways["best of all"] = [min(CHOICES, key=one.__getitem__) for one in of_each]
    found: dict[str, Any] = {
        "model": model.replace(f"{HERE.parents[1]}/", ""),
        "rounds": max(len(one) for kernel in kernels for one in kernel.times.values()),
        "kernels": [kernel.name for kernel in kernels],
        "milliseconds": [
            round(float(np.median(kernel.spent(PLAIN))) / 1e6, 1) if kernel.times else None
            for kernel in kernels
        ],
        "chosen": ways["model"],
        "over_o3": {name: compared(kernels, way, PLAIN) for name, way in ways.items()},
        "over_polly": {name: compared(kernels, way, DEFAULT) for name, way in ways.items()},
    }
    bars = [found["over_o3"][name]["kernels"] for name in ("Polly's sizes", "model", "table")]
    for name, spent, choice, polly, asked, table in zip(
        found["kernels"], found["milliseconds"], found["chosen"], *bars, strict=True
    ):
        print(f"{name:26} {spent} ms, Polly {polly}, model {asked} ({choice}), table {table}")
    for against in ("over_o3", "over_polly"):
        for name, one in found[against].items():
            print(f"{against} {name}: {one['mean']} {one['interval']}, {one['slower']} slower")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(found, indent=1) + "\n")
    if chart:
        draw(found, chart)
    return 0 if found["over_polly"]["model"]["mean"] <= 1 else 1


def main() -> int:
    from mlbridge import files

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["build", "measure", "fit", "make", "evaluate"])
    parser.add_argument("--all", action="store_true", help="measure all ways of these as well")
    parser.add_argument("--unseen", action="store_true", help="the kernels of experiments/polly")
    parser.add_argument("--kernels", type=int, default=264, help="random ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--milliseconds", type=int, default=12, help="of a program in a round")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="to measure at most; go on later"
    )
    parser.add_argument("--flags", nargs="*", default=[], help="of all, beside -O3: march=native")
    parser.add_argument("--plugin", default=files.plugin("polly-tiling"))
    parser.add_argument("--model", default=f"native:{HERE}/policy.onnx")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--chart", type=Path, help="of the evaluation, as an image")
    parser.add_argument("--report", type=Path, default=REPORT)
    options = parser.parse_args()
    flags = [f"-{flag}" for flag in options.flags]
    of_unseen = options.unseen or options.what == "evaluate"
    kernels = (
        unseen("-".join(["unseen", *options.flags])) if of_unseen else training(options.kernels)
    )
    if options.what == "build":
        build_all(kernels, usual_ways(options.plugin), [*USUAL, *flags], options.jobs)
    made = [kernel for kernel in kernels if kernel.made["ways"]]
    if options.what == "measure":
        ways = {kernel: list(kernel.made["ways"]) for kernel in made}
        if options.unseen and not options.all:
            each = choices(made, options.model)
            ways = {
                kernel: sorted({PLAIN, DEFAULT, *(picked[at] for picked in each.values())})
                for at, kernel in enumerate(made)
            }
        done = measure(ways, options.rounds, options.milliseconds, options.seconds)
        print("measured" if done else "not done yet")
    if options.what == "fit":
        fit(made)
    if options.what == "make":
        make(json.loads((HERE / "times.json").read_text()), HERE)
    if options.what == "evaluate":
        return evaluate(made, options.model, options.chart, options.report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
