# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiler that may open only few files makes an object by each runner whenever it makes one
without a model."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents import SERVERS
from sampling import nightly

import mlbridge
import mlbridge.files
from mlbridge.cli import main

SOURCE = """
int sum(const int *v, int n) { int t = 0; for (int i = 0; i < n; ++i) t += v[i]; return t; }
"""
RUNNERS = ("grpc", "onnx", *(nightly(name) for name in ("native", "unix", "shm", "pipe")))


@contextlib.contextmanager
def served(runner: str, folder: Path) -> Iterator[str]:
    """The URI of the shipped policy, or of a server, while this lasts."""
    file = mlbridge.files.shipped_model("phase-ordering-size")
    if runner not in SERVERS:
        yield f"{runner}:{file}"
        return

    def policy(seen: Any, _: mlbridge.Context) -> Any:
        return int(np.flatnonzero(seen["action_mask"])[-1])

    with mlbridge.Server(SERVERS[runner].format(folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(policy,))
        thread.start()
        try:
            yield server.address
        finally:
            server.stop()
            thread.join()


def compiled(folder: Path, files: int, flags: Sequence[str]) -> tuple[int, bool, str]:
    """Exit code, whether there is an object, and what clang says."""
    made = folder / "f.o"
    made.unlink(missing_ok=True)
    command = [
        "prlimit",
        f"--nofile={files}",
        "clang-22",
        *flags,
        "-Oz",
        "-c",
        "f.c",
        "-o",
        str(made),
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, made.is_file(), done.stderr


@pytest.mark.parametrize("runner", RUNNERS)
def test_few_descriptors(runner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    with served(runner, tmp_path) as uri:
        assert main(["flags", "phase-ordering", "--model", uri]) == 0
        flags = shlex.split(capsys.readouterr().out)
        asks = 0
        for files in (5, 6, 7, 8, 9, 10, 12, 16, 24, 64):
            code, made, said = compiled(tmp_path, files, ())
            if code == 0:
                code, made, said = compiled(tmp_path, files, flags)
                assert (code, made) == (0, True), f"{files} files: {said}"
                asks += "warning" not in said
        assert asks, "none was enough"
