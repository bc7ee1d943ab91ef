# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo's results as a picture. Apart, because loading Matplotlib takes longer than a build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

import matplotlib as mpl

from demo.measure import Result
from demo.report import EFFORTS, interval

mpl.use("Agg")
import matplotlib.pyplot as plt


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
