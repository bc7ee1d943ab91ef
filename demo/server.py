# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Start and stop the process that serves the model while the demo compiles."""

from __future__ import annotations

import json
import selectors
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from programs.catalog import ProgramsError

_START_TIMEOUT = 60.0
_STOP_TIMEOUT = 20.0


class ModelServer:
    """`mlbridge serve` as a context manager; `uri` is where compilers find it."""

    def __init__(self, model: Path, log: Path, transport: str = "unix") -> None:
        self._model = model
        self._log = log
        # Not in the tree: the path of a socket has about a hundred bytes.
        self._folder = tempfile.TemporaryDirectory(prefix="mlbridge-demo-")
        places = {"pipe": f"{self._folder.name}/compilers/", "grpc": "localhost:0"}
        place = places.get(transport, f"{self._folder.name}/policy.sock")
        self.uri = f"{transport}:{place}"
        self.statistics: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running server."""
        assert self._process is not None
        return self._process

    def __enter__(self) -> ModelServer:
        serve = ["serve", str(self._model), "--at", self.uri, "--json"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mlbridge", *serve],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line = selector.select(_START_TIMEOUT) and self._process.stdout.readline()
            if line:
                self.uri = line.decode().strip().removeprefix("ready ")
            else:
                self._end()
                raise ProgramsError(
                    f"the model's server did not start:\n{self._log.read_text()[-2000:]}"
                )
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        process = self._process
        assert process is not None
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=_STOP_TIMEOUT)
            lines = output.decode(errors="replace").splitlines()
            if process.returncode == 0 and lines:
                self.statistics = json.loads(lines[-1])
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        finally:
            self._folder.cleanup()
