# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gRPCModelRunner with a service of the user's own, in both modes, with both Python packages."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import ROOT, run

HERE = Path(__file__).parent
EXAMPLES = ROOT / "compat" / "examples"
MODULES = ("compilerinterface", "CompilerInterface")


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    run("protoc", f"--python_out={folder}", "-I", EXAMPLES, EXAMPLES / "listing2.proto")
    shutil.copy(HERE / "published" / "listing2_pb2_grpc.py", folder)
    return folder


@pytest.fixture
def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def model(module: str, mode: str, port: int, generated: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, HERE / "published/grpc_model.py", module, mode, str(port), generated],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(HERE.parent / "python")),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def compiler(
    programs: Path, mode: str, address: str, deadline: str = "30s"
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [programs / "listing2", mode, address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, MLBRIDGE_COMPAT_DEADLINE=deadline),
    )


def lines_of(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (process.returncode, out, err)
    return out.splitlines()


@pytest.mark.parametrize("module", MODULES)
def test_inference(programs: Path, generated: Path, port: int, module: str) -> None:
    """The compiler waits for the model's server, however slowly that starts."""
    with model(module, "serve", port, generated):
        lines = lines_of(compiler(programs, "infer", f"127.0.0.1:{port}"))
        assert lines[:3] == ["6 ok", "17 ok", "28 ok"]
        assert lines[3].startswith("-1 invalid argument: ") and "no such field" in lines[3]
        lines = lines_of(compiler(programs, "costs", f"127.0.0.1:{port}"))
        assert lines == ["0.5 1 1.5 ok", "0.5 ok"]


@pytest.mark.parametrize("module", MODULES)
def test_training(programs: Path, generated: Path, port: int, module: str) -> None:
    serving = compiler(programs, "train", f"127.0.0.1:{port}")
    end = time.monotonic() + 30  # 2024's client doesn't wait for a server
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
    with model(module, "train", port, generated) as trainer:
        assert trainer.communicate(timeout=60)[0].endswith("good\n")
    assert lines_of(serving) == ["7 ok"]


def test_no_server(programs: Path, port: int) -> None:
    lines = lines_of(compiler(programs, "infer", f"127.0.0.1:{port}", "400ms"))
    assert all(line.startswith("-1 ") for line in lines)
    assert lines[0].split(":")[0] in ("-1 deadline exceeded", "-1 unavailable")


def test_a_server_without_the_method(programs: Path, generated: Path, port: int) -> None:
    """A compiler that serves has no getAdvice."""
    serving = compiler(programs, "train", f"127.0.0.1:{port}")
    try:
        lines = lines_of(compiler(programs, "infer", f"127.0.0.1:{port}"))
        assert lines[0].startswith("-1 unsupported: gRPC: ")
    finally:
        serving.kill()
        serving.communicate()


def test_an_address_that_is_taken(programs: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        address = f"127.0.0.1:{one.getsockname()[1]}"
        lines = lines_of(compiler(programs, "train", address))
        assert lines == [f"0 invalid argument: gRPC: cannot listen at {address}"]


def test_the_python_side_of_a_taken_port() -> None:
    import CompilerInterface

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        with pytest.raises(OSError, match="taken"):
            CompilerInterface.GrpcCompilerInterface(
                "server",
                hostport=one.getsockname()[1],
                add_server_method=lambda service, server: None,
                grpc_service_obj=object(),
                deadline=0.1,
            )


@pytest.mark.parametrize("mode", ["client", "server", "both"])
def test_missing_arguments(mode: str) -> None:
    import CompilerInterface

    with pytest.raises(ValueError, match=r"needs|unknown"):
        CompilerInterface.GrpcCompilerInterface(mode)
