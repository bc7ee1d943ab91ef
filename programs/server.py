# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Start and stop the process that serves a model while programs are compiled."""

from __future__ import annotations

import json
import select
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
        self._folder = tempfile.TemporaryDirectory(prefix="mlbridge-server-")
        places = {"pipe": f"{self._folder.name}/compilers/", "grpc": "localhost:0"}
        self.uri = f"{transport}:{places.get(transport, f'{self._folder.name}/policy.sock')}"
        self.statistics: dict[str, int] = {}

    def __enter__(self) -> ModelServer:
        serve = ["serve", str(self._model), "--at", self.uri, "--json"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlbridge", *serve],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], _START_TIMEOUT)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.__exit__()
            raise ProgramsError(
                f"the model's server did not start:\n{self._log.read_text()[-2000:]}"
            )
        self.uri = line.decode().strip().removeprefix("ready ")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            output = self.process.communicate(timeout=_STOP_TIMEOUT)[0]
            if self.process.returncode == 0 and (lines := output.splitlines()):
                self.statistics = json.loads(lines[-1])
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        finally:
            self._folder.cleanup()
