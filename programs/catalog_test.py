# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The shipped catalog keeps its promises, and a wrong one is refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from programs.catalog import ProgramsError, load, select

ENTRY = '[[program]]\nname = "{0}"\nset = "{1}"\nkind = "k"\npackage = "{2}"\nfiles = ["*.c"]\n'


def test_the_sets_are_large_enough() -> None:
    sets = {name: select(load(), [name]) for name in ("training", "validation", "demo")}
    assert len(sets["training"]) >= 12
    assert len(sets["validation"]) >= 4
    assert len(sets["demo"]) >= 8


def test_suites_name_programs() -> None:
    mibench, cbench = (
        {program.name for program in select(load(), [name])}
        for name in ("mibench-like", "cbench-like")
    )
    assert len(mibench) == 12 and cbench - mibench == {"bzip2"}
    assert [p.name for p in select(load(), ["mibench-like", "lua"]) if p.name == "lua"]


def test_every_demo_program_is_run_by_its_test() -> None:
    for program in select(load(), ["demo"]):
        ran = {word for command in program.test for word in command}
        executables = {name for name, _ in program.executables} or {program.name}
        assert executables <= ran, program.name


def test_own_inputs_and_settings_that_the_catalog_names_exist() -> None:
    for program in load():
        for word in (word for command in program.test + program.work for word in command):
            if "{inputs}/" in word:
                assert (program.inputs / word.split("{inputs}/")[1]).is_file(), word
        for driver in program.drivers:
            if "{own}/" in driver:
                assert (program.own_drivers / driver.split("{own}/")[1]).is_file(), driver


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.format("a", "demo", "p") + ENTRY.format("a", "training", "q"), "name a is listed"),
        (ENTRY.format("a", "demo", "p") + ENTRY.format("b", "training", "p"), "package p is list"),
        (ENTRY.format("a", "exam", "p"), "set is 'exam'"),
        (
            ENTRY.format("a", "demo", "p") + 'colour = "red"\n',
            "unexpected keyword argument 'colour'",
        ),
        (ENTRY.format("a", "demo", "p") + 'flags = "-O2"\n', "flags: expected a list of strings"),
        ('[[program]]\nname = "a"\nset = "demo"\n', "missing .* 'kind', 'package', and 'files'"),
        ("[[program]\n", "catalog.toml"),
    ],
)
def test_a_wrong_catalog_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "catalog.toml"
    path.write_text(text)
    with pytest.raises(ProgramsError, match=message):
        load(path)


def test_select_names_what_it_does_not_know() -> None:
    with pytest.raises(ProgramsError, match="no program or set called nonesuch"):
        select(load(), ["zlib", "nonesuch"])


def test_sources_follow_the_patterns_in_order_and_missing_ones_are_errors(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(
        ENTRY.format("a", "demo", "p").replace('"*.c"', '"b.c", "*.c", "sub/*.c"')
        + 'exclude = ["c.c"]\n'
    )
    (program,) = load(catalog)
    (tmp_path / "sub").mkdir()
    for name in ("a.c", "b.c", "c.c"):
        (tmp_path / name).touch()
    with pytest.raises(ProgramsError, match=r"no file matches sub/\*\.c"):
        program.sources(tmp_path)
    (tmp_path / "sub" / "d.c").touch()
    assert program.sources(tmp_path) == ["b.c", "a.c", "sub/d.c"]


def test_generated_headers_fill_the_sources_own_templates(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(
        ENTRY.format("a", "demo", "p")
        + 'generate = [{ to = "a.h", from = "a.h.in", values = { "@X@" = "7" } }]\n'
    )
    (program,) = load(catalog)
    with pytest.raises(ProgramsError, match=r"template of a\.h"):
        program.write_generated(tmp_path)
    (tmp_path / "a.h.in").write_bytes(b"#define X @X@ /* \xe9 */\n")
    program.write_generated(tmp_path)
    assert (tmp_path / "a.h").read_bytes() == b"#define X 7 /* \xe9 */\n"
