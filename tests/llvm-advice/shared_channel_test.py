# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Real compilers that use one channel at once: they end, and the host serves the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from advising import BOTH, HANGS, PROGRAM, Place
from host_test import serving

import mlbridge
from mlbridge.llvm_channel.host import InteractiveHost
from mlbridge.llvm_channel.pair import ChannelPair

CHANNEL = {
    "inliner": ("-enable-ml-inliner=release", "-inliner-interactive-channel-base=c"),
    "regalloc-eviction": (
        "-regalloc-enable-advisor=release",
        "-regalloc-evict-interactive-channel-base=c",
    ),
}
COMMAND = (sys.executable, "-m", "mlbridge")


class Opening:
    """os.open, before which a compiler comes and goes, once."""

    def __init__(self, questions: Path) -> None:
        self.done, self._questions, self._open = False, questions, os.open

    def __call__(self, *arguments: Any, **options: Any) -> int:
        if not self.done:
            self.done = True
            writer = self._open(self._questions, os.O_WRONLY)
            os.write(writer, b"half")
            os.close(writer)
        return self._open(*arguments, **options)


SITES = pytest.mark.parametrize("site", CHANNEL)


def compiler(site: str, version: int, place: Place, result: str) -> list[str]:
    """One that asks about the program."""
    module = place.module(version)
    if site == "inliner":
        return [f"opt-{version}", "-passes=default<O2>", *CHANNEL[site], module, "-o", result]
    place.must(f"opt-{version}", "-passes=default<O2>", module, "-o", "optimized.bc")
    return [f"llc-{version}", *CHANNEL[site], "optimized.bc", "-o", result]


