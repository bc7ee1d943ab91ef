# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge candidates`: what is measured, kept, chosen and refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from modules import SUM

from mlbridge import InvalidArgument, InvalidModel, NotFound, candidates, corpus, prediction
from mlbridge.candidates import Candidate, Cost, Measured, choose, gain
from mlbridge.cli import main
from mlbridge.corpus import adding

SMALL = Candidate("small", "default<Os>,mergefunc", ("apply-ext-tsp-for-size", "disable-lsr"))
AFTER = Candidate("after", "mergefunc", ("disable-lsr",), after_stock=True)
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
    path = listed(tmp_path, SMALL, LARGE, AFTER)
    assert candidates.read(path) == [SMALL, LARGE, AFTER]
    assert len({c.key for c in (SMALL, LARGE, AFTER, replace(AFTER, after_stock=False))}) == 4
    assert candidates.text(candidates.read(path)) == Path(path).read_text()


def measured(program: str, stock: int, **sizes: int | None) -> Measured:
    """Of candidates that are called as their passes."""
    costs = {Candidate(n, n).key: None if s is None else Cost(s) for n, s in sizes.items()}
    return Measured(program, Cost(stock), costs)


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
    found = {"1": Measured("p", Cost(100), {best.key: Cost(50), cheap.key: Cost(90)})}
    assert choose(found, [best, cheap], 2) == [best, cheap]
    assert choose(found, [best, cheap], 2, continuing=1) == [cheap, best]
    assert choose(found, [best], 1, continuing=1) == [best]


def test_the_fastest_that_is_no_larger() -> None:
    small, fast, large = (Candidate(name, name) for name in ("small", "fast", "large"))
    costs = {small.key: Cost(80, 120.0), fast.key: Cost(100, 50.0), large.key: Cost(101, 10.0)}
    its = Measured("p", Cost(100, 100.0), dict(costs))
    assert its.best([small, fast, large]) == costs[small.key]
    assert its.best([small, fast, large], "speed-size") == costs[fast.key]
    assert its.best([small, large], "speed-size") == its.stock
    other = Measured("p", Cost(100, 100.0), {fast.key: Cost(100, 200.0)})
    found = gain({"1": its, "2": other}, [fast], "speed-size")
    assert found is not None and found.mean == pytest.approx(0.5**0.5)


def test_measured_once_and_kept(mine: Path, tmp_path: Path) -> None:
    source, kept = corpus.open(mine), tmp_path / "sizes.jsonl"
    found = candidates.measure(source, list(source), [SMALL, LARGE, AFTER], kept)
    assert {its.program for its in found.values()} == {"sums", "branches"}
    for its in found.values():
        small, large = its.costs[SMALL.key], its.costs[LARGE.key]
        assert small is not None and large is not None
        assert its.best([SMALL, LARGE]).bytes == min(its.stock.bytes, small.bytes) < large.bytes
    lines = kept.read_bytes()
    lengths = {len(json.loads(line)["features"]) for line in lines.splitlines()}
    assert len(lengths) == 1 and lengths.pop() > 2 * 120  # twice the counts, and an embedding
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
        assert its.costs[CRASH.key] is None and its.costs[SMALL.key] is not None


def test_the_command_prints_and_writes_the_best(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best, kept = tmp_path / "best.json", tmp_path / "sizes.jsonl"
    command = ["candidates", listed(tmp_path, LARGE, SMALL), str(mine), "--sizes", str(kept)]
    assert main([*command, "--choose", "1", "-o", str(best)]) == 0
    assert candidates.read(best) == [SMALL]
    assert "2 modules of 2 programs" in capsys.readouterr().out
    assert main([*command, "--objective", "speed-size"]) == 1
    assert "sizes.jsonl:1: was measured without cycles" in capsys.readouterr().err
    command[-1] = f"{tmp_path}/cycles.jsonl"
    assert main([*command, "--objective", "speed-size"]) == 0
    assert "expected cycles, no more bytes over -Oz" in capsys.readouterr().out
    assert main([*command, "--objective", "speed-size", "--predict"]) == 2


def test_a_search_finds_what_is_better_and_again_the_same() -> None:
    """Shorter pipelines are smaller, and an option halves the size."""
    start = [Candidate("a", "one,two(x,y),three<p,q>"), Candidate("b", "four", ("o=1",), True)]

    def measured_with(listed: Sequence[Candidate]) -> dict[str, Measured]:
        costs: dict[str, Cost | None] = {}
        for one in listed:
            size = 10 * len(one.passes.replace("(x,y)", "").replace("<p,q>", "").split(","))
            costs[one.key] = Cost(size // (2 if one.options else 1))
        return {"1": Measured("p", Cost(100), costs)}

    found = candidates.search(start, measured_with, 40, count=2)
    assert found[:2] == start and len(found) == 42 and len({c.key for c in found}) == 42
    assert found == candidates.search(start, measured_with, 40, count=2)
    assert found != candidates.search(start, measured_with, 40, count=2, seed=1)
    best = min(found, key=lambda c: measured_with(found)["1"].costs[c.key].bytes)  # type: ignore[union-attr]
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


def synthetic(modules: int, noise: int) -> tuple[dict[str, Measured], list[Candidate]]:
    """Of ten programs: which of two candidates is good stands in the first feature."""
    left, right = Candidate("left", "left"), Candidate("right", "right")
    found = {}
    for number in range(modules):
        side = number // 10 % 2
        costs = {left.key: Cost(90 + 15 * side), right.key: Cost(105 - 15 * side)}
        features = [float(side), *(float((number * k) % 7) for k in range(1, noise))]
        found[str(number)] = Measured(f"p{number % 10}", Cost(100), dict(costs), features)
    return found, [left, right]


@pytest.mark.nightly
@pytest.mark.training
def test_predictors_are_compared_with_the_portfolio() -> None:
    found, listed = synthetic(200, 5)
    results = {r.name: r for r in prediction.cross_validate(found, listed)}
    assert next(iter(results)) == "portfolio" and len(results) == 4
    assert results["portfolio"].against_portfolio[1].mean == 1.0
    assert results["portfolio"].gains[1].mean > 0.94
    for name in ("nearest neighbours", "boosted trees"):
        assert results[name].gains[1].mean == pytest.approx(0.9)
        assert results[name].against_portfolio[1].high < 1
        assert results[name].gains[3].mean == pytest.approx(results["portfolio"].gains[3].mean)
    again = {r.name: r for r in prediction.cross_validate(found, listed)}
    assert again == results


def test_predictions_that_cannot_be() -> None:
    found, listed = synthetic(20, 5)
    with pytest.raises(InvalidArgument, match="two programs or more"):
        prediction.cross_validate({"1": found["1"]}, listed)
    found["1"].features.append(1.0)
    with pytest.raises(InvalidArgument, match="different features"):
        prediction.cross_validate(found, listed)


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
