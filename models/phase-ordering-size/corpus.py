# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The files that the policy is trained, chosen and shown on, and where this model's things lie."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "build" / "models" / "phase-ordering-size"
POLICY = HERE / "policy.onnx"
ACTIONS = HERE / "actions.json"
FIXED_ORDER = HERE / "best-fixed-order.json"

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from programs.corpus import extracted  # noqa: E402


@dataclass(frozen=True)
class File:
    """One unoptimized module, its bitcode, and the executable bytes that plain -Oz makes of it."""

    program: str
    version: str
    source: str
    bitcode: str
    oz_text: int

    @property
    def name(self) -> str:
        """Tells files of all programs apart."""
        return f"{self.program}/{self.source}"


@dataclass(frozen=True)
class ActionList:
    """Groups of passes; an action is an index, and the one after the last means stop."""

    names: tuple[str, ...]
    text: str

    @property
    def stop(self) -> int:
        """The index of stop, also the number of groups."""
        return len(self.names)


def load_actions(path: Path = ACTIONS) -> ActionList:
    """Read an action list as the plugin does."""
    text = path.read_text()
    groups = json.loads(text)["actions"]
    compact = json.dumps({"version": 1, "actions": groups}, separators=(",", ":"))
    return ActionList(tuple(group["name"] for group in groups), compact)


def load(name: str) -> list[File]:
    """The files of "training", "validation" or "demo"; what is missing is fetched and made."""
    return [
        File(m.program, m.version, m.source, str(path), m.oz_code_bytes or 0)
        for m, path in extracted(name)
    ]


def interleaved(files: list[File], seed: int, low: int = 0, high: int = 1 << 40) -> list[File]:
    """Files of `low` to `high` bytes, one of each program in turn, so that a prefix is mixed."""
    chosen = [file for file in files if low <= file.oz_text <= high]
    random.Random(seed).shuffle(chosen)
    queues: dict[str, list[File]] = {}
    for file in chosen:
        queues.setdefault(file.program, []).append(file)
    turns = zip_longest(*map(reversed, queues.values()))
    return [file for turn in turns for file in turn if file]
