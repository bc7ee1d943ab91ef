# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""In which order the demo builds and prints, with builds that are only noted, and what it fetches
meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import demo.run
from demo import sources as fetching
from demo.measure import Build, Result
from demo.report import LINKED
from demo.sources import Sources
from programs.catalog import Program, ProgramsError
from programs.linked import Linked

CATALOG = ("zlib", "cjson", "tidy", "byacc")  # by size: cjson, byacc, zlib, tidy
WAYS = {"oz", "o2", "onnx", "server", "effort1", "effort3"}


def program(name: str) -> Program:
    return Program(name, "demo", "parser", f"{name}-src", ("*.c",))


@dataclass
class Noted:
    """What was built, and what had been printed when a program's first build began."""

    capsys: pytest.CaptureFixture[str]
    builds: list[tuple[str, str]] = field(default_factory=list)
    printed: dict[str, str] = field(default_factory=dict)
    text: str = ""
    in_peace: set[str] = field(default_factory=set)
    peace: bool = False
    missing: tuple[str, ...] = ()
    uri: str = "unix:server"
    statistics: dict[str, int] = field(default_factory=lambda: {"replies": 7})

    def compile_anew(self, of: Program, _: object, folder: Path, *__: object) -> Any:
        self.text += self.capsys.readouterr().out
        self.printed.setdefault(of.name, self.text)
        self.builds.append((of.name, folder.name))
        if self.peace:
            self.in_peace.add(folder.name)
        asked = folder.name in ("onnx", "server", *demo.run.OTHER_ENGINES)
        actions = {"a.c": [5, 1]} if asked else None
        made = Build(900, 2.0, {"a.c": b"o"}, 2, {"a.c": 900}, [], b"output", actions=actions)
        return Finished(made)

    def wait_for(self, of: Program) -> None:
        if of.name in self.missing:
            raise ProgramsError("its archive is not there")

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        self.peace = True
        yield
        self.peace = False

    def programs(self, way: str) -> list[str]:
        return [name for name, built in self.builds if built == way]


@dataclass
class Finished:
    build: Build

    def finish(self) -> Build:
        return self.build


def link_them(results: Sequence[Result], *_: object) -> None:
    for result in results:
        result.linked = {way: Linked(900, 1.0, "output") for way in LINKED.values()}


@pytest.fixture
def noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Noted:
    made = Noted(capsys)
    for replaced, value in {
        "load": lambda: [program(name) for name in CATALOG],
        "LEAST_PROGRAMS": 3,
        "Sources": lambda _: nullcontext(made),
        "ModelServer": lambda *_: nullcontext(made),
        "plugin_flags": lambda uri, *_: [uri],
        "candidate_flags": lambda effort: [str(effort)],
        "compile_anew": made.compile_anew,
        "build_program": lambda *of: made.compile_anew(*of).finish(),
        "compiled": lambda _, to: to,
        "link_them": link_them,
        "draw": lambda *_, **__: None,
        "draw_linked": lambda *_: None,
    }.items():
        monkeypatch.setattr(demo.run, replaced, value)
    (tmp_path / "model.onnx").touch()
    return made


def run(folder: Path, *names: str, all_engines: bool = False) -> list[str]:
    return demo.run.run(folder / "model.onnx", names, 2, folder, all_engines)


def test_a_line_is_there_before_the_next_larger_program_begins(
    noted: Noted, tmp_path: Path
) -> None:
    assert run(tmp_path) == []
    assert list(noted.printed) == ["cjson", "byacc", "zlib", "tidy"]
    assert "-Oz" in noted.printed["cjson"] and "cjson" not in noted.printed["cjson"]
    assert noted.printed["byacc"].splitlines()[-1].split()[:3] == ["cjson", "1", "900"]
    assert noted.printed["tidy"].splitlines()[-1].split()[0] == "zlib"
    report = json.loads((tmp_path / "report.json").read_text())
    assert tuple(one["name"] for one in report["programs"]) == CATALOG
    assert "| tidy    |  900 |" in (tmp_path / "report.md").read_text()


def test_only_what_is_timed_has_the_machine_to_itself(noted: Noted, tmp_path: Path) -> None:
    run(tmp_path)
    assert noted.in_peace == WAYS - {"o2"}


def test_other_engines_are_compared_on_a_few_programs_or_on_all(
    noted: Noted, tmp_path: Path
) -> None:
    run(tmp_path)
    for engine in ("native", "aot"):
        assert sorted(noted.programs(engine)) == ["byacc", "zlib"]
    engines = json.loads((tmp_path / "report.json").read_text())["engines"]
    assert {e["engine"]: len(e["programs"]) for e in engines} == {
        "server": 4,
        "native": 2,
        "aot": 2,
    }
    noted.builds.clear()
    run(tmp_path, all_engines=True)
    assert sorted(noted.programs("aot")) == sorted(CATALOG)
    noted.builds.clear()
    run(tmp_path, "tidy")
    assert {way for _, way in noted.builds} == {*WAYS, "native", "aot"}


def test_it_goes_on_without_a_program_that_cannot_be_had(noted: Noted, tmp_path: Path) -> None:
    noted.missing = ("byacc",)
    assert run(tmp_path) == []
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["left_out"] == ["byacc"] and len(report["programs"]) == 3
    noted.missing = ("byacc", "cjson")
    with pytest.raises(ProgramsError, match=r"(?s)2 of 4 .*cjson: its archive.*byacc: its"):
        run(tmp_path)
    noted.missing = ("tidy",)
    with pytest.raises(ProgramsError, match="1 of 1 programs could not be fetched"):
        run(tmp_path, "tidy")


def test_nothing_is_fetched_while_something_is_timed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    happened: list[str] = []
    begun, go_on, timing = threading.Event(), threading.Event(), threading.Event()

    def fetch_one(of: Program, *_: object) -> None:
        happened.append(f"fetching {of.name}")
        begun.set()
        assert go_on.wait(60)
        happened.append(f"fetched {of.name}")
        if of.name == "bad":
            raise ProgramsError("no such package")

    def let_go() -> None:
        timing.wait(0.2)  # what doesn't wait for the fetch begins before that may go on
        go_on.set()

    monkeypatch.setattr(fetching, "fetch_one", fetch_one)
    programs = [program(name) for name in ("a", "bad", "c")]
    with Sources(programs, tmp_path) as sources, ThreadPoolExecutor(1) as other:
        assert begun.wait(60)
        other.submit(let_go)
        with sources.undisturbed():
            happened.append("timing")
            timing.set()
            happened.append("timed")
        sources.wait_for(programs[0])
        with pytest.raises(ProgramsError, match="no such package"):
            sources.wait_for(programs[1])
        sources.wait_for(programs[2])
    at = happened.index("timing")
    assert happened[at - 1].startswith("fetched") and happened[at + 1] == "timed"
    fetches = [text for text in happened if not text.startswith("tim")]
    assert fetches == [f"{did} {p.name}" for p in programs for did in ("fetching", "fetched")]
