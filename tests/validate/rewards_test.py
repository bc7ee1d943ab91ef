# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rewards against the tools themselves, and a cache that is damaged, full, shared and killed."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
from pathlib import Path

import pytest

from mlbridge import DeadlineExceeded, InvalidArgument, NotFound, PolicyFailed, Unsupported
from mlbridge.elf import file_executable_bytes
from mlbridge.rewards import Cache, Reward, Size, Throughput, run_time

SOURCE = """
int total(const int *values, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i)
    sum += values[i] * 3;
  return sum;
}
static int twice(int x) { return 2 * x; }
int (*const exported)(int) = twice;
"""
PASSES = "function(sroa,instcombine<no-verify-fixpoint>,simplifycfg)"


class Modules:
    """A module as the front end leaves it, after a few passes, and the object of clang -Oz."""

    def __init__(self, folder: Path, *target: str) -> None:
        self.plain, self.better, self.object = (folder / n for n in ("f.bc", "g.bc", "f.o"))
        (folder / "f.c").write_text(SOURCE)
        clang = ["clang-22", *target, "-Oz", "-c", str(folder / "f.c"), "-o"]
        unoptimized = ["-Xclang", "-disable-llvm-passes", "-emit-llvm"]
        subprocess.run([*clang, str(self.object)], check=True, timeout=60)
        subprocess.run([*clang, str(self.plain), *unoptimized], check=True, timeout=60)
        opt = ["opt-22", f"-passes={PASSES}", str(self.plain), "-o", str(self.better)]
        subprocess.run(opt, check=True, timeout=60)


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "rewards.sqlite")


@pytest.mark.parametrize("target", ["x86_64-pc-linux-gnu", "aarch64-linux-gnu"])
def test_size_is_that_of_the_object(tmp_path: Path, target: str) -> None:
    modules = Modules(tmp_path, f"--target={target}")
    size = Size()
    expected = file_executable_bytes(modules.object)
    assert size.baseline(modules.plain) == size.value(modules.object) == expected
    got = size.reward(modules.better, modules.plain)
    assert 0 < got.value < size.value(modules.plain)
    assert (got.unit, got.baseline) == ("bytes", expected)
    assert got.reward == pytest.approx((expected - got.value) / expected)


@pytest.mark.parametrize("target", ["x86_64-pc-linux-gnu", "aarch64-linux-gnu"])
def test_throughput_is_the_sum_over_the_functions(tmp_path: Path, target: str) -> None:
    modules = Modules(tmp_path, f"--target={target}")
    got = Throughput().reward(modules.better, modules.plain)
    assert got.unit == "cycles" and got.value > 0
    cycles = 0.0
    for function in ("total", "twice"):
        one = tmp_path / f"{function}.s"
        command = ["clang-22", f"--target={target}", "-Oz", "-S", "-o", "-"]
        command.append(str(tmp_path / "f.c"))
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        body = re.search(rf"(?s)\n{function}:(.*?)\.Lfunc_end", text)
        assert body is not None
        code = [line for line in body[1].splitlines() if not line.startswith("\t.")]
        one.write_text("\n".join(code) + "\n")
        mca = ["llvm-mca-22", f"-mtriple={target}", "-mcpu=generic", str(one)]
        said = subprocess.run(mca, check=True, capture_output=True, text=True).stdout
        found = re.search(r"Total Cycles: +(\d+)", said)
        assert found is not None
        cycles += int(found[1]) / 100
    assert got.baseline == pytest.approx(cycles)


def test_what_cannot_be_measured_is_named(modules: Modules, tmp_path: Path) -> None:
    (tmp_path / "-bad.bc").write_bytes(b"BC\xc0\xdeno module")
    with pytest.raises(InvalidArgument, match=r"-bad\.bc: llvm-dis-22 ended with 1: .*error"):
        Size().value(tmp_path / "-bad.bc")
    with pytest.raises(InvalidArgument, match=r"none\.bc can't be read: No such file"):
        Size().value(tmp_path / "none.bc")
    with pytest.raises(Unsupported, match=r"f\.o is an object; llvm-mca needs a module"):
        Throughput().value(modules.object)
    with pytest.raises(NotFound, match=r"`no-such-clang.* can't be started"):
        Size(clang="no-such-clang").baseline(modules.plain)
    with pytest.raises(InvalidArgument, match="llvm-mca-22 ended with 1"):
        Throughput(cpu="no-such-cpu").baseline(modules.plain)
    with pytest.raises(DeadlineExceeded):
        Size(timeout=1e-6).baseline(modules.plain)
    empty = tmp_path / "empty.ll"
    empty.write_text("")
    assert Throughput().reward(empty, empty) == Reward(0, 0, "cycles")
    assert Reward(0, 0, "bytes").reward == 0 and Reward(1, 0, "bytes").reward == -1


def test_the_time_of_a_command(tmp_path: Path) -> None:
    timed = run_time("echo a", "sleep 0.2; echo a", cwd=tmp_path, repeat=3)
    assert timed.unit == "s" and timed.ratio.count == 3
    assert timed.baseline >= 0.2
    for command, why in (("echo b", "printed something else"), ("exit 3", "ended with 3")):
        with pytest.raises(PolicyFailed, match=why):
            run_time(command, "echo a")
    with pytest.raises(InvalidArgument, match="the baseline `exit 3` ended with 3"):
        run_time("exit 3", "exit 3")


