# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes with a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from mlbridge import DeadlineExceeded, NotFound
from mlbridge.process_runner import KEPT, run


def test_what_a_command_gives(tmp_path: Path) -> None:
    ran = run("pwd; echo no >&2; cat; exit 3", tmp_path, timeout=60)
    assert (ran.code, ran.stdout.text, ran.stderr.text) == (3, f"{tmp_path}\n", "no\n")
    assert ran.seconds > 0
    assert run(["sh", "-c", "kill -9 $$"], timeout=60).code == -signal.SIGKILL


def test_outputs_of_any_length_are_compared_whole() -> None:
    program = "import sys; sys.stdout.write('x' * 3_000_000 + sys.argv[1])"
    first, same, other = (
        run([sys.executable, "-c", program, end], timeout=60).stdout for end in "aab"
    )
    assert first == same and first != other
    assert first.size == 3_000_001 and len(first.head) == len(first.tail) == KEPT


def test_input_comes_from_a_file_and_outputs_are_kept_as_long_as_wanted(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"x" * 200_000)
    ran = run(["cat"], timeout=60, stdin=tmp_path / "in", keep=150_000)
    assert ran.stdout.head == b"x" * 150_000 and ran.stdout.size == 200_000
    with pytest.raises(NotFound, match="can't be started: No such file"):
        run(["cat"], timeout=60, stdin=tmp_path / "none")


def test_a_process_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    # The shell's child holds the write end of the FIFO until it is dead.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(DeadlineExceeded, match=r"`sleep 600 > fifo.* did not end within 0\.5 s"):
        run("sleep 600 > fifo & sleep 600", tmp_path, timeout=0.5)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)
    with pytest.raises(DeadlineExceeded):
        run("yes", timeout=0.5)


def test_what_is_left_running_neither_delays_nor_survives(tmp_path: Path) -> None:
    assert run("sleep 600 & echo out", tmp_path, timeout=60).stdout.text == "out\n"
    # In a session of its own it survives, and writes without end.
    ran = run(
        "setsid sh -c 'echo $$ > pid; exec yes' & sleep 1; echo out >&2", tmp_path, timeout=60
    )
    assert ran.stderr.text == "out\n"
    with contextlib.suppress(ProcessLookupError):  # nobody reads what it writes any more
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("command", [["no-such-command"], "a\0b"])
def test_what_cannot_be_started_is_named(command: str | list[str]) -> None:
    with pytest.raises(NotFound, match="can't be started"):
        run(command, timeout=60)
