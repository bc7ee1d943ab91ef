# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge candidates`: what is measured, kept, chosen and refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from modules import SUM

from mlbridge import InvalidArgument, InvalidModel, NotFound, candidates, corpus
from mlbridge.candidates import Candidate, Measured, choose, gain
from mlbridge.cli import main
from mlbridge.corpus import adding

SMALL = Candidate("small", "default<Os>,mergefunc", ("apply-ext-tsp-for-size", "disable-lsr"))
AFTER = Candidate("after", "mergefunc", ("disable-lsr",), after_stock=True)
LARGE = Candidate("large", "no-op-module")
OTHER = replace(SMALL, name="other", target="aarch64")
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
    path = listed(tmp_path, SMALL, LARGE, AFTER, OTHER)
    assert candidates.read(path) == [SMALL, LARGE, AFTER, OTHER]
    assert len({c.key for c in (SMALL, LARGE, AFTER, replace(AFTER, after_stock=False))}) == 4
    assert candidates.text(candidates.read(path)) == Path(path).read_text()


def measured(program: str, stock: int, **sizes: int | None) -> Measured:
    """A module measured with candidates that are called as their passes."""
    return Measured(program, stock, {Candidate(n, n).key: size for n, size in sizes.items()})


def test_each_of_a_portfolio_gains_most_beside_those_before_it() -> None:
    a, b, c = (Candidate(name, name) for name in "abc")
    found = {
        "1": measured("p", 100, a=90, b=120, c=89),
        "2": measured("p", 100, a=95, b=50, c=None),
        "3": measured("q", 200, a=190, b=300, c=190),
    }
    assert [one.name for one in choose(found, [a, b, c], 9)] == ["b", "c", "a"]
    one = gain(found, [a])
    assert one is not None and one.mean == pytest.approx((185 / 200 * 190 / 200) ** 0.5)
    nothing = gain(found, [])
    assert nothing is not None and nothing.mean == 1.0


def test_a_portfolio_may_begin_with_what_continues_the_stock_pipeline() -> None:
    best, cheap = Candidate("best", "best"), Candidate("cheap", "cheap", after_stock=True)
    found = {"1": Measured("p", 100, {best.key: 50, cheap.key: 90})}
    assert choose(found, [best, cheap], 2) == [best, cheap]
    assert choose(found, [best, cheap], 2, continuing=1) == [cheap, best]
    assert choose(found, [best], 1, continuing=1) == [best]


def test_measured_once_and_kept(mine: Path, tmp_path: Path) -> None:
    source, kept = corpus.open(mine), tmp_path / "sizes.jsonl"
    found = candidates.measure(source, list(source), [SMALL, LARGE, AFTER], kept)
    assert {one.program for one in found.values()} == {"sums", "branches"}
    for one in found.values():
        small, large = one.sizes[SMALL.key], one.sizes[LARGE.key]
        assert small is not None and large is not None
        assert one.best([SMALL, LARGE]) == min(one.stock, small) < large
    lines = kept.read_bytes()
    kept.write_bytes(lines + b'{"module": "cut')
    assert candidates.measure(source, list(source), [LARGE], kept) == found
    assert kept.read_bytes() == lines
    kept.write_bytes(b"{}\n" + lines)
    with pytest.raises(InvalidArgument, match=r"sizes\.jsonl:1: not a line of sizes"):
        candidates.measure(source, list(source), [LARGE], kept)


def test_a_candidate_that_crashes_is_left_out(mine: Path, tmp_path: Path) -> None:
    source = corpus.open(mine)
    listed = [CRASH, OTHER, SMALL]
    found = candidates.measure(source, list(source), listed, tmp_path / "sizes.jsonl")
    for one in found.values():
        assert one.sizes[CRASH.key] is None and one.sizes[SMALL.key] is not None
        assert one.sizes[OTHER.key] is None


def test_the_command_prints_and_writes_the_best(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best, kept = tmp_path / "best.json", tmp_path / "sizes.jsonl"
    command = ["candidates", listed(tmp_path, LARGE, SMALL), str(mine), "--sizes", str(kept)]
    assert main([*command, "--choose", "1", "-o", str(best)]) == 0
    assert candidates.read(best) == [SMALL]
    assert "2 modules of 2 programs" in capsys.readouterr().out


def test_a_search_finds_what_is_better_and_again_the_same() -> None:
    """Shorter pipelines are smaller, and an option halves the size."""
    start = [Candidate("a", "one,two(x,y),three<p,q>"), Candidate("b", "four", ("o=1",), True)]

    def measured_with(listed: Sequence[Candidate]) -> dict[str, Measured]:
        sizes: dict[str, int | None] = {}
        for one in listed:
            size = 10 * len(one.passes.replace("(x,y)", "").replace("<p,q>", "").split(","))
            sizes[one.key] = size // (2 if one.options else 1)
        return {"1": Measured("p", 100, sizes)}

    found = candidates.search(start, measured_with, 40, count=2)
    assert found[:2] == start and len(found) == 42 and len({c.key for c in found}) == 42
    assert found == candidates.search(start, measured_with, 40, count=2)
    assert found != candidates.search(start, measured_with, 40, count=2, seed=1)
    best = min(found, key=lambda c: measured_with(found)["1"].best([c]))
    assert "," not in best.passes.replace("(x,y)", "").replace("<p,q>", "") and best.options
    pieces = {"one", "two(x,y)", "three<p,q>", "four"}
    assert all(set(candidates._elements(c.passes)) <= pieces for c in found)


def test_the_command_searches(mine: Path, tmp_path: Path) -> None:
    best, kept = tmp_path / "best.json", tmp_path / "sizes.jsonl"
    command = ["candidates", listed(tmp_path, SMALL, AFTER), str(mine), "--sizes", str(kept)]
    assert main([*command, "--search", "3", "--choose", "2", "-o", str(best)]) == 0
    assert len(candidates.read(best)) == 2
    tried: dict[str, set[str]] = {}
    for line in kept.read_text().splitlines():
        entry = json.loads(line)
        tried.setdefault(entry["module"], set()).update(entry["bytes"])
    assert [len(keys) for keys in tried.values()] == [2 + 3] * 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "not JSON"),
        ('{"version": 3, "candidates": []}', "expected version 1, got 3"),
        ('{"version": 1, "candidates": []}', "expected candidates with different names"),
        ('{"version": 1, "candidates": [{"name": "a"}]}', "not a list of candidates"),
        (
            '{"version": 1, "candidates": [{"name": "a", "passes": "nothing"}]}',
            "candidate 'a': LLVM refuses",
        ),
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
