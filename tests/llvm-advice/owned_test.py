# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A host ends compilers that have begun a conversation with it, and no other process; it removes
the FIFOs that it made, and no other file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from advising import HANGS
from host_test import CHILD, INLINING, QUESTION, compiler, positive, serving

import mlbridge
from mlbridge.llvm_channel.guardian import Guardian
from mlbridge.llvm_channel.host import InteractiveHost
from mlbridge.llvm_channel.pair import ChannelPair
from mlbridge.processes import Process

SIGNATURE = mlbridge.Signature(
    [mlbridge.TensorSpec("a", "int64", [1])], [mlbridge.TensorSpec("b", "int64", [1])]
)
SERVER = """
import sys, mlbridge
signature = mlbridge.Signature(
    [mlbridge.TensorSpec("a", "int64", [1])], [mlbridge.TensorSpec("b", "int64", [1])]
)
with mlbridge.Server(sys.argv[1], signature) as server:
    print("ready", flush=True)
    server.serve_forever(lambda features, context: features["a"] + 1)
"""
#: Opens files, says so, and ends when its standard input does.
STRANGER = """
import os, sys
for path, mode in zip(sys.argv[1::2], sys.argv[2::2]):
    os.open(path, {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}[mode] | os.O_NONBLOCK)
print("open", flush=True)
sys.stdin.read()
"""
OPENED = {
    "reads answers": ("in", "r"),
    "writes answers": ("in", "w"),
    "has both ends of the answers": ("in", "rw"),
    "reads questions": ("out", "r"),
    "writes questions": ("out", "w"),
    "has it open as a compiler has": ("in", "r", "out", "w"),
    "has it open as a server has": ("out", "r", "in", "w"),
}
LIKE_A_COMPILER = OPENED["has it open as a compiler has"]
STRANGERS = pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED.keys())


@contextlib.contextmanager
def stranger(base: Path, opened: tuple[str, ...]) -> Iterator[subprocess.Popen[str]]:
    """A process that has some of the FIFOs open, and must still be there at the end."""
    words = [f"{base}.{word}" if k % 2 == 0 else word for k, word in enumerate(opened)]
    with started(STRANGER, *words) as process:
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        yield process
        assert process.poll() is None, "it was ended"
        process.communicate(timeout=HANGS)
    assert process.returncode == 0


@contextlib.contextmanager
def started(program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program in Python, which is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def broken(base: Path) -> subprocess.Popen[bytes]:
    """A compiler that begins, and sends half a question."""
    sent = json.dumps(INLINING) + '\n{"observation":0}\n'
    return subprocess.Popen([sys.executable, "-c", CHILD, str(base), sent])


def until_broken(host: InteractiveHost) -> None:
    until = time.monotonic() + HANGS
    while not host.statistics.broken:
        assert time.monotonic() < until
        time.sleep(0.01)


@STRANGERS
def test_one_that_has_the_channel_open_before(opened: tuple[str, ...], tmp_path: Path) -> None:
    for side in ("in", "out"):
        os.mkfifo(tmp_path / f"c.{side}")
    keeper = os.open(tmp_path / f"c.{opened[0]}", os.O_RDWR)  # so that it can write
    also = os.open(tmp_path / f"c.{opened[-2]}", os.O_RDWR)
    with stranger(tmp_path / "c", opened) as process:
        with pytest.raises(mlbridge.Busy, match=rf"open in process {process.pid} \(python"):
            InteractiveHost(tmp_path / "c", positive)
        assert len(list(tmp_path.iterdir())) == 2
    os.close(keeper)
    os.close(also)
    InteractiveHost(tmp_path / "c", positive).close()


@STRANGERS
def test_one_that_opens_the_channel_meanwhile(opened: tuple[str, ...], tmp_path: Path) -> None:
    base = tmp_path / "c"
    with contextlib.ExitStack() as left, serving(base, positive, deadline=0.1) as host:
        left.enter_context(stranger(base, opened))
        child = broken(base)
        if opened != LIKE_A_COMPILER:
            assert child.wait(HANGS) == -signal.SIGTERM
        else:  # it is not known which of the two has written
            until_broken(host)
            assert child.poll() is None
            assert "not known whether they are compilers" in host.statistics.first_broken
            child.kill()
            child.wait(HANGS)


def test_a_silent_one_is_told_from_a_compiler_that_was_there_before(tmp_path: Path) -> None:
    base, asked = tmp_path / "c", threading.Event()

    def policy(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        asked.set()
        return 1

    sent = json.dumps(INLINING) + '\n{"context":""}\n' + QUESTION
    waits = CHILD + "\ntime.sleep(999)"
    with contextlib.ExitStack() as left:
        with serving(base, policy, deadline=HANGS):
            child = subprocess.Popen([sys.executable, "-c", waits, str(base), sent])
            assert asked.wait(HANGS)
            left.enter_context(stranger(base, LIKE_A_COMPILER))
        assert child.wait(HANGS) == -signal.SIGTERM


def test_one_that_sends_something_else_is_left_alone(tmp_path: Path) -> None:
    base = tmp_path / "c"
    with serving(base, positive, deadline=0.1) as host:
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(base), "hello\n"])
        until_broken(host)
        # It would take the answer of the next one, which is not left waiting.
        assert broken(base).wait(HANGS) == -signal.SIGTERM
        assert child.poll() is None
    assert child.wait(HANGS) == 0  # there are no more answers
    assert "what is not the format" in host.statistics.first_broken


