# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server in Python decides as a model in process does, and nothing is lost without it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from stock import SOURCES, Compiler

ORDER = "30,5,23,39"


@contextlib.contextmanager
def server(uri: str, *behaviour: str) -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("policy_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), uri, *behaviour], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(params=["unix", "pipe"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path}/policy"


def falls_back(compiler: Compiler, model: str, *expected: str, **settings: object) -> None:
    made, said = compiler.object("words.c", "-Oz", model=model, **settings)  # type: ignore[arg-type]
    assert said.count("warning: phase-ordering: ") == 1, said
    for text in expected:
        assert text in said
    assert made == compiler.plain("words.c", "-Oz")


def test_a_server_decides_as_a_function_does(compiler: Compiler, address: str) -> None:
    expected = compiler.object("words.c", "-Oz", model=f"function:sequence?actions={ORDER}")[0]
    with server(address, "sequence", ORDER):
        for serdes in ("bitstream", "json"):
            made, said = compiler.object("words.c", "-Oz", model=f"{address}?serdes={serdes}")
            assert said == "" and made == expected


def test_many_compilers_at_once(compiler: Compiler, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/policy"
    line = compiler.options(address, deadline="60s")
    expected = compiler.object("library.cpp", "-Oz", model=f"function:sequence?actions={ORDER}")[0]
    with server(address, "sequence", ORDER):
        command = [compiler.tool("clang++"), "-Oz", *line, "-c", str(SOURCES / "library.cpp"), "-o"]
        running = [
            subprocess.Popen(
                [*command, str(compiler.folder / f"{i}.o")], stderr=subprocess.PIPE, text=True
            )
            for i in range(8)
        ]
        for process in running:
            assert process.communicate(timeout=120)[1] == ""
    assert {(compiler.folder / f"{i}.o").read_bytes() for i in range(8)} == {expected}


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_server_that_dies(compiler: Compiler, address: str, step: int) -> None:
    with server(address, "die", str(step)) as process:
        falls_back(compiler, address, f"step {step}")
        assert process.wait(30) == 3
        falls_back(compiler, address)


def test_a_policy_that_raises(compiler: Compiler, address: str) -> None:
    with server(address, "raise", "2"):
        for _ in range(2):  # the server lives on
            falls_back(compiler, address, "policy failed", "no idea about ", "words.c")


def test_a_server_that_never_answers(compiler: Compiler, address: str) -> None:
    with server(address, "block", "1"):
        falls_back(compiler, address, "deadline", deadline="500ms")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("49", "expected 0 to 48, got 49"), ("-1", "got -1"), ("text", "policy failed")],
)
def test_an_answer_of_no_use(compiler: Compiler, address: str, answer: str, expected: str) -> None:
    with server(address, "answer", answer):
        falls_back(compiler, address, expected)


def test_a_server_brings_its_own_list_of_actions(compiler: Compiler, address: str) -> None:
    listed = compiler.folder / "actions.json"
    listed.write_text(json.dumps({"version": 1, "actions": [{"name": "a", "passes": "sroa"}]}))
    with server(address, "actions", str(listed)):
        _, said = compiler.object("words.c", "-Oz", "-Rpass=phase-ordering", model=address)
        assert "step 0: a (action 0)" in said and "step 1: stop (action 1)" in said
    listed.write_text(json.dumps({"version": 1, "actions": [{"name": "a", "passes": "sroaa"}]}))
    with server(address, "actions", str(listed)):
        falls_back(compiler, address, "action 'a'", "sroaa")


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20, b"\xff" * 4096])
def test_a_peer_that_speaks_something_else(compiler: Compiler, sent: bytes) -> None:
    path = compiler.folder / "other.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(sent)

        thread = threading.Thread(target=answer)
        thread.start()
        falls_back(compiler, f"unix:{path}", deadline="2s")
        thread.join(30)
        assert not thread.is_alive()
