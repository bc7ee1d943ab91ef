# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the benchmarks share: processes that are timed, options and reports."""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from processor import processor  # noqa: E402
from result_tables import Rows, section  # noqa: E402

REPORTS = ROOT / "build/bench"
END_SECONDS = 60

Command = Sequence[str | Path]


def parser(about: str | None) -> argparse.ArgumentParser:
    """Options of a benchmark, which has at least --build."""
    made = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    made.add_argument("--build", type=Path, default=ROOT / "build/cmake/bench")
    return made


def report(name: str, found: Any, title: str, text: str, *parts: str | Rows) -> None:
    """Writes build/bench/NAME.json and, beside it, a section of docs/results.md, whose paragraphs
    and tables it prints. It names the processor."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    path = REPORTS / f"{name}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(section(path, f"{title} (`make bench`)", f"On {processor()}. {text}", *parts))


def sample(count: int, *, largest: bool) -> list[Path]:
    """Modules of the validation programs, the same each time, or the largest."""
    from programs.corpus import extracted

    modules = sorted(extracted("validation"), key=lambda pair: (-pair[0].bytes, pair[0].name))
    paths = [path for _, path in modules]
    return paths[:count] if largest else random.Random(1).sample(paths, count)


def over(value: float, floor: float | None) -> float | None:
    return round(value / floor, 3) if floor else None


def used(command: list[str]) -> tuple[float, float]:
    """Processor seconds and peak megabytes of a process that must succeed."""
    process = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise RuntimeError(f"{shlex.join(command)}: ended with status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


class Asker:
    """A program that says "ready", and answers "<passes>" with the nanoseconds they took."""

    def __init__(
        self,
        stack: ExitStack,
        command: Command,
        env: Mapping[str, str] | None = None,
        core: int | None = None,
    ) -> None:
        pin = [] if core is None else ["taskset", "-c", str(core)]
        self.process = subprocess.Popen(
            [*pin, *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        stack.callback(self._end)
        if not self._line().startswith("ready"):
            raise RuntimeError(f"{command[0]} did not start")

    def _line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args!r} ended with {self.process.wait()}")
        return line

    def nanoseconds(self, passes: int) -> float:
        """The time of so many passes."""
        assert self.process.stdin
        self.process.stdin.write(f"{passes}\n")
        self.process.stdin.flush()
        return float(self._line())

    def _end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(END_SECONDS)


@contextmanager
def server(
    command: Command, env: Mapping[str, str] | None = None, *, waits: bool = True
) -> Iterator[int]:
    """A server in Python and its process id; with `waits` it says when it listens."""
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], stdout=subprocess.PIPE if waits else None, env=env
    )
    try:
        if process.stdout and not process.stdout.readline():
            raise RuntimeError(f"{command[0]} did not start")
        yield process.pid
    finally:
        process.terminate()
        process.wait(END_SECONDS)
        if process.stdout:
            process.stdout.close()
