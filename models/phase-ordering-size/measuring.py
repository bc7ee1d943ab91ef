# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""True sizes of many orders of one file, by the look-ahead tool of lookahead/."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from corpus import ACTIONS, HERE, WORK, File
from experience import Sequence, Tree

TOOL = WORK / "lookahead" / "lookahead"


class Lookahead:
    """The look-ahead tool at work on one file."""

    def __init__(self, file: File, actions: Path = ACTIONS, tool: Path = TOOL) -> None:
        self.file = file
        self.crashes: list[str] = []
        self._process = subprocess.Popen(
            [str(tool), str(file.bitcode), str(actions)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Lookahead:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(
        self, sequences: list[Sequence], tree: Tree, observe: Iterable[Sequence] = ()
    ) -> list[Sequence]:
        """Measure sequences into `tree` and only observe others; gives those that ended well."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        lines = [("?", sequence) for sequence in observe] + [("", s) for s in sequences]
        text = "".join(f"{mark}{','.join(map(str, s)) or '-'}\n" for mark, s in lines)
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()
        done: list[Sequence] = []
        for answer in self._process.stdout:
            fields = answer.rstrip("\n").split("\t")
            if fields == [""]:
                return done
            if fields[0] == "#crash":
                self.crashes.append(f"{fields[1]} then {fields[2]}")
                continue
            sequence = () if fields[0] == "-" else tuple(map(int, fields[0].split(",")))
            size = int(fields[1])
            if size >= -1:  # less: no code could be made
                observation = np.array(fields[3].split(), np.float32)
                tree.add(sequence, observation, None if size < 0 else size, fields[2])
                done.append(sequence)
        raise RuntimeError(f"lookahead ended early on {self.file.bitcode}")


def build_tool() -> None:
    """Build lookahead/ (idempotent)."""
    subprocess.run(
        ["cmake", "-S", str(HERE / "lookahead"), "-B", str(TOOL.parent), "-G", "Ninja"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(["cmake", "--build", str(TOOL.parent)], check=True, stdout=subprocess.DEVNULL)
