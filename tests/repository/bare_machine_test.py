# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/bare-machine, as far as it goes without root: arguments, what is taken from the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import bare_machine
import join_results
import pytest
from result_tables import section, table

ROOT = Path(__file__).resolve().parents[2]


def test_without_root_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(bare_machine, "HOME", tmp_path / "untouched")
    with pytest.raises(SystemExit, match="1"):
        bare_machine.main(["--cache", str(tmp_path), "make", "demo"])
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1 and "needs root" in said.err
    assert not (tmp_path / "untouched").exists()


@pytest.mark.parametrize("bad", [["--release", "buster"], ["--release"], ["--keep"], ["--cache"]])
def test_wrong_arguments_are_named(bad: list[str]) -> None:
    command = [str(ROOT / "tools/bare-machine"), *bad]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and bad[0] in done.stderr and "usage" in done.stderr


def test_debians_own_sources_are_taken_for_the_release() -> None:
    deb822 = (
        "Types: deb deb-src\n# note\nURIs: http://a.example/debian\nSuites: bookworm bookworm"
        "-updates\nComponents: main\nSigned-By: /usr/share/keyrings/k.gpg\n\n"
        "Types: deb\nURIs: https://b.example/debian-security\nSuites: bookworm-security\n"
        "Components: main\nSigned-By:\n -----BEGIN PGP\n\n"
        "Types: deb\nURIs: http://c.example\nSuites: nodistro\nComponents: main\n\n"
        "Types: deb\nEnabled: no\nURIs: http://d.example\nSuites: bookworm\nComponents: main\n"
    )
    lists = (
        "# deb http://off.example bookworm main\n"
        "deb [trusted=yes] http://e.example bookworm main contrib\n"
        "deb-src http://e.example bookworm main\n"
        "deb http://f.example cloud-sdk-bookworm main\n"
    )
    found = bare_machine.sources({"a.sources": deb822, "b.list": lists}, "bookworm", "trixie")
    assert found == [
        "deb [signed-by=/usr/share/keyrings/k.gpg] http://a.example/debian trixie main",
        "deb [signed-by=/usr/share/keyrings/k.gpg] http://a.example/debian trixie-updates main",
        "deb https://b.example/debian-security trixie-security main",
        "deb [trusted=yes] http://e.example trixie main contrib",
    ]


def test_folders_and_files_of_pips_configuration_are_found(tmp_path: Path) -> None:
    wheels, index, certificate = (
        tmp_path / "my wheels",
        tmp_path / "mine/simple",
        tmp_path / "c.pem",
    )
    wheels.mkdir()
    index.mkdir(parents=True)
    certificate.touch()
    text = (
        f"[global]\nfind-links = {wheels.as_uri()}\ncert={certificate}\n# extra = {tmp_path}\n"
        f"extra-index-url = https://example.org/{tmp_path}\n  {index.as_uri()} file:///none/simple\n"
    )
    # The pages of an index lead to files beside its folder.
    assert bare_machine.local_paths(text) == [wheels, certificate, index.parent]


def test_a_root_is_never_deleted_through_a_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = bare_machine.Root(tmp_path / "root", "bookworm", None)
    kept = root.folder / "proc/kept"
    kept.parent.mkdir(parents=True)
    kept.touch()
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(bare_machine, "MOUNTS", mounts)
    mounts.write_text(f"proc {root.folder}/proc proc rw 0 0\n")
    with pytest.raises(bare_machine.BareMachineError, match=r"root/proc is mounted"):
        root.delete()
    assert kept.exists()
    mounts.write_text(f"proc {root.folder}2/proc proc rw 0 0\n")
    root.delete()
    assert not root.folder.exists() and mounts.exists()


def test_the_results_page_tells_what_the_report_says(tmp_path: Path) -> None:
    report = {
        "release": "trixie",
        "made_by": "mmdebstrap",
        "commit": "0123456789abcdef",
        "uncommitted_changes": False,
        "root_seconds": 60.0,
        "caches_warm": {"apt": True, "pip": True, "ccache": False},
        "packages": {"minimal": 100, "after": 300},
        "commands": [
            {"command": "make demo", "exit_code": 0, "seconds": 12.5},
            {"command": "make test", "exit_code": 2, "seconds": 99.0},
        ],
        "tests": {"passed": 7, "failed": 1, "skipped": 0},
    }
    path = tmp_path / "report.json"
    bare_machine.write_section(path, report)
    text = path.with_suffix(".md").read_text()
    for part in ("0123456789ab", "trixie", "300", "make demo", "12.5", "7 passed, 1 failed"):
        assert part in text, part
    bare_machine.write_section(path, report | {"tests": None})
    assert "Tests: none." in path.with_suffix(".md").read_text()


def test_a_table_has_the_keys_as_heads() -> None:
    first, second = ("a", 0.12345, True), ("b", None, False)
    rows = [dict(zip(("a_way", "µs", "holds"), row, strict=True)) for row in (first, second)]
    assert table(rows).splitlines() == [
        "| a way |     µs |  holds |",
        "| ----- | -----: | -----: |",
        "| a     | 0.1235 |    yes |",
        "| b     |      – | **no** |",
    ]


def test_what_was_measured_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(join_results, "BUILD", tmp_path / "build")
    monkeypatch.setattr(join_results, "ROOT", tmp_path)
    choosing = tmp_path / "choosing.md"
    monkeypatch.setattr(join_results, "PAGES", {"ask": choosing.name, "footprint": choosing.name})
    assert join_results.main() == 1 and "nothing has been measured" in capsys.readouterr().out
    for name, title in (("test/faults", "Out"), ("test/interop", "Out"), ("bench/ask", "Asking")):
        path = tmp_path / "build" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        section(path, title, f"What {name} says.", [{"client": name, "µs": 1}], [{"more": 2}])
    choosing.write_text("<!-- ask:begin -->\nold\n<!-- ask:end -->\n<!-- footprint:begin -->\n")
    assert join_results.main() == 0
    page = (tmp_path / "docs/results.md").read_text()
    assert page == (tmp_path / "build/bench/results.md").read_text()
    places = [page.index(text) for text in ("## Asking", "## Out", "interop says", "faults says")]
    assert places == sorted(places) and page.count("## Out") == 1
    assert choosing.read_text() == (
        "<!-- ask:begin -->\n\n| client    |   µs |\n| --------- | ---: |\n| bench/ask |    1 |\n"
        "\n<!-- ask:end -->\n<!-- footprint:begin -->\n"
    )
