# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The shipped pins: how much they are, and that nothing is in two sets; what a check says."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path, PurePath

import pytest

from programs import corpus
from programs.catalog import SETS, Program, ProgramsError, load
from programs.fetch import source_tree
from programs.pins import Pin, Pins, copies, difference, read, write

PINNED = {"p": Pins("p-src 1", (Pin("0" * 16, 10, "a.c"), Pin("1" * 16, 20, "sub/b c.c")))}


def test_the_shipped_pins_are_those_of_the_catalog_and_large_enough() -> None:
    programs = load()
    pinned = read()
    assert list(pinned) == [program.name for program in programs]
    for program in programs:
        assert pinned[program.name].version.split()[0] == program.package
        assert pinned[program.name].modules, program.name
    assert len(programs) >= 100
    counts = Counter(program.set for program in programs)
    assert set(counts) == set(SETS) and min(counts.values()) >= 5
    assert sum(len(pins.modules) for pins in pinned.values()) >= 3000
    in_cxx = [
        pins
        for pins in pinned.values()
        if any(PurePath(p.source).suffix != ".c" for p in pins.modules)
    ]
    assert len(in_cxx) >= 30


def test_no_shipped_module_is_in_two_programs_and_no_source_in_two_sets() -> None:
    pinned = read()
    assert max(Counter(pin.hash for pins in pinned.values() for pin in pins.modules).values()) == 1
    sets: dict[tuple[str, int], set[str]] = {}
    for program in load():
        for pin in pinned[program.name].modules:
            key = (PurePath(pin.source).stem.lower(), pin.size)
            sets.setdefault(key, set()).add(program.set)
    assert [key for key, found in sets.items() if len(found) > 1] == []


def test_pins_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "pinned.txt"
    write(PINNED, path)
    assert read(path) == PINNED


@pytest.mark.parametrize(
    "damage", [("p: p-src", "q p-src"), ("1" * 16, "1" * 15), (" 20 ", " -20 "), (" 0000", "0000")]
)
def test_a_damaged_line_is_named(tmp_path: Path, damage: tuple[str, str]) -> None:
    path = tmp_path / "pinned.txt"
    write(PINNED, path)
    path.write_text(path.read_text().replace(*damage))
    with pytest.raises(ProgramsError, match=r"pinned\.txt:\d: expected a program or its module"):
        read(path)


def test_a_difference_says_what_and_why() -> None:
    before = PINNED["p"]
    a, b = before.modules
    assert difference(before, Pins(before.version, (b, a))) == ""
    assert difference(None, before) == "is not pinned"
    rehashed = dataclasses.replace(a, hash="2" * 16)
    new = Pin("3" * 16, 5, "new.c")
    text = difference(before, Pins("p-src 2", (rehashed, new)))
    assert text == (
        "p-src 1 is pinned, p-src 2 is here; "
        "1 modules of the same source with other headers, flags or compiler: a.c; "
        "1 modules not pinned: new.c; 1 modules missing: sub/b c.c"
    )
    edited = dataclasses.replace(rehashed, size=11)
    text = difference(before, Pins(before.version, (edited, b)))
    assert text == "1 modules of another source: a.c"
    many = tuple(Pin(f"{i:016}", i, f"{i}.c") for i in range(7))
    text = difference(Pins("p-src 1", many), Pins("p-src 1", ()))
    assert text == "7 modules missing: 0.c, 1.c, 2.c, 3.c, 4.c and 2 more"


def function(name: str, lines: int) -> str:
    body = "".join(f"  total += {name}_step({line}, x) * {line};\n" for line in range(lines))
    return f"int {name}(int x) {{\n{body}  return total;\n}}\n"


@pytest.mark.parametrize(
    ("sets", "text", "found"),
    [
        (("training", "test-A"), function("shared", 20), True),
        (("training", "test-A"), function("shared", 20).replace(" ", "\t") + "// edited", True),
        (("training", "test-A"), function("own", 40) + function("shared", 20), True),
        (("training", "training"), function("shared", 20), False),
        (("training", "test-A"), function("other", 20), False),
        (("training", "test-A"), function("shared", 5) + function("other", 20), False),
        (("training", "test-A"), f"/* As was: {function('shared', 20)} */", False),
    ],
    ids=["same", "spaces", "part", "one set", "unlike", "little", "comment"],
)
def test_code_that_two_sets_share_is_found(
    tmp_path: Path, sets: tuple[str, str], text: str, found: bool
) -> None:
    programs = [Program(n, s, "k", n, ("*.c",)) for n, s in zip("ab", sets, strict=True)]
    pinned = {}
    first = function("first", 30) + function("shared", 20)
    for program, source in zip(programs, (first, text), strict=True):
        tree = source_tree(program, tmp_path)
        tree.mkdir(parents=True)
        (tree / f"{program.name}.c").write_text(source)
        pinned[program.name] = Pins("1", (Pin("0" * 16, 1, f"{program.name}.c"),))
    said = copies(programs, pinned, tmp_path)
    assert len(said) == found
    if found:
        assert said[0].endswith(f"lines in {sets[0]} a/a.c and {sets[1]} b/b.c")
    assert copies(programs, {"a": pinned["a"]}, tmp_path) == []


def test_what_is_pinned_is_checked_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = [Program(n, s, "k", n, ("*.c",)) for n, s in (("a", "demo"), ("b", "test-A"))]
    path = tmp_path / "pinned.txt"
    path.touch()
    for program in programs:
        tree = source_tree(program, tmp_path)
        tree.mkdir(parents=True)
        (tree / "main.c").write_text(f"int {program.name}(int x) {{ return x + 1; }}\n")
        (tree.parent / f"{program.name}.version").write_text(f"{program.package} 1\n")
    monkeypatch.setattr(corpus, "BUILD", tmp_path)
    monkeypatch.setattr(corpus, "PINNED", path)
    monkeypatch.setattr(corpus, "load", lambda: programs)
    monkeypatch.setattr(corpus, "fetch", lambda programs, build: None)
    assert corpus.main(["--check", "a"]) == 1
    assert "a: is not pinned" in capsys.readouterr().err
    assert corpus.main(["--pin", "b"]) == corpus.main(["--pin", "demo"]) == 0
    assert list(read(path)) == ["a", "b"]  # the order of the catalog
    assert corpus.main(["--check", "demo", "b"]) == 0
    capsys.readouterr()

    path.write_text(path.read_text().replace("b 1", "b 0").replace("main.c", "old.c", 1))
    assert corpus.main(["--check", "a", "b"]) == 1
    assert capsys.readouterr().err.endswith(
        "corpus: a: 1 modules not pinned: main.c; 1 modules missing: old.c\n"
        "b: b 0 is pinned, b 1 is here\n"
    )
    assert corpus.main(["--check", "nonesuch"]) == 1
    assert "no program or set called nonesuch" in capsys.readouterr().err