def test_a_cached_number_needs_no_tool(modules: Modules, tmp_path: Path, cache: Cache) -> None:
    tool = tmp_path / "clang"
    tool.write_text('#!/bin/sh\necho ran >> "$0.log"\nexec clang-22 "$@"\n')
    tool.chmod(0o755)
    log = tmp_path / "clang.log"
    size = Size(clang=str(tool), cache=cache)
    expected = size.reward(modules.better, modules.plain)
    ran = len(log.read_text().splitlines())
    shutil.copy(modules.plain, tmp_path / "other.bc")  # the same content
    assert size.reward(modules.better, tmp_path / "other.bc") == expected
    assert len(log.read_text().splitlines()) == ran
    # Another level is something else; so is what is measured without passes.
    assert Size("O2", clang=str(tool), cache=cache).baseline(modules.plain) > 0
    assert len(log.read_text().splitlines()) == ran + 1
    assert size.value(modules.plain) > size.baseline(modules.plain)


def test_keys_are_kind_version_and_content(cache: Cache) -> None:
    keys = [("a", "b", b"c"), ("ab", "", b"c"), ("a", "bc", b""), ("a", "b", b"d"), ("", "", b"")]
    for number, key in enumerate(keys):
        assert cache.get(*key, functools.partial(float, number / 3)) == number / 3
    for number, key in enumerate(keys):
        assert cache.get(*key, lambda: 99.0) == number / 3
    with pytest.raises(NotFound, match="expected a folder for the cache"):
        Cache("/no/such/folder/cache")


def test_a_failed_measurement_is_not_kept(cache: Cache) -> None:
    def fails() -> float:
        raise InvalidArgument("no")

    with pytest.raises(InvalidArgument):
        cache.get("k", "1", b"c", fails)
    assert cache.get("k", "1", b"c", lambda: 2.0) == 2.0


def kept(cache: Cache, number: float) -> float:
    """What the cache has for this number, which is measured as itself."""
    return cache.get("k", "1", b"%d" % number, lambda: number)


def filled(cache: Cache, count: int = 200) -> None:
    for number in range(count):
        kept(cache, number)


def aside(cache: Cache) -> list[Path]:
    return sorted(cache.path.parent.glob(f"{cache.path.name}.damaged-*"))


@pytest.mark.parametrize("damage", ["text", "cut", "middle", "value", "zeros"])
def test_a_damaged_file_is_put_aside_with_a_warning(
    cache: Cache, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    filled(cache)
    data = bytearray(cache.path.read_bytes())
    if damage == "text":
        data[:] = b"this is no database\n" * 100
    elif damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "middle":
        data[4096:] = os.urandom(len(data) - 4096)
    elif damage == "value":
        at = data.index(struct.pack("<d", 77.0))
        data[at : at + 8] = struct.pack("<d", 78.0)
    else:
        data[4096:8192] = bytes(4096)
    cache.path.write_bytes(data)
    for _ in range(2):
        for number in range(200):
            assert kept(cache, number) == number
    (old,) = aside(cache)
    assert old.read_bytes() == data
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING and "put aside as" in warning.getMessage()


def test_a_file_that_cannot_be_written_means_uncached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    cache = Cache(tmp_path / "folder")
    for value in (1.0, 2.0):
        assert kept(cache, value) == value
    (warning,) = caplog.records
    assert "going on without this cache" in warning.getMessage()


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE measured (name TEXT)")
    before = path.read_bytes()
    assert Cache(path).get("k", "1", b"", lambda: 1.0) == 1.0
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def on_a_full_disk(path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (24576, 24576))
    cache = Cache(path)
    for _ in range(2):
        for number in range(600):
            assert kept(cache, number) == number


def test_a_full_disk_means_uncached_and_nothing_wrong(cache: Cache) -> None:
    process = multiprocessing.get_context("fork").Process(target=on_a_full_disk, args=[cache.path])
    process.start()
    process.join(300)
    assert process.exitcode == 0
    assert cache.path.stat().st_size <= 24576
    filled(cache)
    assert not aside(cache)
    with sqlite3.connect(cache.path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def write_for_ever(path: Path, first: int) -> None:
    cache, number = Cache(path), first
    while True:
        number += 7
        value = float(number % 500)
        assert kept(cache, value) == value
        cache.get("own", f"{first}", b"%d" % number, lambda: 0.0)


def entries(cache: Cache) -> int:
    with sqlite3.connect(cache.path, timeout=60) as database:
        found: int = database.execute("SELECT count(*) FROM measured").fetchone()[0]
    return found


def test_many_processes_and_kills(cache: Cache) -> None:
    filled(cache, 1)
    context = multiprocessing.get_context("fork")
    for turn in range(4):
        before = entries(cache)
        writers = [
            context.Process(target=write_for_ever, args=[cache.path, n])
            for n in range(turn, 90, 30)
        ]
        for writer in writers:
            writer.start()
        while entries(cache) < before + 50:
            assert all(writer.is_alive() for writer in writers)
        for writer in writers:
            os.kill(writer.pid or 0, signal.SIGKILL)
            writer.join()
    for number in range(500):
        assert kept(cache, number) == number
    assert not aside(cache)


def test_two_that_find_it_damaged_put_aside_one_file(cache: Cache) -> None:
    filled(cache, 1)
    other = Cache(cache.path)
    cache.path.write_bytes(b"this is no database\n" * 100)
    error = sqlite3.DatabaseError("seen by both")
    cache._put_aside(error)
    filled(cache, 3)
    other._put_aside(error)  # it has seen the damage too, and comes second
    assert len(aside(cache)) == 1
    assert other.get("k", "1", b"2", lambda: 99.0) == 2
