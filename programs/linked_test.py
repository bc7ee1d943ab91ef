# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Building a small program in all ways, and what is reported as wrong."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import link
from experiments.compare_test import LIBRARY, MAIN
from experiments.link import rows
from experiments.link_candidates import measure
from mlbridge import candidates
from programs.catalog import Program, ProgramsError
from programs.fetch import source_tree
from programs.linked import Linked, build, problems, ways
from programs.plugin import LINK_CANDIDATES

TESTED = Program("small", "demo", "parser", "small-src", ("*.c",), test=(("small",),))
SHARED = Program("shared", "demo", "parser", "small-src", ("library.c",))


def write(program: Program, root: Path) -> None:
    tree = source_tree(program, root)
    tree.mkdir(parents=True)
    (tree / "main.c").write_text(MAIN)
    (tree / "library.c").write_text(LIBRARY)


def test_candidates_are_measured_in_a_link(tmp_path: Path) -> None:
    write(TESTED, tmp_path)
    (merged,) = measure(TESTED, LINK_CANDIDATES, tmp_path / "linked", 2, tmp_path)
    here = ("", platform.machine())
    listed = [one for one in candidates.read(LINK_CANDIDATES) if one.target in here]
    assert merged.program == "small" and set(merged.sizes) == {one.key for one in listed}
    assert 0 < merged.best(listed) < merged.stock


@pytest.mark.parametrize("program", [TESTED, SHARED])
@pytest.mark.parametrize("lto", ["full", "thin"])
def test_all_ways_of_a_program(program: Program, lto: str, tmp_path: Path) -> None:
    write(program, tmp_path)
    built = {
        way: build(program, flags, tmp_path / way.replace(" ", "-"), 2, tmp_path)
        for way, flags in ways(lto, [1, 2]).items()
    }
    assert list(built) == ["-Oz", f"-flto={lto}", "outliner", "effort 1", "effort 2"]
    assert problems("small", built) == []
    assert all(made.bytes > 0 and made.cpu_seconds > 0 for made in built.values())
    assert built["effort 2"].bytes <= built["effort 1"].bytes <= built[f"-flto={lto}"].bytes
    assert ("[exit 0]" in built["effort 1"].output) == bool(program.test)
    table = rows({"small": built})
    assert [row["over -Oz"] for row in table] == list(built) and table[0]["largest"] == "1.000"


def test_what_is_larger_or_differs_is_named() -> None:
    plain = Linked(100, 1.0, "right")
    built = {"-Oz": plain, "-flto=full": Linked(90, 1.0, "right")}
    found = problems("it", {**built, "effort 1": Linked(91, 1.0, "wrong")})
    assert found == [
        "it effort 1: its output differs from the -Oz build's",
        "it effort 1: larger than the link without (91 > 90)",
    ]


def test_a_program_that_fails_is_left_out_and_what_was_found_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def built(program: Program, *_: object, **__: object) -> Linked:
        made.append(program.name)
        if program.name == "bad":
            raise ProgramsError("bad: linking failed")
        return Linked(100, 1.5, "same")

    chosen = [replace(TESTED, name=name) for name in ("bad", "good")]
    monkeypatch.setattr(link, "fetch", lambda programs: programs)
    monkeypatch.setattr(link, "load", list)
    monkeypatch.setattr(link, "select", lambda *_: chosen)
    monkeypatch.setattr("programs.work.write", lambda _: None)
    monkeypatch.setattr(link, "ways", lambda *_: {"-Oz": ([], []), "outliner": ([], [])})
    monkeypatch.setattr(link, "build", built)
    file = tmp_path / "link.json"
    assert link.main(["-o", str(file)]) == 1
    assert capsys.readouterr().err.endswith("link: bad: linking failed\n")
    kept = json.loads(file.read_text())["programs"]
    one = {"bytes": 100, "cpu_seconds": 1.5}
    assert kept == {"good": {"-Oz": one, "outliner": one}}
    made.clear()
    assert link.main(["-o", str(file)]) == 1 and set(made) == {"bad"}  # the other is there
    assert link.main(["-o", str(file), "--lto", "thin"]) == 1
    assert "has other settings" in capsys.readouterr().err
    monkeypatch.setattr(link, "ways", lambda *_: {"-Oz": ([], []), "outliner": (["-new"], [])})
    assert link.main(["-o", str(file)]) == 1  # such as another plugin's
    assert "has other settings" in capsys.readouterr().err


def test_programs_for_another_machine_are_not_run(tmp_path: Path) -> None:
    write(TESTED, tmp_path)
    flags = ways("full", [1])["effort 1"]
    built = build(TESTED, flags, tmp_path / "arm", 2, tmp_path, target="aarch64-linux-gnu")
    assert built.bytes > 0 and built.output == ""
