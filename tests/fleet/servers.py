# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Servers of `mlbridge serve` in processes of their own, which are replaced and killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

START = 120  # seconds, on a machine that is busy


class ServerProcess:
    """A server at one address for as long as it is wanted, whoever serves there."""

    def __init__(self, model: Path | str, log: Path, at: str = "grpc:127.0.0.1:0") -> None:
        self.model, self.log, self.at = str(model), log, at
        self._process: subprocess.Popen[str] | None = None

    @property
    def place(self) -> str:
        """HOST:PORT."""
        return self.at.removeprefix("grpc:").partition("?")[0]

    def start(self, *options: str, model: Path | str | None = None) -> None:
        """Return once compilers can connect."""
        self.model = str(model or self.model)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mlbridge", "serve", self.model, "--at", self.at, *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready "), self.log.read_text()
        self.at = line.removeprefix("ready ").strip()

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Send a signal and wait for the end; what was printed."""
        if self._process is None:
            return ""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        printed = self._process.communicate(timeout=START)[0]
        code, self._process = self._process.returncode, None
        assert code == (0 if number is signal.SIGTERM else -number), self.log.read_text()
        return printed


def uri_of(*servers: ServerProcess) -> str:
    """The address of all of them."""
    return "grpc:" + ",".join(server.place for server in servers)
