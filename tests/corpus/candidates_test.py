# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge candidates`: what is measured, kept, chosen and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from modules import SUM

from mlbridge import InvalidArgument, InvalidModel, NotFound, candidates, corpus
from mlbridge.candidates import Candidate, Sizes, choose, gain
from mlbridge.cli import main
from mlbridge.corpus import adding

SMALL = Candidate("small", "default<Os>,mergefunc", ("apply-ext-tsp-for-size", "disable-lsr"))
LARGE = Candidate("large", "no-op-module")
CRASH = Candidate("crash", "trigger-crash-module")
BRANCHES = """\
int first(const char *a) { while (*a && *a != 'x') ++a; return *a; }
int second(const char *a) { while (*a && *a != 'x') ++a; return *a; }
int third(int n) { int s = 0; while (n--) if (n % 3) s += n; else s ^= n; return s; }
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two programs."""
    folder = tmp_path_factory.mktemp("candidates")
    for program, source in (("sums", SUM), ("branches", BRANCHES)):
        (folder / f"{program}.c").write_text(source)
        command = ["clang-22", "-Oz", "-c", f"{program}.c"]
        added = adding.compile_all(
            folder / "corpus", [(str(folder), command)], program, "1", root=str(folder)
        )
        assert not added.problems
    return folder / "corpus"


def listed(folder: Path, *ways: Candidate) -> str:
    path = folder / "list.json"
    path.write_text(candidates.text(ways))
    return str(path)


def test_a_list_is_written_as_it_was_read(tmp_path: Path) -> None:
    path = listed(tmp_path, SMALL, LARGE)
    assert candidates.read(path) == [SMALL, LARGE]
    assert candidates.text(candidates.read(path)) == Path(path).read_text()


def test_each_of_a_portfolio_gains_most_beside_those_before_it() -> None:
    a, b, c = (Candidate(name, name) for name in "abc")
    sizes = {
        "1": Sizes("p", 100, {a.key: 90, b.key: 120, c.key: 89}),
        "2": Sizes("p", 100, {a.key: 95, b.key: 50, c.key: None}),
        "3": Sizes("q", 200, {a.key: 190, b.key: 300, c.key: 190}),
    }
    assert [one.name for one in choose(sizes, [a, b, c], 9)] == ["b", "c", "a"]
    found = gain(sizes, [a])
    assert found is not None and found.mean == pytest.approx((185 / 200 * 190 / 200) ** 0.5)
    nothing = gain(sizes, [])
    assert nothing is not None and nothing.mean == 1.0


def test_measured_once_and_kept(mine: Path, tmp_path: Path) -> None:
    source, kept = corpus.open(mine), tmp_path / "sizes.jsonl"
    found = candidates.measure(source, list(source), [SMALL, LARGE], kept)
    assert {its.program for its in found.values()} == {"sums", "branches"}
    for its in found.values():
        small, large = its.bytes[SMALL.key], its.bytes[LARGE.key]
        assert small is not None and large is not None
        assert its.best([SMALL, LARGE]) == min(its.stock, small) < large
    lines = kept.read_bytes()
    assert all(len(json.loads(line)["features"]) == 120 for line in lines.splitlines())
    kept.write_bytes(lines + b'{"module": "cut')
    assert candidates.measure(source, list(source), [LARGE], kept) == found
    assert kept.read_bytes() == lines
    kept.write_bytes(b"{}\n" + lines)
    with pytest.raises(InvalidArgument, match=r"sizes\.jsonl:1: not a line of sizes"):
        candidates.measure(source, list(source), [LARGE], kept)


def test_a_candidate_that_crashes_is_left_out(mine: Path, tmp_path: Path) -> None:
    source = corpus.open(mine)
    found = candidates.measure(source, list(source), [CRASH, SMALL], tmp_path / "sizes.jsonl")
    for its in found.values():
        assert its.bytes[CRASH.key] is None and its.bytes[SMALL.key] is not None


def test_the_command_prints_and_writes_the_best(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best, kept = tmp_path / "best.json", tmp_path / "sizes.jsonl"
    command = ["candidates", listed(tmp_path, LARGE, SMALL), str(mine), "--sizes", str(kept)]
    assert main([*command, "--choose", "1", "-o", str(best)]) == 0
    assert candidates.read(best) == [SMALL]
    assert "2 modules of 2 programs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "not a list of candidates"),
        ('{"version": 3, "candidates": []}', "expected version 1, got 3"),
        ('{"version": 1, "candidates": []}', "expected candidates with different names"),
        ('{"version": 1, "candidates": [{"name": "a"}]}', "not a list of candidates"),
        ('{"version": 1, "candidates": [{"name": "a", "passes": "nothing"}]}', "LLVM refuses"),
    ],
)
def test_wrong_lists(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, expected: str
) -> None:
    (tmp_path / "list.json").write_text(content)
    command = ["candidates", f"{tmp_path}/list.json", str(mine), "--sizes", f"{tmp_path}/s.jsonl"]
    assert main(command) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("mlbridge candidates: ") and expected in said


def test_places_that_are_not_there(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        candidates.read(tmp_path / "nowhere")
    path = listed(tmp_path, SMALL)
    assert main(["candidates", path, str(mine), "--sizes", f"{tmp_path}/no/s.jsonl"]) == 1
    assert main(["candidates", path, f"{tmp_path}/no", "--sizes", f"{tmp_path}/s.jsonl"]) == 1


def test_a_module_that_does_not_compile(mine: Path, tmp_path: Path) -> None:
    source = corpus.open(mine)
    module = next(iter(source))
    place = source.extract(module)
    place.write_bytes(b"x" * module.bytes)
    try:
        with pytest.raises(InvalidModel, match="can't compare candidates"):
            candidates.measure(source, [module], [SMALL], tmp_path / "sizes.jsonl")
    finally:
        place.unlink()
