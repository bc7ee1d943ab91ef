# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The search for options of LLVM, on one machine or several."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_program import ALIGNED, MAIN, MAKE, broken_compiler, made_with, settings, specialized

from mlbridge.errors import InvalidArgument, NotFound, Unavailable
from mlbridge.specializing import decisions_file
from mlbridge.specializing.draws import Draws
from mlbridge.specializing.options import Options
from mlbridge.specializing.search import specialize
from mlbridge.specializing.specialization import Specialization
from mlbridge.workspace import Workspace


def test_a_search(
    tree: Path, clock: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = (("tail-dup-size", "8"),)
    monkeypatch.setattr("mlbridge.specializing.tuning.FIRST", [ALIGNED.options, other])
    clock({"profile-full": 0.8, ALIGNED.name: 0.7})
    decisions, work = tree.parent / "app.decisions", tree.parent / "work"
    assert specialized(tree).chosen.name == "profile-full"
    found = specialize(settings(tree, budget=0.01), decisions, work)
    assert found.chosen == ALIGNED and not found.problems
    assert found.raced[ALIGNED.name].time == found.confirmed[ALIGNED.name].time
    assert {"profile", "profile-full", ALIGNED.name} <= found.confirmed.keys()
    words = decisions_file.read(decisions).words()
    assert "-Wl,-mllvm,-align-all-functions=6" in words

    def tries(of: Specialization) -> list[tuple[str, float, float]]:
        return [step for step in of.timeline if step[0].startswith("tune ")]

    shown: list[str] = []
    budget = tries(found)[0][2] + 0.01  # one more, at least
    more = specialize(settings(tree, budget=budget), decisions, work, shown=shown.append)
    again = specialize(settings(tree, budget=budget), decisions, work)
    assert len(tries(found)) == 1 and tries(more)[:1] == tries(found)
    assert len(tries(more)) > 1 and tries(again) == tries(more)
    assert any("best 0.700" in text for text in shown)
    assert {path.name for path in (work / "trees").iterdir() if "tuned" in path.name} <= {
        f"{one.name}{logs}" for one in more.derived for logs in ("", ".decisions")
    }
    made_with(decisions, tree)


def test_options_that_change_no_code(
    tree: Path, clock: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the clock would say of them is chance."""
    none = ALIGNED._replace(options=(("enable-loopinterchange", "true"),))
    monkeypatch.setattr("mlbridge.specializing.tuning.FIRST", [none.options])
    clock({"profile-full": 0.8, none.name: 0.7})
    shown: list[str] = []
    files = (tree.parent / "app.decisions", tree.parent / "work")
    found = specialize(settings(tree, budget=0.01), *files, shown=shown.append)
    assert found.chosen.name == "profile-full" and none.name not in found.raced
    assert any(f"{none.name}: 1.000 of the time" in text for text in shown)


def test_what_is_told_the_same_draws_the_same() -> None:
    def drawn() -> list[Options]:
        draws = Draws([ALIGNED.options])
        found = []
        for number in range(15):
            found.append(draws.ask())
            draws.tell(None if number % 4 == 3 else 1 - len(found[-1]) / 100)
        return found

    first_ones = drawn()
    assert first_ones == drawn() and first_ones[0] == ALIGNED.options
    assert len(set(first_ones)) > 10


def test_a_search_without_a_link(
    tree: Path, clock: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    best = ALIGNED._replace(link="")
    monkeypatch.setattr("mlbridge.specializing.tuning.FIRST", [ALIGNED.options])
    monkeypatch.setattr(Workspace, "relink", None)  # options are in object files
    clock({"profile": 0.8, best.name: 0.7})
    found = specialized(tree, levers=("profile",), budget=0.01)
    assert found.chosen == best
    assert "-align-all-functions=6" in decisions_file.read(tree.parent / "app.decisions").words()


def test_a_search_where_nothing_is_linked_again(
    tree: Path, clock: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlbridge.specializing.tuning.FIRST", [ALIGNED.options])
    clock({"profile-full": 0.8, ALIGNED.name: 0.7})
    make = MAKE.replace("$@ main.o src/count.o", "app main.o src/count.o\n\ttouch built")
    (tree / "Makefile").write_text(make.replace("app:", "built:"))
    assert specialized(tree, budget=0.01).chosen == ALIGNED


def test_a_search_for_which_all_is_too_large(tree: Path, clock: Callable[..., list[str]]) -> None:
    clock({"profile-full": 0.8})
    found = specialized(tree, budget=0.01, objective="time-at-no-more-bytes")
    assert any("nothing was searched" in note for note in found.notes)


@pytest.mark.parametrize("cluster", ["", "10.0.0.1:6379"])
def test_a_search_that_finds_a_wrong_program(
    tree: Path,
    clock: Callable[..., list[str]],
    nodes: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    cluster: str,
) -> None:
    both = (("tail-dup-size", "8"), *ALIGNED.options)
    monkeypatch.setattr("mlbridge.specializing.tuning.FIRST", [both])
    clock({"profile-full": 0.8})
    (tree / "main.c").write_text(
        "extern char wrong[] __attribute__((weak));\n"
        + MAIN.replace("return argc", 'if (wrong) puts("other");\n  return argc')
    )
    cases = '*align-all-functions=6*main.o*) set -- "$@" -Wl,--defsym=wrong=4096 ;;'
    (tree / "Makefile").rename(tree / "Makefile.in")
    found = specialized(
        tree,
        prepare='sed "s|[$](CC)|$CC|" Makefile.in > Makefile',  # it has a path of this machine
        compiler=broken_compiler(tree.parent, cases),
        budget=0.01,
        cluster=cluster,
    )
    assert found.chosen.name == "profile-full" and found.wrong() == ALIGNED
    assert bool(nodes) == bool(cluster)
    assert decisions_file.read(tree.parent / "app.decisions.wrong").recipe == ALIGNED
    assert (tree.parent / "work/trees" / ALIGNED.name / "app").is_file()


def test_a_search_on_several_machines(
    tree: Path,
    clock: Callable[..., list[str]],
    nodes: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be interrupted there, and goes on there or here."""
    other = (("tail-dup-size", "8"),)
    monkeypatch.setattr("mlbridge.specializing.tuning.FIRST", [other, ALIGNED.options])
    clock({"profile-full": 0.8, ALIGNED.name: 0.7})
    decisions, work = tree.parent / "app.decisions", tree.parent / "work"
    there = settings(tree, budget=0.01, cluster="10.0.0.1:6379")
    found = specialize(there, decisions, work)
    assert found.chosen == ALIGNED and not found.problems
    assert [len(some) for some in nodes] == [3] and len(set(nodes[0])) == 3
    state = work / "state.json"
    kept = json.loads(state.read_text())
    for part, step in itertools.product(("steps", "times"), nodes[0][::2]):
        del kept[part][step]
    state.write_text(json.dumps(kept))
    assert specialize(there, decisions, work).chosen == ALIGNED
    assert nodes[1:] == [nodes[0][::2]], "only what was lost is done again"
    assert specialize(settings(tree, budget=0.01), decisions, work).chosen == ALIGNED
    assert nodes[2:] == []


def test_a_program_that_does_something_else_on_nodes(
    tree: Path, clock: Callable[..., list[str]], nodes: list[list[str]]
) -> None:
    """It isn't said to be wrong."""
    clock({"profile-full": 0.8})
    where = "#include <stdlib.h>\n" + MAIN.replace(
        "return argc", 'if (getenv("WHERE")) puts("x"); return argc'
    )
    (tree / "main.c").write_text(where)
    with pytest.raises(Unavailable, match="the program does something else there: wrong: `"):
        specialized(tree, budget=0.01, cluster="10.0.0.1:6379")
    assert len(nodes) == 1


def test_what_a_node_finds_wrong_and_this_machine_does_not(
    tree: Path,
    clock: Callable[..., list[str]],
    nodes: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mlbridge.specializing.tuning.FIRST", [ALIGNED.options])
    clock({"profile-full": 0.8})
    main = MAIN.replace("return argc", 'if (wrong && getenv("WHERE")) puts("x"); return argc')
    (tree / "main.c").write_text(
        f"#include <stdlib.h>\nextern char wrong[] __attribute__((weak));\n{main}"
    )
    cases = '*align-all-functions=6*main.o*) set -- "$@" -Wl,--defsym=wrong=4096 ;;'
    compiler = broken_compiler(tree.parent, cases)
    shown: list[str] = []
    found = specialize(
        settings(tree, compiler=compiler, budget=0.01, cluster="10.0.0.1:6379"),
        tree.parent / "app.decisions",
        tree.parent / "work",
        shown=shown.append,
    )
    assert nodes and found.wrong() is None and not found.problems
    assert any("on a node, and not here" in text for text in shown)


def test_what_a_search_needs(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(NotFound, match=r"pip install .*\[specialize\]"):
        specialized(tree, budget=60)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotFound, match=r"\[cluster\]"):
        specialized(tree, budget=60, cluster="127.0.0.1:1")
    with pytest.raises(InvalidArgument, match="expected a budget"):
        specialized(tree, cluster="10.0.0.1:6379")
    with pytest.raises(InvalidArgument, match="a search is for time"):
        specialized(tree, budget=60, objective="bytes")
