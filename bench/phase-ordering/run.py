# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what asking a model costs a compiler, and writes build/bench/phase-ordering.json.

    run.py [--pairs N] [--files N] [--build FOLDER] [--model FILE.onnx]

The floor is a bare plugin that runs the very same groups on the module itself: no copy, no
features, no model. First the model decides once for each file; then, in turn, the files are
compiled by the bare plugin with those decisions, with the same decisions from a function, and with
the model in process. Times are user and system CPU of all files together; reported is the median
over the rounds. The start-up of the onnx engine is measured on an empty function and printed apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORPUS = ROOT / "build" / "programs" / "corpus" / "validation"
LIMITS = {"function": 1.05, "onnx": 1.10}
TINY = "define i32 @f(i32 %x) minsize optsize {\n  ret i32 %x\n}\n"


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a process that must succeed."""
    process = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise RuntimeError(f"{shlex.join(command)}: ended with status {status}")
    return usage.ru_utime + usage.ru_stime


class Setup:
    """How each file is compiled in each way."""

    def __init__(self, model: str, bare: Path, folder: Path) -> None:
        self.model = model
        self.bare = bare
        self.folder = folder

    def plugin(self, model: str, *settings: str) -> list[str]:
        command = ["mlbridge", "flags", "phase-ordering", "--model", model, *settings]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [*shlex.split(done.stdout), "-Werror=backend-plugin"]

    def compile(self, file: Path, flags: list[str]) -> list[str]:
        target = str(self.folder / "object.o")
        command = ["clang-22", "-Oz", "-Wno-override-module", "-x", "ir", "-c", str(file)]
        return [*command, "-o", target, *flags]

    def decisions(self, file: Path, max_steps: int = 0) -> list[int]:
        """What the model chooses for a file, without stop."""
        log = self.folder / "log"
        limit = ["--max-steps", str(max_steps)] if max_steps else []
        cpu_seconds(self.compile(file, self.plugin(self.model, "--log", str(log), *limit)))
        (path,) = log.iterdir()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        actions = [line["action"] for line in lines[1:-1]]
        listed = len(lines[0]["actions"]["actions"])
        (self.folder / "actions.json").write_text(json.dumps(lines[0]["actions"]))
        return [a for a in actions if a != listed]

    def bare_flags(self, order: list[int]) -> list[str]:
        text = ",".join(map(str, order))
        options = [f"-bare-phase-ordering={text}"]
        options.append(f"-bare-phase-ordering-actions={self.folder / 'actions.json'}")
        flags = ["-Xclang", f"-fpass-plugin={self.bare}"]
        for option in options:
            flags += ["-Xclang", "-mllvm", "-Xclang", option]
        return flags

    def function_flags(self, order: list[int]) -> list[str]:
        text = ",".join(map(str, order))
        listed = self.folder / "actions.json"
        return self.plugin(f"function:sequence?actions={text}&list={listed}")


def start_up(setup: Setup, rounds: int) -> float:
    """CPU seconds of opening the network: one decision on a tiny module, with and without it."""
    tiny = setup.folder / "tiny.ll"
    tiny.write_text(TINY)
    order = setup.decisions(tiny, max_steps=1)
    with_model = setup.compile(tiny, setup.plugin(setup.model, "--max-steps", "1"))
    without = setup.compile(tiny, setup.function_flags(order))
    pairs = [(cpu_seconds(with_model), cpu_seconds(without)) for _ in range(rounds)]
    return statistics.median(a - b for a, b in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cmake" / "bench")
    parser.add_argument(
        "--model", type=Path, default=ROOT / "models" / "phase-ordering-size" / "policy.onnx"
    )
    arguments = parser.parse_args()
    if not (CORPUS / "index.json").is_file():
        subprocess.run(
            [sys.executable, "-m", "programs.corpus", "validation"], cwd=ROOT, check=True
        )
    listed = sorted(CORPUS.rglob("*.bc"), key=lambda path: (-path.stat().st_size, str(path)))
    # The middle of the sizes: neither the largest files nor those that start-up dominates.
    files = random.Random(1).sample(listed[: len(listed) // 2], arguments.files)
    bare = arguments.build / "lib" / "mlbridge" / "bare-phase-ordering.so"

    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(f"onnx:{arguments.model}", bare, Path(folder))
        orders = {file: setup.decisions(file) for file in files}
        ways = {
            "bare": [setup.compile(f, setup.bare_flags(orders[f])) for f in files],
            "function": [setup.compile(f, setup.function_flags(orders[f])) for f in files],
            "onnx": [setup.compile(f, setup.plugin(setup.model)) for f in files],
        }
        opening = start_up(setup, arguments.pairs)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(arguments.pairs):
            names = list(ways)[:: 1 if number % 2 else -1]
            total = dict.fromkeys(names, 0.0)
            for position in range(len(files)):
                for name in names:
                    total[name] += cpu_seconds(ways[name][position])
            for name in names:
                seconds[name].append(total[name])

    paid = {"bare": 0.0, "function": 0.0, "onnx": opening * len(files)}
    ratios = {
        name: statistics.median(
            (mine - paid[name]) / floor
            for mine, floor in zip(seconds[name], seconds["bare"], strict=True)
        )
        for name in LIMITS
    }
    steps = sum(map(len, orders.values()))
    report = {
        "files": len(files),
        "groups": steps,
        "pairs": arguments.pairs,
        "onnx_start_up_ms": 1000 * opening,
        "seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "over_bare": ratios,
        "limits": LIMITS,
    }
    target = ROOT / "build" / "bench" / "phase-ordering.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{len(files)} files, {steps} groups, {arguments.pairs} rounds, CPU time over the floor:")
    for name, ratio in ratios.items():
        print(f"  {name:9} {ratio:.3f}   (limit {LIMITS[name]})")
    print(f"  start-up of onnx, apart: {1000 * opening:.1f} ms a process")
    return 0 if all(ratios[name] <= limit for name, limit in LIMITS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
