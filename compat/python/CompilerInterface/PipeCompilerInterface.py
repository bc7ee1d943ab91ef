# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model's side of two named pipes, NAME.in (to the compiler) and NAME.out (from it)."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import time
from typing import Any

from .BaseCompilerInterface import BaseCompilerInterface, default_deadline


class _Wait:
    def __init__(self, seconds: float | None, what: str) -> None:
        self.end = None if seconds is None else time.monotonic() + seconds
        self.seconds, self.what = seconds, what

    def left(self) -> float | None:
        if self.end is None:
            return None
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{self.what} within {self.seconds:g} s")
        return left


class _End:
    """An end of a pipe, used without waiting past a deadline. `wait` is set before each use."""

    def __init__(self, path: str, flags: int) -> None:
        self.fd: int | None = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
        self.wait = _Wait(None, "")
        self.poll = select.poll()
        self.poll.register(self.fd, select.POLLIN)

    def read(self, size: int, /) -> bytes:
        while self.fd is not None:
            left = self.wait.left()
            # A FIFO that no writer has opened yet reads as end of file, but does not hang up.
            if self.poll.poll(None if left is None else left * 1000 + 1):
                with contextlib.suppress(BlockingIOError):
                    return os.read(self.fd, min(size, 1 << 20))
        return b""

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest and self.fd is not None:
            try:
                rest = rest[os.write(self.fd, rest) :]
            except BlockingIOError:
                select.select([], [self.fd], [], self.wait.left())
        return len(data) - len(rest)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class PipeCompilerInterface(BaseCompilerInterface):
    """`data_format`: "json" or "bytes". `deadline`: seconds that a compiler is waited for, when it
    is to open the pipes and for each of its requests; None: for ever. What is not said:
    MLBRIDGE_COMPAT_DEADLINE, or ten minutes, which a compiler may take between two requests.

    Raises EOFError (the compiler closed its end; the next evaluate waits for another one),
    TimeoutError, ProtocolError.
    """

    def __init__(
        self,
        data_format: str | None = None,
        pipe_name: str | None = None,
        *,
        deadline: float | None = -1.0,
    ) -> None:
        self.to_compiler: str | None = None
        self.from_compiler: str | None = None
        self.tc_buffer: _End | None = None
        self.fc_buffer: _End | None = None
        self.deadline = default_deadline() if deadline is not None and deadline < 0 else deadline
        super().__init__(data_format)
        if not pipe_name:
            raise ValueError("a PipeCompilerInterface needs a pipe_name")
        self.pipe_name = pipe_name
        self.init_pipes()

    def __del__(self) -> None:
        self.close_pipes()
        self.remove_pipes()

    def evaluate(self, mode: str | None = None) -> Any:
        """Sends the advice, if there is one; then waits for a request and returns it, with mode
        "exit" not. JSON: a dict of the features; bytes: a list of TensorValue."""
        if self.fc_buffer is None or self.tc_buffer is None:
            self.reset_pipes()
        assert self.fc_buffer is not None and self.tc_buffer is not None
        try:
            out = self.serdes_obj.getOutputBuffer()
            if out is not None:
                self.tc_buffer.wait = _Wait(self.deadline, "the compiler did not read the advice")
                try:
                    self.tc_buffer.write(out)
                except BrokenPipeError:
                    raise EOFError("the compiler closed its pipe before the advice") from None
            if mode == "exit":
                return None
            self.fc_buffer.wait = _Wait(self.deadline, "no request came from the compiler")
            return self.serdes_obj.deserializeData(self.fc_buffer)
        except (EOFError, OSError, ValueError):
            # The conversation is at an unknown place; another compiler may open the pipes anew.
            self.close_pipes()
            raise

    def init_pipes(self) -> None:
        """Makes new FIFOs. A file that is not a FIFO is left alone: FileExistsError."""
        self.close_pipes()
        self.to_compiler = f"{self.pipe_name}.in"
        self.from_compiler = f"{self.pipe_name}.out"
        for path in (self.to_compiler, self.from_compiler):
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISFIFO(os.lstat(path).st_mode):
                    raise FileExistsError(errno.EEXIST, "is not a FIFO", path)
                os.remove(path)
            os.mkfifo(path, 0o600)

    def reset_pipes(self, *_: Any) -> None:
        """Opens both FIFOs and waits for the compiler to do so."""
        self.close_pipes()
        assert self.to_compiler is not None and self.from_compiler is not None
        wait = _Wait(self.deadline, f"no compiler opened {self.to_compiler}")
        pause = 0.0002
        while True:  # nothing tells when a FIFO gets a reader
            try:
                self.tc_buffer = _End(self.to_compiler, os.O_WRONLY)
                break
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
            time.sleep(min(pause, wait.left() or pause))
            pause = min(pause * 2, 0.01)
        self.fc_buffer = _End(self.from_compiler, os.O_RDONLY)

    def close_pipes(self) -> None:
        for end in (self.tc_buffer, self.fc_buffer):
            if end is not None:
                end.close()
        self.tc_buffer = self.fc_buffer = None

    def remove_pipes(self) -> None:
        for path in (self.to_compiler, self.from_compiler):
            if path is not None:
                with contextlib.suppress(OSError):
                    if stat.S_ISFIFO(os.lstat(path).st_mode):
                        os.remove(path)
        self.to_compiler = self.from_compiler = None
