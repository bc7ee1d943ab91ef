# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fetching with a stand-in for apt: what is written, what is left after a failure."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import ClassVar

import pytest

from mlbridge.corpus.packages import Apt, source_lists
from programs import fetch as fetching
from programs.catalog import Program, ProgramsError
from programs.fetch import fetch, fetched_version, source_tree, unpack, version_of

PROGRAM = Program("thing", "demo", "parser", "thing-src", ("*.c",))


def archive(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


class FakeApt:
    """Writes an archive instead of downloading one."""

    files: ClassVar[dict[str, bytes]] = {"thing-1.2/main.c": b"int main(void) { return 0; }\n"}
    calls: ClassVar[list[str]] = []
    failure = ""

    def __init__(self, build: Path) -> None:
        self.build = build

    def download(self, package: str, folder: Path) -> None:
        FakeApt.calls.append(package)
        if FakeApt.failure:
            raise ProgramsError(FakeApt.failure)
        archive(folder / f"{package}_1.2+ds.orig.tar.gz", FakeApt.files)
        (folder / f"{package}_1.2+ds.orig.tar.gz.asc").touch()


@pytest.fixture(autouse=True)
def fake_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "Apt", FakeApt)
    monkeypatch.setattr(FakeApt, "calls", [])
    monkeypatch.setattr(FakeApt, "failure", "")


def test_fetch_unpacks_once(tmp_path: Path) -> None:
    fetch([PROGRAM], tmp_path)
    assert (source_tree(PROGRAM, tmp_path) / "main.c").is_file()
    assert fetched_version(PROGRAM, tmp_path) == "thing-src 1.2+ds"
    fetch([PROGRAM], tmp_path)
    assert FakeApt.calls == ["thing-src"]
    assert sorted(p.name for p in (tmp_path / "source").iterdir()) == ["thing", "thing.version"]


def test_a_failure_names_the_program_and_leaves_nothing_that_looks_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeApt, "failure", "404 not found")
    with pytest.raises(ProgramsError, match=r"1 of 1 .*\nthing: 404 not found"):
        fetch([PROGRAM], tmp_path)
    assert not source_tree(PROGRAM, tmp_path).exists()
    monkeypatch.setattr(FakeApt, "failure", "")
    fetch([PROGRAM], tmp_path)
    assert (source_tree(PROGRAM, tmp_path) / "main.c").is_file()


def test_enough_programs_go_on_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Program("other", "demo", "parser", "other-src", ("*.c",))
    fetch([other], tmp_path)
    monkeypatch.setattr(FakeApt, "failure", "404 not found")
    assert fetch([PROGRAM, other], tmp_path, least=1) == [other]
    assert "without them" in (said := capsys.readouterr().err) and "thing: 404 not found" in said
    with pytest.raises(ProgramsError, match=r"thing: 404 not found"):
        fetch([PROGRAM, other], tmp_path, least=2)


APT = r"""#!/bin/sh
# Lists versions 3, 2 and 1 of thing-src, and has the archive of 1 only.
echo "$0 $*" >>"$CALLS"
case "$*" in
  *" update") mkdir -p apt/lists; touch lists/x_Sources ;;
  *" madison thing-src")
    for v in 3-1 2-1 1-1; do echo "thing-src | $v | http://example.org s/main Sources"; done ;;
  *" thing-src=1-1") cp "$ARCHIVE" thing-src_1.orig.tar.gz ;;
  *) echo "E: Failed to fetch 404 Not Found"; exit 100 ;;
esac
"""


def test_another_version_is_taken_where_the_archive_lacks_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("apt-get", "apt-cache"):
        (tools / name).write_text(APT)
        (tools / name).chmod(0o755)
    archive(tmp_path / "thing.tar.gz", FakeApt.files)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("ARCHIVE", str(tmp_path / "thing.tar.gz"))
    monkeypatch.setattr(fetching, "Apt", Apt)
    fetch([PROGRAM], tmp_path / "build")
    assert fetched_version(PROGRAM, tmp_path / "build") == "thing-src 1"
    (tmp_path / "thing.tar.gz").unlink()
    with pytest.raises(ProgramsError, match="404 Not Found"):
        fetch([PROGRAM], tmp_path / "again")


def test_a_source_tree_without_the_listed_files_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeApt, "files", {"thing-1.2/README": b""})
    with pytest.raises(ProgramsError, match=r"thing: no file matches \*\.c"):
        fetch([PROGRAM], tmp_path)
    with pytest.raises(ProgramsError, match="no file matches"):
        fetch([PROGRAM], tmp_path)


def test_an_archive_cannot_write_outside_its_tree(tmp_path: Path) -> None:
    archive(tmp_path / "bad.tar.gz", {"thing/../../outside.c": b"x"})
    with pytest.raises(ProgramsError, match=r"bad\.tar\.gz"):
        unpack([tmp_path / "bad.tar.gz"], tmp_path / "source" / "thing")
    assert not (tmp_path / "outside.c").exists()
    assert list((tmp_path / "source").iterdir()) == []


def test_a_truncated_archive_leaves_the_old_tree(tmp_path: Path) -> None:
    good = tmp_path / "good.tar.gz"
    archive(good, {"thing/a.c": b"x" * 100000})
    tree = tmp_path / "source" / "thing"
    unpack([good], tree)
    good.write_bytes(good.read_bytes()[:-60])
    with pytest.raises(ProgramsError, match=r"good\.tar\.gz"):
        unpack([good], tree)
    assert (tree / "a.c").is_file()


def test_apt_sources_become_source_lists() -> None:
    new, old = source_lists(
        ["Types: deb deb-src\n# note\nURIs: http://example.org/d\nSuites: s t\nComponents: main\n"
         "\n# nothing\n\nTypes: deb\nURIs: http://example.org/e\nSuites: u\nComponents: main\n"],
        ["# deb http://example.org/off s main\n"
         "deb [signed-by=/k.gpg] http://example.org/f s main\n"
         "deb-src [signed-by=/k.gpg] http://example.org/f s main\n"],
    )  # fmt: skip
    assert new.count("Types: deb-src\n") == 2
    assert "example.org/d" in new and "example.org/e" in new
    assert old == "deb-src [signed-by=/k.gpg] http://example.org/f s main\n"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("zlib_1.2.13.dfsg.orig.tar.bz2", "1.2.13.dfsg"),
        ("tinycdb_0.78.tar.gz", "0.78"),
        ("odd.tar.gz", "unknown"),
    ],
)
def test_version_of_an_archive(name: str, version: str) -> None:
    assert version_of(name) == version
