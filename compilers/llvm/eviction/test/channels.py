# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What stock llc asks over its interactive channels, and what the plugin asks a server, by one
policy. A policy takes the function's name and the features, by name, and returns the advice."""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from compiler import options, serving

import mlbridge

Features = Mapping[str, np.ndarray[Any, Any]]
Policy = Callable[[str, Features], float]
NOT_LLVMS = ("eviction_default", "function_hottest_bb_freq")
NONE = 32  # the position of the live range itself
TYPES = {"int64_t": "<i8", "float": "<f4"}
SECONDS = 120.0


@dataclass
class Asked:
    """All questions, in order: the function, each feature's bytes, the advice."""

    questions: list[tuple[str, dict[str, bytes], float]] = field(default_factory=list)

    def ask(self, policy: Policy, function: str, features: Features) -> float:
        features = {k: v for k, v in features.items() if k not in NOT_LLVMS}
        advice = policy(function, features)
        self.questions.append((function, {k: v.tobytes() for k, v in features.items()}, advice))
        return advice


def candidates(features: Features) -> Any:
    return np.flatnonzero(features["mask"].reshape(-1))


def least_used(function: str, features: Features) -> float:
    """Evicts what has the fewest definitions and uses; allocates larger ranges first."""
    if "mask" not in features:
        return float(features["li_size"].reshape(-1)[0])
    free = candidates(features)
    return int(free[np.argmin(features["nr_defs_and_uses"].reshape(-1)[free])])


def arbitrary(function: str, features: Features) -> float:
    """Depends on each bit of each feature."""
    seed = zlib.crc32(function.encode())
    for name in sorted(features):
        seed = zlib.crc32(features[name].tobytes(), seed)
    if "mask" not in features:
        return float(seed % 1000)
    free = candidates(features)
    return int(free[seed % len(free)]) if seed % 4 == 0 else least_used(function, features)


class Channel:
    """One end of a pair of FIFOs. Both are open for reading and writing, so that no open waits."""

    def __init__(self, base: Path) -> None:
        self.descriptors = []
        for end in (".in", ".out"):
            path = base.with_name(base.name + end)
            os.mkfifo(path)
            self.descriptors.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        self.pending = b""
        self.header: list[dict[str, Any]] = []
        self.advice: dict[str, Any] = {}
        self.function = ""

    def fileno(self) -> int:
        return self.descriptors[1]

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)

    def read(self) -> bool:
        try:
            self.pending += os.read(self.descriptors[1], 1 << 16)
        except BlockingIOError:
            return False
        return True

    def answer(self, policy: Policy, asked: Asked) -> None:
        """Answers the complete questions."""
        while True:
            line, newline, rest = self.pending.partition(b"\n")
            if not newline:
                return
            said = json.loads(line)
            if "features" in said:
                self.header, self.advice = said["features"], said["advice"]
            elif "context" in said:
                self.function = said["context"]
            else:
                features, at = {}, 0
                for spec in self.header:
                    count = int(np.prod(spec["shape"]))
                    kind = np.dtype(TYPES[spec["type"]])
                    if len(rest) < at + count * kind.itemsize:
                        return
                    features[spec["name"]] = np.frombuffer(rest, kind, count, at)
                    at += count * kind.itemsize
                if len(rest) <= at:  # a newline follows
                    return
                advice = asked.ask(policy, self.function, features)
                reply = np.array([advice], TYPES[self.advice["type"]])
                os.write(self.descriptors[0], reply.tobytes())
                rest = rest[at + 1 :]
            self.pending = rest


OPTIONS = {
    "eviction": ("-regalloc-enable-advisor=release", "-regalloc-evict-interactive-channel-base="),
    "priority": (
        "-regalloc-enable-priority-advisor=release",
        "-regalloc-priority-interactive-channel-base=",
    ),
}


def over_channels(
    command: Sequence[str | Path], questions: Sequence[str], policy: Policy, folder: Path
) -> Asked:
    """Runs stock llc with these advisors in interactive mode."""
    asked = Asked()
    folder.mkdir()
    interactive: list[str] = []
    for question in questions:
        enable, base = OPTIONS[question]
        interactive += [enable, f"{base}{folder / question}"]
    channels = [Channel(folder / question) for question in questions]
    try:
        with subprocess.Popen([*command, *interactive]) as process:
            ended = os.pidfd_open(process.pid)
            try:
                until = time.monotonic() + SECONDS
                while True:
                    waiting: list[Any] = [*channels, ended]
                    ready = select.select(waiting, [], [], until - time.monotonic())[0]
                    assert ready, "the compiler waits for ever"
                    for channel in channels:
                        if channel in ready and channel.read():
                            channel.answer(policy, asked)
                    if ready == [ended]:
                        break
            finally:
                os.close(ended)
                process.kill()
        assert process.returncode == 0
    finally:
        for channel in channels:
            channel.close()
    return asked


def over_plugin(
    command: Sequence[str | Path],
    questions: Sequence[str],
    policy: Policy,
    plugin: Path,
    folder: Path,
) -> Asked:
    """Runs stock llc with the plugin, which asks a server whose socket is in this folder."""
    asked = Asked()

    def answer(features: Features, context: mlbridge.CallContext) -> Any:
        advice = asked.ask(policy, context.unit, features)
        return np.array([advice], np.int64 if "mask" in features else np.float32)

    compiler, *rest = command
    with serving(answer, folder) as uri:
        told = [options(f"regalloc-{q}", model=uri, on_failure="fail") for q in questions]
        full = [compiler, "-load", plugin, *itertools.chain(*told), *rest]
        subprocess.run(full, check=True, timeout=SECONDS)
    return asked
