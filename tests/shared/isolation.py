# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Work that may crash or hang, in a child process that is replaced when it does.

The child reads an item a line and answers each with a line of JSON; `answer_lines` is its side.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Child:
    """Answers items; one that ends it or takes too long is answered with {"died": WHY}."""

    def __init__(
        self, command: list[str | Path], seconds: float, env: dict[str, str] | None = None
    ) -> None:
        """`seconds`: for one item, with starting the process if need be."""
        self.command = [str(part) for part in command]
        self.seconds = seconds
        self.env = env
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, item: str) -> dict[str, Any]:
        if self.process is None or self.process.poll() is not None:
            self.end()
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env
            )
        process = self.process
        assert process.stdin
        try:
            process.stdin.write(item.encode() + b"\n")
            process.stdin.flush()
            line = self.line(process)
        except BrokenPipeError:
            line = b""
        if line is None:
            self.end(kill=True)
            return {"died": f"no answer within {self.seconds:.0f} s"}
        if not line:
            code = process.wait()
            self.end()
            return {"died": f"signal {-code}" if code < 0 else f"exit status {code}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def line(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """A line; nothing at the end of the file; None if it is not there in time."""
        assert process.stdout
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([process.stdout], [], [], self.seconds)[0]:
                return None
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return b""
            line += data
        return line

    def end(self, *, kill: bool = False) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        if kill:
            process.kill()
        assert process.stdin and process.stdout
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def answer_lines(work: Callable[[str], dict[str, Any]]) -> None:
    """The child's side: until standard input ends. What `work` prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(work(line.rstrip("\n"))) + "\n")
        answers.flush()
