# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what asking a model costs a compiler, and writes build/bench/phase-ordering.json.

    run.py [--pairs N] [--files N] [--build FOLDER] [--model FILE.onnx] [--only SET]

The floor is a bare plugin that runs the very same groups on the module itself: no copy, no
features, no model. First the model decides once for each file; then, in turn, the files are
compiled by the bare plugin with those decisions, with the same decisions from a function, and with
the model in process. Times are user and system CPU of all files together; reported is the median
over the rounds. There are two sets, files from the larger and from the smaller half of the corpus.
The start-up of the onnx engine is measured on an empty function, printed apart, and left out of its
ratio; the other engines' is in theirs.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import parser, report, used

from mlbridge import files
from mlbridge.recording import Recording
from programs.corpus import extracted
from programs.plugin import MODEL, compiled, plugin_flags

LIMITS = {
    "larger": {"function": 1.05, "onnx": 1.10, "native": 1.05, "aot": 1.05},
    "small": {"native": 1.05, "aot": 1.05},
}
TINY = "define i32 @f(i32 %x) minsize optsize {\n  ret i32 %x\n}\n"


class Setup:
    """How each file is compiled in each way."""

    def __init__(self, model: str, bare: Path, folder: Path) -> None:
        self.model = model
        self.bare = bare
        self.folder = folder
        self.actions = folder / "actions.json"

    def plugin(self, model: str, *settings: str) -> list[str]:
        return [*plugin_flags(model, *settings), "-Werror=backend-plugin"]

    def compile(self, file: Path, flags: list[str]) -> list[str]:
        target = str(self.folder / "object.o")
        command = ["clang-22", "-Oz", "-Wno-override-module", "-x", "ir", "-c", str(file)]
        return [*command, "-o", target, *flags]

    def decisions(self, file: Path, max_steps: int = 0) -> list[int]:
        """What the model chooses for a file, without stop."""
        log = self.folder / "log"
        limit = ["--max-steps", str(max_steps)] if max_steps else []
        used(self.compile(file, self.plugin(self.model, "--log", str(log), *limit)))
        (path,) = log.iterdir()
        recording = Recording(path)
        (episode,) = recording.episodes()
        path.unlink()
        listed = recording.metadata["phase-ordering.actions"]
        self.actions.write_text(listed)
        stop = len(json.loads(listed)["actions"])
        return [action for action in episode.stacked("action").ravel().tolist() if action != stop]

    def bare_flags(self, order: list[int]) -> list[str]:
        option = "-bare-phase-ordering"
        steps = f"{option}={','.join(map(str, order))}"
        return files.clang_words(str(self.bare), steps, f"{option}-actions={self.actions}")

    def function_flags(self, order: list[int]) -> list[str]:
        text = ",".join(map(str, order))
        return self.plugin(f"function:sequence?actions={text}&list={self.actions}")


def start_up(setup: Setup, rounds: int) -> float:
    """CPU seconds of opening the network: one decision on a tiny module, with and without it."""
    tiny = setup.folder / "tiny.ll"
    tiny.write_text(TINY)
    order = setup.decisions(tiny, max_steps=1)
    with_model = setup.compile(tiny, setup.plugin(setup.model, "--max-steps", "1"))
    without = setup.compile(tiny, setup.function_flags(order))
    pairs = [(used(with_model)[0], used(without)[0]) for _ in range(rounds)]
    return statistics.median(a - b for a, b in pairs)


def measured(
    setup: Setup, uris: dict[str, str], files: list[Path], pairs: int
) -> tuple[dict[str, list[float]], int]:
    """The seconds of all files together in each way, round by round, and how many groups ran."""
    orders = {file: setup.decisions(file) for file in files}
    ways = {
        "bare": [setup.compile(f, setup.bare_flags(orders[f])) for f in files],
        "function": [setup.compile(f, setup.function_flags(orders[f])) for f in files],
        **{name: [setup.compile(f, setup.plugin(u)) for f in files] for name, u in uris.items()},
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(pairs):
        names = list(ways)[:: 1 if number % 2 else -1]
        total = dict.fromkeys(names, 0.0)
        for position in range(len(files)):
            for name in names:
                total[name] += used(ways[name][position])[0]
        for name in names:
            seconds[name].append(total[name])
    return seconds, sum(map(len, orders.values()))


def chosen(count: int) -> dict[str, list[Path]]:
    """Files of each set, the same each time."""
    modules = sorted(extracted("validation"), key=lambda pair: (-pair[0].bytes, pair[0].name))
    listed = [path for _, path in modules]
    half = len(listed) // 2
    halves = {"larger": listed[:half], "small": listed[half:]}
    return {name: random.Random(1).sample(files, count) for name, files in halves.items()}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--pairs", type=int, default=30)
    options.add_argument("--files", type=int, default=8)
    options.add_argument("--model", type=Path, default=MODEL)
    options.add_argument("--only", choices=sorted(LIMITS))
    arguments = options.parse_args()
    bare = arguments.build / "lib" / "mlbridge" / "bare-phase-ordering.so"
    sets: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(f"onnx:{arguments.model}", bare, Path(folder))
        uris = {
            "onnx": setup.model,
            "native": f"native:{arguments.model}",
            "aot": f"aot:{compiled(arguments.model, Path(folder) / 'policy.so')}",
        }
        opening = start_up(setup, arguments.pairs)
        for name, files in chosen(arguments.files).items():
            if arguments.only not in (None, name):
                continue
            limits = LIMITS[name]
            asked = {engine: uri for engine, uri in uris.items() if engine in limits}
            seconds, groups = measured(setup, asked, files, arguments.pairs)
            paid = {"onnx": opening * len(files)}
            ratios = {
                way: statistics.median(
                    (mine - paid.get(way, 0.0)) / floor
                    for mine, floor in zip(seconds[way], seconds["bare"], strict=True)
                )
                for way in seconds
                if way != "bare"
            }
            sets[name] = {
                "files": len(files),
                "groups": groups,
                "seconds": {way: statistics.median(values) for way, values in seconds.items()},
                "over_bare": ratios,
                "limits": limits,
            }
            rows += [
                {
                    "files": f"{len(files)} {name}, {groups} groups",
                    "runner": way,
                    "seconds": f"{sets[name]['seconds'][way]:.2f}",
                    "over bare": f"{ratio:.3f}",
                    "limit": limits.get(way),
                }
                for way, ratio in ratios.items()
            ]
            if any(ratios[way] > limit for way, limit in limits.items()):
                worst = 1
    report(
        "phase-ordering-partial" if arguments.only else "phase-ordering",
        {"pairs": arguments.pairs, "onnx_start_up_ms": 1000 * opening, "sets": sets},
        "The cost of asking",
        "CPU time (user and system) of compiling with the model, divided by that of a bare plugin"
        f" that runs the same groups of passes; median of {arguments.pairs} alternating rounds."
        " Files are from the larger and the smaller half of the corpus. For `onnx`, the"
        f" {1000 * opening:.0f} ms that each process takes to start ONNX Runtime are not included;"
        " the start of the other engines is.",
        rows,
    )
    return worst


if __name__ == "__main__":
    sys.exit(main())
