# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs processes that are timed and cannot outlive their deadline."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import select
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import Cancelled, DeadlineExceeded, Error, InvalidArgument, NotFound

#: Bytes that are kept of the beginning of an output, and of its end.
KEPT = 1 << 16
_PIPE = 1 << 20  # bytes that a pipe holds at most
_GRACE, _AWAKE = 5.0, 0.5  # seconds


class Output:
    """The output of a process, of any length. Two are equal if all bytes are.

    Its first `keep` bytes are in `head`, its last KEPT in `tail`.
    """

    def __init__(self, keep: int = KEPT) -> None:
        self.size = 0
        self.head, self.tail = bytearray(), b""
        self._keep = keep
        self._hash = hashlib.blake2b()

    def add(self, data: bytes) -> None:
        """Appends bytes."""
        self.size += len(data)
        self._hash.update(data)
        self.head += data[: max(0, self._keep - len(self.head))]
        self.tail = (self.tail + data)[-KEPT:]

    @property
    def text(self) -> str:
        """The end, as text."""
        return self.tail.decode(errors="replace")

    @property
    def digest(self) -> str:
        """A hash of all bytes."""
        return self._hash.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Output) and self._hash.digest() == other._hash.digest()

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Ran:
    """A finished process: exit code (negative: the signal), its outputs, wall seconds."""

    code: int
    stdout: Output
    stderr: Output
    seconds: float

    @property
    def reason(self) -> str:
        """The line that says why it failed."""
        lines = [
            line.strip()
            for output in (self.stdout, self.stderr)
            for line in output.text.splitlines()
            if line.strip()
        ]
        telling = (
            line
            for line in lines
            if re.search(r"error:|not found|undefined reference|^make.*: \*\*\* ", line)
        )
        return next(telling, lines[-1] if lines else "it said nothing")


def run(
    command: str | Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float,
    stdin: str | os.PathLike[str] = os.devnull,
    keep: int = KEPT,
) -> Ran:
    """Run a command, a text by the shell; processes that it leaves running are killed.

    `stdin`: the file that it reads. `keep`: bytes of its outputs that are kept from their
    beginning. Raises DeadlineExceeded after `timeout` seconds, and NotFound if it can't be started.
    """
    # It runs in a thread, since Ctrl-C may come between the start of a process and the next line.
    # Waiting on a descriptor leaves no lock behind when it is interrupted.
    stop, done = os.eventfd(0), os.eventfd(0)
    outcome: list[Ran | BaseException] = []

    def work() -> None:
        try:
            outcome.append(_run(command, cwd, env, timeout, stdin, keep, stop))
        except BaseException as error:
            outcome.append(error)
        os.eventfd_write(done, 1)

    try:
        threading.Thread(target=work).start()
        # It wakes now and then: a signal that comes just before it waits doesn't end the waiting.
        while not select.select([done], [], [], _AWAKE)[0]:
            pass
    finally:
        os.eventfd_write(stop, 1)
        if select.select([done], [], [], _GRACE)[0]:
            os.close(stop)
            os.close(done)
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result


def run_tool(
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    *,
    timeout: float,
    keep: int = KEPT,
    what: str = "",
    error: type[Error] = InvalidArgument,
) -> Ran:
    """Run a program that must succeed. Raises `error`, which says how it ended and for what, and
    what `run` raises."""
    ran = run(command, cwd, timeout=timeout, keep=keep)
    if ran.code:
        who = f"{what}: {command[0]}" if what else command[0]
        raise error(f"{who} ended with {ran.code}: {ran.reason}")
    return ran


def _run(
    command: str | Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    timeout: float,
    stdin: str | os.PathLike[str],
    keep: int,
    stop: int,
) -> Ran:
    shown = command if isinstance(command, str) else " ".join(command)
    start = time.perf_counter()
    try:
        with Path(stdin).open("rb") as source:
            process = subprocess.Popen(
                command,
                shell=isinstance(command, str),
                cwd=cwd,
                env=env,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise NotFound(f"`{shown}` can't be started: {why}") from None
    output, errors = Output(keep), Output(keep)
    written = {process.stdout: output, process.stderr: errors}
    try:
        ended = os.pidfd_open(process.pid)
        try:
            with selectors.DefaultSelector() as waiting:
                waiting.register(ended, selectors.EVENT_READ)
                waiting.register(stop, selectors.EVENT_READ)
                for pipe in written:
                    os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
                    waiting.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]
                running = True
                while running:
                    left = start + timeout - time.perf_counter()
                    if left <= 0:
                        raise DeadlineExceeded(f"`{shown}` did not end within {timeout:g} s")
                    for key, _ in waiting.select(left):
                        if key.fileobj == stop:
                            raise Cancelled(f"`{shown}` was interrupted")
                        if key.fileobj == ended:
                            running = False
                        elif _read(key.fileobj, written) == b"":
                            waiting.unregister(key.fileobj)
                seconds = time.perf_counter() - start
                for pipe in written:
                    # A process that was left running may write without end; only a pipe is read.
                    for _ in range(_PIPE // KEPT):
                        if not _read(pipe, written):
                            break
        finally:
            os.close(ended)
    finally:
        # It was not waited for yet, so nobody else has its group's number.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in written:
            pipe.close()  # type: ignore[union-attr]
    return Ran(process.returncode, output, errors, seconds)


def _read(pipe: Any, written: Mapping[Any, Output]) -> bytes | None:
    """Reads what is available; b"" at the end of the output, None if it would block."""
    data: bytes | None = pipe.read(KEPT)
    written[pipe].add(data or b"")
    return data
