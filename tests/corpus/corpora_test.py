# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge corpus list`, `show` and `split`, and corpora as the environment's modules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Command

from mlbridge import InvalidArgument, InvalidModel, NotFound, corpus
from mlbridge.corpus import store
from mlbridge.gym import PhaseOrdering

SCRIPT = "clang-22 -c a.c; clang-22 -c b.c; clang++-22 -c c.cc"


@pytest.fixture
def mine(command: Command) -> corpus.Corpus:
    """A corpus of two programs."""
    command("add", "mine", "--program", "one", "--", "sh", "-ec", SCRIPT)
    command("add", "mine", "--program", "two", "--", "clang-22", "-DTWICE", "-c", "a.c")
    command("add", "mine", "--program", "two", "--", "clang-22", "-m32", "-c", "b.c")
    return corpus.open("mine")


def test_what_is_shown(command: Command, mine: corpus.Corpus, program: Path) -> None:
    assert [line.split() for line in command("list").stdout.splitlines()] == [
        ["name", "programs", "modules", "bitcode", "bytes", "disk", "bytes"],
        ["mine", "2", "4", *map(str, (sum(m.bytes for m in mine),)), *_disk(mine)],
    ]
    assert json.loads(command("list", "--json").stdout)[0]["path"] == str(mine.path)
    lines = [line.split() for line in command("show", "mine").stdout.splitlines()]
    assert [line[:2] for line in lines[1:]] == [["one", "3"], ["two", "1"]]
    shown = json.loads(command("show", "mine", "--json").stdout)
    assert [m["hash"] for m in shown["modules"]] == [m.hash for m in mine]
    module = mine.find("one/c.cc")
    text = command("show", "mine", module.hash[:8], "--extract", program / "out").stdout
    assert "language       c++" in text and f"{module.hash}.bc" in text
    assert (program / "out" / f"{module.hash}.bc").read_bytes() == mine.read(module)


def _disk(mine: corpus.Corpus) -> list[str]:
    return [str(sum(p.stat().st_size for p in mine.path.rglob("*.parquet")))]


def test_a_split_is_printed(command: Command, mine: corpus.Corpus) -> None:
    words = ("split", "mine", "--seed", "3", "--parts")
    done = command(*words, "training=1,test=1")
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["part", "programs"],
        ["training", "1"],
        ["test", "1"],
    ]
    again = json.loads(command(*words, "training=1,test=1", "--json").stdout)
    assert again["programs"] == corpus.open("mine").parts
    done = command(*words, "training=2,test=1", code=1)
    assert "already split" in done.stderr and len(done.stderr.splitlines()) == 1
    for wrong in ("training", "training=x", "a=1,a=2", "a=0", "a=nan", "a=inf", ""):
        assert "--parts" in command(*words, wrong, code=2).stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["add", "mine"], "expected either a build after --"),
        (["add", "mine", "--pypi", "x", "--", "make"], "expected either a build after --"),
        (["add", "mine", "--pypi", "x", "--debian", "y"], "not allowed with"),
        (["show", "mine", "--extract", "x"], "--extract needs a MODULE"),
        ([], "required: COMMAND"),
    ],
)
def test_wrong_command_lines(command: Command, words: list[str], why: str) -> None:
    command("add", "mine", "--", "clang-22", "-c", "a.c")
    done = command(*words, code=2)
    assert why in done.stderr and len(done.stderr.splitlines()) == 1


def test_hostile_names_are_printed_as_text(command: Command) -> None:
    command("add", "mine", "--version", "1\x1b[2J\n", "--", "clang-22", "-c", "a.c")
    said = command("show", "mine").stdout
    assert "1\\x1b[2J\\x0a" in said and "\x1b" not in said
    done = command("add", "mine", "--program", "a\nb", "--", "clang-22", "-c", "a.c", code=1)
    assert "expected a printable name" in done.stderr


def test_phase_ordering_takes_a_corpus(command: Command, mine: corpus.Corpus) -> None:
    command("split", "mine", "--seed", "3", "--parts", "training=1,test=1")
    cached = mine.place(next(iter(mine))).parent
    for given in ("mine", mine.path, str(mine.path), corpus.open("mine")):
        env = PhaseOrdering(given, part="training")
        wanted = {str(mine.place(m)) for m in corpus.open("mine").part("training")}
        assert set(env._session.units) == wanted
    assert not cached.exists()  # nothing is extracted before its turn
    _, info = env.reset(seed=1)
    assert info["unit"] in wanted and [str(p) for p in cached.iterdir()] == [info["unit"]]
    state = env.state()
    Path(info["unit"]).unlink()
    _, _, terminated, _, info = env.restore(state)
    assert not terminated and Path(info["unit"]).is_file()
    env.close()
    assert len(PhaseOrdering("mine")._session.units) == 4
    with pytest.raises(NotFound, match="no part 'demo'"):
        PhaseOrdering("mine", part="demo")
    with pytest.raises(InvalidArgument, match="is no corpus, which alone has parts"):
        PhaseOrdering(info["unit"], part="demo")
    with pytest.raises(NotFound, match="is not there"):
        PhaseOrdering("other")


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "gone"])
def test_a_damaged_shard_of_an_environment(
    command: Command, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    for name in ("a.c", "b.c"):  # each addition has a shard of its own
        command("add", "mine", "--", "clang-22", "-c", name)
    mine = corpus.open("mine")
    lost, left = mine
    shards = [mine.path / store.SHARDS / f"{module.shard}.parquet" for module in mine]
    whole = shards[0].read_bytes()
    middle = len(whole) // 3
    for shard in shards:
        if damage == "gone":
            shard.unlink()
        else:
            changed = whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :]
            shard.write_bytes({"cut": whole[:middle], "empty": b"", "changed": changed}[damage])
        env = PhaseOrdering("mine")
        if shard == shards[0]:  # the other one is enough
            units = {env.reset(seed=seed)[1]["unit"] for seed in range(6)}
            assert units == {str(mine.place(left))}
            [said] = [r.message for r in caplog.records if "left out from now on" in r.message]
            assert shard.name in said
            with pytest.raises((InvalidModel, NotFound), match=shard.name):
                env.reset(options={"unit": str(mine.place(lost))})
            mine.place(left).unlink()
        else:
            with pytest.raises((InvalidModel, NotFound), match=r"\.parquet"):
                env.reset(seed=1)
        env.close()