def users(channel: Path) -> int:
    """How often its questions are open for writing."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name != str(os.getpid()):
                opened = [str(file.readlink()) for file in (process / "fd").iterdir()]
                found += opened.count(f"{channel}.out")
        except OSError:  # it has ended, or is of another user
            continue
    return found


class AnswersWhenShared:
    """A policy that takes no decision before the channel has a second user, until it is alone."""

    def __init__(self, channel: Path) -> None:
        self.channel = channel
        self.alone = False

    def __call__(self, features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        until = time.monotonic() + HANGS
        while not self.alone and users(self.channel) < 2:
            assert time.monotonic() < until, "nobody else has come"
            os.sched_yield()
        return int(features["mask"].argmax()) if "mask" in features else 0


def serves_the_next(
    host: InteractiveHost, policy: AnswersWhenShared, site: str, place: Place
) -> None:
    policy.alone = True
    before = host.statistics.decisions
    place.must(*compiler(site, 22, place, "next"))
    assert host.statistics.decisions > before + 5
    assert host.statistics.defaults == 0
    assert "two compilers, or threads of one link" in host.statistics.first_broken


@BOTH
@SITES
def test_two_compilers_on_one_channel(site: str, version: int, place: Place) -> None:
    base = place.folder / "c"
    commands = [compiler(site, version, place, f"out{k}") for k in range(2)]
    policy = AnswersWhenShared(base)
    with serving(base, policy, deadline=HANGS) as host:
        both = [subprocess.Popen(words, cwd=place.folder) for words in commands]
        assert [one.wait(HANGS) for one in both] == [-signal.SIGTERM] * 2
        assert not list(place.folder.glob("out*"))
        serves_the_next(host, policy, site, place)


@SITES
def test_a_parallel_link_on_one_channel(site: str, place: Place) -> None:
    base = place.folder / "c"
    objects = []
    for number in range(4):
        part = place.folder / f"part{number}.c"
        text = PROGRAM.read_text().replace("int main(void)", f"int part{number}(void)")
        part.write_text(text.replace("unsigned blend(", f"unsigned blend{number}(", 1))
        part.write_text(part.read_text().replace("blend(values", f"blend{number}(values"))
        objects.append(part.with_suffix(".o").name)
        place.must("clang-22", "-O2", "-flto=thin", "-c", part, "-o", objects[-1])
    calls = "".join(f"int part{n}(void);" for n in range(4))
    sums = "+".join(f"part{n}()" for n in range(4))
    (place.folder / "main.c").write_text(f"{calls} int main(void) {{ return {sums}; }}")

    def link(jobs: int) -> list[str]:
        words = [f"-Wl,-mllvm,{option}" for option in CHANNEL[site]]
        driver = ["clang-22", "-O2", "-flto=thin", "-fuse-ld=lld-22", f"-Wl,--thinlto-jobs={jobs}"]
        return [*driver, *words, "main.c", *objects, "-o", "linked"]

    policy = AnswersWhenShared(base)
    with serving(base, policy, deadline=HANGS) as host:
        assert place.call(*link(4)).returncode != 0
        assert not (place.folder / "linked").exists()
        serves_the_next(host, policy, site, place)
        # With one thread its modules come one after another.
        broken, before = host.statistics.broken, host.statistics.decisions
        place.must(*link(1))
        assert host.statistics.broken == broken
        assert host.statistics.decisions > before + 5
    assert place.must("./linked") == 4 * place.expected()


@BOTH
def test_a_compiler_that_is_killed_while_it_waits(version: int, place: Place) -> None:
    asked, killed = threading.Event(), threading.Event()

    def policy(features: Mapping[str, Any], context: mlbridge.CallContext) -> int:
        asked.set()
        assert killed.wait(HANGS)
        return int(features["mask"].argmax())

    llc = compiler("regalloc-eviction", version, place, "next")
    with serving(place.folder / "c", policy, deadline=HANGS) as host:
        dying = subprocess.Popen(llc, cwd=place.folder)
        assert asked.wait(HANGS)
        dying.kill()
        dying.wait(HANGS)
        killed.set()
        place.must(*llc)
    assert host.statistics.compilers == 2 and host.statistics.broken == 0


def test_a_link_under_mlbridge_run_is_not_advised(place: Place) -> None:
    words = ["clang-22", "-O2", "-flto=thin", "-fuse-ld=lld-22", "-Wl,--thinlto-jobs=4"]
    advised = "--advise=inliner=policy.py:inline"
    ran = place.run(advised, "--", *words, str(PROGRAM), "-o", "program")
    assert (ran.code, ran.said) == (0, "")
    assert ran.sites["inliner"]["compilers"] == 1  # the compilation
    assert place.must("./program") == place.expected()


@pytest.mark.parametrize("opens_again", [False, True])
def test_a_compiler_that_comes_and_goes_within_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens_again: bool
) -> None:
    """It has gone when it is noticed, and what it sent is not taken for one that is still there."""
    pair = ChannelPair(str(tmp_path / "c"))
    real = os.read

    def compiler(descriptor: int, most: int) -> bytes:
        nobody = real(descriptor, most)
        monkeypatch.undo()
        with open(tmp_path / "c.out", "wb", buffering=0) as questions:
            questions.write(b"half")
        return nobody

    if opens_again:  # after one that has hung up
        with open(tmp_path / "c.out", "wb"):
            pass
        monkeypatch.setattr(os, "open", opening := Opening(tmp_path / "c.out"))
        assert pair.read() == b"" and opening.done
    else:
        monkeypatch.setattr(os, "read", compiler)
    assert pair.read() == b"half"
    assert pair.read(HANGS) == b""
    pair.close()


def test_a_server_says_at_once_what_went_wrong(place: Place) -> None:
    base = place.folder / "c"
    server = subprocess.Popen(
        [*COMMAND, "serve", "policy.py:inline", "--at", f"llvm-interactive:{base}"],
        cwd=place.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None and server.stderr is not None
    assert server.stdout.readline().startswith("ready")
    with open(f"{base}.out", "wb", buffering=0) as questions:
        questions.write(b'{"features":')
    assert server.stderr.readline() == "mlbridge serve: a compiler ended after 12 bytes of a line\n"
    server.terminate()
    assert server.wait(HANGS) == 0
    server.communicate()