def test_a_server_at_a_pipe_of_that_name(tmp_path: Path) -> None:
    base = tmp_path / "c"
    with started(SERVER, f"pipe:{base}") as server:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        for connected in (False, True):
            runner = None
            if connected:
                model = mlbridge.Model.open(f"pipe:{base}", deadline=HANGS)
                model.bind(SIGNATURE)
                runner = model.new_runner()
                assert runner.evaluate({"a": np.array([1])})["b"] == [2]
            words = ["serve", "policy.py:inline", "--at", f"llvm-interactive:{base}"]
            (tmp_path / "policy.py").write_text("def inline(features, context): return 0")
            done = subprocess.run(
                [sys.executable, "-m", "mlbridge", *words],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=HANGS,
                check=False,
            )
            assert done.returncode != 0
            assert "another host answers there, or a server at pipe:" in done.stderr
            assert server.poll() is None
            if runner is not None:
                assert runner.evaluate({"a": np.array([2])})["b"] == [3]


def test_a_server_at_a_pipe_finds_a_host(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "c", positive),
        pytest.raises(mlbridge.Busy, match="another server is at"),
    ):
        mlbridge.Server(f"pipe:{tmp_path}/c")
    with serving(tmp_path / "c", positive), compiler(tmp_path / "c") as opt:
        opt.begin()
        assert opt.decide(1) == 1


def test_files_that_have_taken_the_place_of_a_fifo_stay(tmp_path: Path) -> None:
    pair = ChannelPair(str(tmp_path / "c"))
    (tmp_path / "c.in").unlink()
    (tmp_path / "c.in").write_text("precious")
    pair.close()
    assert [path.name for path in tmp_path.iterdir()] == ["c.in"]


def test_nothing_is_left_of_a_channel_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "c.in").write_text("precious")
    with pytest.raises(mlbridge.InvalidArgument):
        ChannelPair(str(tmp_path / "c"))
    assert [path.name for path in tmp_path.iterdir()] == ["c.in"]


def test_a_process_is_told_from_one_with_its_number() -> None:
    with subprocess.Popen(["sleep", "99"]) as child:
        found = Process.of(child.pid)
        assert found is not None
        before = found._replace(began=found.began - 1)
        assert not before.signal(signal.SIGKILL)
        assert not before.signal_group(signal.SIGKILL)
        assert child.poll() is None
        assert found.signal(signal.SIGKILL)
        assert child.wait(HANGS) == -signal.SIGKILL
        assert not found.signal(signal.SIGKILL)


def test_a_guardian_ends_who_it_was_told_of(tmp_path: Path) -> None:
    """And neither a process that has the number of one that has ended, nor one that has gone on
    without the channel."""
    for side in ("in", "out"):
        os.mkfifo(tmp_path / f"c.{side}")
    files = [(found.st_dev, found.st_ino) for found in (p.stat() for p in tmp_path.iterdir())]
    opened = "import os, sys; os.open(sys.argv[1], os.O_RDWR); print(1, flush=True); os.read(0, 1)"
    words = [sys.executable, "-c", opened]
    with contextlib.ExitStack() as stack:
        asks, asked, other = (
            stack.enter_context(
                subprocess.Popen([*words, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for path in (str(tmp_path / "c.in"), "/dev/null", str(tmp_path / "c.in"))
        )
        known = []
        for process in (asks, asked, other):
            assert process.stdout is not None and process.stdout.readline() == b"1\n"
            known.append(Process.of(process.pid))
        told = [process for process in known if process is not None]
        guardian = Guardian([])
        guardian.compiler(told[0], (files[0], files[1]))
        guardian.compiler(told[1], (files[0], files[1]))
        guardian.compiler(told[2]._replace(began=told[2].began - 1), (files[0], files[1]))
        os.close(guardian._write)  # as if this process had been killed
        assert asks.wait(HANGS) == -signal.SIGTERM
        assert asked.poll() is None and other.poll() is None
        asked.communicate(b"x", timeout=HANGS)
        other.communicate(b"x", timeout=HANGS)
        assert (asked.returncode, other.returncode) == (0, 0)


def test_a_compiler_that_a_killed_host_has_left_is_named(tmp_path: Path) -> None:
    """If what should have ended it was killed as well."""
    base = tmp_path / "c"
    host = "import sys; from mlbridge.llvm_channel.pair import ChannelPair as C; c = C(sys.argv[1])"
    host += "; print(1, flush=True); c.wait(); print(2, flush=True); c.read(); sys.stdin.read()"
    asks = CHILD + "\ntime.sleep(999)"
    with contextlib.ExitStack() as stack:
        killed = stack.enter_context(started(host, str(base)))
        assert killed.stdout is not None and killed.stdout.readline() == "1\n"
        child = stack.enter_context(started(asks, str(base), '{"features":'))
        assert killed.stdout.readline() == "2\n"
        killed.kill()
        killed.wait(HANGS)
        with pytest.raises(mlbridge.Busy, match=f"process {child.pid}"):
            ChannelPair(str(base))
        assert child.poll() is None
    ChannelPair(str(base)).close()
