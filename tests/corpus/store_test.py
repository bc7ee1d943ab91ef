# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a corpus: reading, splitting, sharing out, damage, writes that fail."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlbridge import InvalidArgument, InvalidModel, LimitExceeded, NotFound, corpus
from mlbridge.corpus import Module, store

PARTS = {"training": 6.0, "validation": 2.0, "test": 2.0}


def module(number: int, program: str, size: int = 100) -> Module:
    fields: dict[str, Any] = {"version": "1", "language": "c", "flags": ("-Oz",)}
    return Module(
        hash=f"{number:040x}",
        program=program,
        source=f"{number}.c",
        target="x86_64-pc-linux-gnu",
        bytes=size,
        oz_code_bytes=None,
        shard="",
        row=0,
        **fields,
    )


Fill = Callable[..., Path]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Appends modules of some bytes each, numbered from `first`, to programs in turn."""

    def add(programs: list[str], count: int, first: int = 0, size: int = 3000) -> Path:
        place = tmp_path / "a corpus"

        def found() -> Iterator[tuple[Module, Path]]:
            for number in range(first, first + count):
                file = tmp_path / "bitcode"
                file.write_bytes(number.to_bytes(4, "big") * (size // 4))
                yield module(number, programs[number % len(programs)]), file

        with store.lock(place):
            store.append(place, found())
        return place

    return add


def test_what_was_added_is_read(fill: Fill, tmp_path: Path) -> None:
    place = fill(["p", "q"], 5)
    fill(["r"], 3, first=4)  # one is there
    made = corpus.open(place)
    assert [m.hash for m in made] == [f"{n:040x}" for n in range(7)]
    assert [m.program for m in made] == ["p", "q", "p", "q", "p", "r", "r"]
    for number, m in enumerate(made):
        assert made.read(m) == number.to_bytes(4, "big") * 750
    last = made.modules[-1]
    path = made.extract(last, tmp_path / "out")
    assert path == tmp_path / "out" / f"{6:040x}.bc" and path.read_bytes() == made.read(last)
    (place / "shards").rename(place / "gone")
    assert made.extract(last, tmp_path / "out") == path
    with pytest.raises(NotFound, match=r"shards/00000-\w{8}.parquet is not there"):
        made.read(next(iter(made)))


def test_modules_are_found_by_hash_and_name(fill: Fill) -> None:
    made = corpus.open(fill(["p"], 3))
    assert made.find(f"{2:040x}").source == "2.c"
    assert made.find("p/1.c").source == "1.c"
    with pytest.raises(InvalidArgument, match="'00000' is 3 modules: 0"):
        made.find("00000")
    with pytest.raises(NotFound, match=r"no module 'p/9\.c'"):
        made.find("p/9.c")


def test_workers_share_the_modules_and_not_the_shards(fill: Fill) -> None:
    made = corpus.open(fill(["p"], 40, size=store.SHARD_BYTES // 4))
    shards = {m.shard for m in made}
    assert len(shards) == 10
    for workers in (1, 2, 3, 10):
        shares = [made.shard(worker, workers) for worker in range(workers)]
        assert sorted(m.hash for share in shares for m in share) == [m.hash for m in made]
        read = [{m.shard for m in share} for share in shares]
        assert sum(map(len, read)) == len(shards)
    shares = [made.shard(worker, 15) for worker in range(15)]
    assert sorted(m.hash for share in shares for m in share) == [m.hash for m in made]
    assert all(len(share) in (2, 3) for share in shares)
    with pytest.raises(InvalidArgument, match="worker 2 of 2; expected 0 to 1"):
        made.shard(2, 2)


def test_a_split_is_by_program_and_stays(fill: Fill) -> None:
    programs = [f"program {n}" for n in range(20)]
    place = fill(programs, 60)
    made = corpus.open(place).split(PARTS, seed=7)
    sizes = {name: len({m.program for m in made.part(name)}) for name in PARTS}
    assert sizes == {"training": 12, "validation": 4, "test": 4}
    hashes = [{m.hash for m in made.part(name)} for name in PARTS]
    assert sum(map(len, hashes)) == len(set.union(*hashes)) == 60
    before = (place / "split.json").read_bytes()
    assert corpus.open(place).split(PARTS, seed=7).parts == made.parts
    assert (place / "split.json").read_bytes() == before
    with pytest.raises(InvalidArgument, match=r'already split, with \{"seed": 7'):
        made.split(PARTS, seed=8)
    fill(["late", "later"], 2, first=100)
    assert len(corpus.open(place).part("training")) == len(made.part("training"))
    after = made.split(PARTS, seed=7).parts
    assert after.items() > made.parts.items() and set(after) - set(made.parts) == {"late", "later"}
    (place / "split.json").unlink()
    assert made.split(PARTS, seed=8).parts != after
    with pytest.raises(NotFound, match="no part 'dev'; there are: test, training, validation"):
        corpus.open(place).part("dev")


def test_a_stated_part_is_not_changed(fill: Fill) -> None:
    place = fill(["p", "q"], 4)
    store.assign(place, {"p": "demo"})
    assert len(corpus.open(place).part("demo")) == 2
    with pytest.raises(InvalidArgument, match="p is in 'demo', and cannot be in 'training'"):
        store.assign(place, {"q": "demo", "p": "training"})
    assert corpus.open(place).parts == {"p": "demo"}


@pytest.mark.parametrize("parts", [{}, {"a": 0.0}, {"a": -1.0, "b": 2.0}, {"../a": 1.0}])
def test_senseless_parts(fill: Fill, parts: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match="expected names with positive shares"):
        corpus.open(fill(["p"], 1)).split(parts, seed=1)


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a b", "a\nb", "-x", "a" * 101])
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(InvalidArgument, match="is no name of a corpus"):
        corpus.open(name)


def test_what_is_no_corpus_is_named(tmp_path: Path, home: Path, fill: Fill) -> None:
    shutil.copytree(fill(["p"], 1), home / "there")
    assert corpus.names() == ["there"] and len(corpus.open("there")) == 1
    with pytest.raises(NotFound, match=r"corpora/other: no corpus .*; corpora with names: there"):
        corpus.open("other")
    with pytest.raises(NotFound, match="no corpus"):
        corpus.open(tmp_path)


def rewritten(place: Path, **changes: Any) -> None:
    """The manifest with other values in its first row."""
    table = pq.read_table(place / store.MANIFEST)
    rows = table.to_pylist()
    rows[0].update(changes)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), place / store.MANIFEST)


@pytest.mark.parametrize(
    "changes",
    [
        {"hash": "../../../tmp/x"},
        {"hash": None},
        {"hash": f"{1:040x}"},
        {"shard": "../../secret"},
        {"shard": None},
        {"program": None},
    ],
)
def test_a_hostile_manifest(fill: Fill, changes: dict[str, Any]) -> None:
    place = fill(["p"], 2)
    rewritten(place, **changes)
    with pytest.raises(InvalidModel, match=r"t: (not a module|a hash is listed twice)"):
        corpus.open(place)


@pytest.mark.parametrize("cut", [0, 3, 100, -1])
def test_a_truncated_manifest(fill: Fill, cut: int) -> None:
    place = fill(["p"], 2)
    path = place / store.MANIFEST
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InvalidModel, match=r"manifest\.parquet: cannot be read"):
        corpus.open(place)


def test_another_table_is_no_manifest(fill: Fill) -> None:
    place = fill(["p"], 1)
    pq.write_table(pa.table({"hash": ["0" * 40]}), place / store.MANIFEST)
    with pytest.raises(InvalidModel, match="not a manifest of version 1"):
        corpus.open(place)


def test_a_damaged_shard_is_never_taken_for_bitcode(fill: Fill) -> None:
    place = fill(["p"], 2, size=400)
    [shard] = (place / "shards").iterdir()
    whole = shard.read_bytes()
    right = {m.hash: corpus.open(place).read(m) for m in corpus.open(place)}
    refused = 0
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        shard.write_bytes(damaged)
        made = corpus.open(place)
        for m in made:
            try:
                assert made.read(m) == right[m.hash]
            except InvalidModel:
                refused += 1
    assert refused > len(whole) // 7
    shard.write_bytes(whole[: len(whole) // 2])
    made = corpus.open(place)
    with pytest.raises(InvalidModel, match="cannot be read"):
        made.read(next(iter(made)))


@pytest.mark.parametrize("text", ["{", "[]", '{"programs": {"p": 1}}', '{"parts": {}}'])
def test_a_damaged_split(fill: Fill, text: str) -> None:
    place = fill(["p"], 1)
    (place / "split.json").write_text(text)
    with pytest.raises(InvalidModel, match=r"split\.json: not (a split|JSON)"):
        corpus.open(place)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupted_addition_leaves_what_was_there(
    fill: Fill, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At each of its writes: four shards and the manifest, before they are whole or appear."""
    place = fill(["p"], 3)
    before = corpus.open(place).modules
    original = getattr(os, step)
    for number in range(5):
        left = [True] * number

        def interrupted(*arguments: Any, left: list[bool] = left) -> Any:
            if not left:
                raise Killed
            left.pop()
            return original(*arguments)

        monkeypatch.setattr(os, step, interrupted)
        with pytest.raises(Killed):
            fill(["q"], 8, first=100, size=store.SHARD_BYTES // 2)
        monkeypatch.setattr(os, step, original)
        now = corpus.open(place)
        assert now.modules == before and all(now.read(m) for m in now)
    fill(["q"], 8, first=100)
    made = corpus.open(place)
    assert len(made) == 11
    assert {f"{m.shard}.parquet" for m in made} == {p.name for p in (place / "shards").iterdir()}


def test_a_full_disk_is_said_and_leaves_what_was_there(fill: Fill) -> None:
    place = fill(["p"], 3)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))  # EFBIG, as ENOSPC is
    try:
        with pytest.raises(LimitExceeded, match=r"shards/\S+: cannot be written: File too large"):
            store.write(place / "shards" / "x", bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(corpus.open(place)) == 3
    assert [p.name[0] for p in (place / "shards").iterdir()] == ["0"]


def test_the_format_is_stated(fill: Fill) -> None:
    place = fill(["p"], 1)
    assert pq.read_schema(place / store.MANIFEST).metadata[b"mlbridge.corpus"] == b"1"
    assert json.loads(json.dumps(next(iter(corpus.open(place))).__dict__))["source"] == "0.c"
