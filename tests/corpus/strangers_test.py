# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No command deletes or overwrites what it did not make in a folder that the user names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Command

from mlbridge import (
    InvalidArgument,
    InvalidModel,
    Server,
    Signature,
    TensorSpec,
    Unsupported,
    candidates,
    corpus,
    files,
)
from mlbridge.claiming import MARKER, claim
from mlbridge.cli import main
from mlbridge.corpus import store
from mlbridge.training.folder import Folder
from mlbridge.workspace import Program, Workspace

ADD = ("--", "clang-22", "-Oz", "-c", "a.c")


def everything(folder: Path) -> dict[str, bytes | str]:
    """What is in a folder; of a link where it leads."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def filled(folder: Path) -> dict[str, bytes | str]:
    """Puts files there as somebody may have who calls them as a corpus or a training does."""
    for name in (
        *("shards/notes.txt", "shards/00000-01234567.parquet", "shards/sub/x", "README.md", "lock"),
        *("incoming/0123456789ab/letter.txt", "incoming/mail/1.json", "wrappers/clang/clang-22"),
        *("split.json", ".manifest.parquet.1-01234567", "settings.json", "checkpoint-3/weights"),
        *("checkpoint.part/x", "trials/a/b", "ray/x", "tree/main.c", "decisions/log", "curve.png"),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    return everything(folder)


def test_a_folder_that_is_no_corpus_is_refused(
    command: Command, program: Path, tmp_path: Path
) -> None:
    before = filled(tmp_path / "folder")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    commands = [{"directory": str(program), "command": "cc -c a.c", "file": "a.c"}]
    (program / "commands.json").write_text(json.dumps(commands))
    for name in ("folder", "link"):
        for words in (ADD, ("--compile-commands", "commands.json"), ("--embedded", "a.c")):
            done = command("add", tmp_path / name, *words, code=1)
            assert "is no corpus, and has other files in it (" in done.stderr
            assert len(done.stderr.splitlines()) == 1
        command("split", tmp_path / name, "--seed", "1", "--parts", "a=1", code=1)
        command("show", tmp_path / name, code=1)
    assert everything(tmp_path / "folder") == before
    assert not (program / "a.o").exists()  # nothing was built in vain


@pytest.mark.parametrize(
    "manifest", [None, b"", b"mine", b"PAR1PAR1"], ids=["none", "empty", "text", "parquet"]
)
def test_a_strangers_manifest_makes_no_corpus(tmp_path: Path, manifest: bytes | None) -> None:
    for name in ("shards/x", "incoming/x", "manifest.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(manifest or b"")
    if manifest is None:
        (tmp_path / "manifest.parquet").unlink()
    before = everything(tmp_path)
    with pytest.raises(InvalidArgument, match="is no corpus"), store.lock(tmp_path):
        pass
    assert everything(tmp_path) == before


def test_what_others_put_into_a_corpus_stays(command: Command, tmp_path: Path) -> None:
    """Also what looks like something that a killed writer has left."""
    place = tmp_path / "a corpus"
    command("add", place, *ADD)
    others = tmp_path / "others"
    others.mkdir()
    (others / "program.json").write_text("{}")
    mine = ["notes", "00000-01234567.parquet", "00001-01234567", ".x.parquet.1-01234567"]
    for name in mine:
        (place / "shards" / name).write_text("mine")
    (place / "shards" / "00009-01234567.parquet").symlink_to(others / "program.json")
    for name in ("0123456789ab", "mail"):
        (place / "incoming" / name).mkdir()
        (place / "incoming" / name / "letter.txt").write_text("mine")
    (place / "incoming" / "ba9876543210").symlink_to(others)
    before = everything(place)
    command("add", place, "--", "clang-22", "-Oz", "-c", "b.c")
    after = everything(place)
    assert before.keys() - after.keys() == set()
    assert all(after[name] == before[name] for name in before if name != "manifest.parquet")
    assert everything(others) == {"program.json": b"{}"}
    assert [m.source for m in corpus.open(place)] == ["a.c", "b.c"]


@pytest.mark.parametrize("part", ["shards", "incoming", "wrappers", "wrappers/clang"])
def test_nothing_is_deleted_through_a_link(command: Command, tmp_path: Path, part: str) -> None:
    place, others = tmp_path / "a corpus", tmp_path / "others"
    command("add", place, *ADD)
    shutil.copytree(place / part, others)
    for name in ("00000-01234567.parquet", "notes", "0123456789ab/program.json"):
        (others / name).parent.mkdir(exist_ok=True)
        (others / name).write_text("{}")
    shutil.rmtree(place / part)
    (place / part).symlink_to(others)
    before = everything(others)
    done = command("add", place, "--", "clang-22", "-c", "b.c", code=int(part != "shards"))
    assert (part == "shards") != ("is a link, through which nothing is changed" in done.stderr)
    assert everything(others).items() >= before.items()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"kind": "corpus", "version": 2}', "version 2; this mlbridge knows 1"),
        ('{"kind": "training", "version": 1}', "is a training, and no corpus"),
        pytest.param("[" * 100_000, "does not say what the folder is", id="deep"),
        ("mine", "does not say what the folder is"),
    ],
)
def test_other_markers(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises((InvalidArgument, InvalidModel, Unsupported), match=what):
        claim(tmp_path, "corpus")
    assert everything(tmp_path) == {MARKER: text.encode()}


def training(path: Path) -> None:
    with Folder(path).locked():
        pass


def searching(path: Path) -> None:
    with Folder(path, "search").locked():
        pass


def validating(path: Path) -> None:
    source = path.with_name("a source")
    source.mkdir(exist_ok=True)
    Workspace(Program("p", source, "make"), path)


@pytest.mark.parametrize("makes", [training, searching, validating])
def test_other_folders(tmp_path: Path, makes: Callable[[Path], None]) -> None:
    folder = tmp_path / "folder"
    before = filled(folder)
    with pytest.raises(InvalidArgument, match=r"is no \w+, and has other files in it"):
        makes(folder)
    assert everything(folder) == before
    (tmp_path / "empty").mkdir()
    for place in ("new", "empty"):
        makes(tmp_path / place)
        makes(tmp_path / place)  # again
    kinds: list[Callable[[Path], None]] = [training, searching, validating]
    other = kinds[kinds.index(makes) - 1]
    with pytest.raises(InvalidArgument, match=r"is a \w+, and no"):
        other(tmp_path / "new")


def test_sources_are_not_written_over_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mlbridge aot -o FOLDER/`."""
    line = ["aot", files.shipped_model("phase-ordering-size"), "-o"]
    for number, name in enumerate(("src.cpp", "src.weights", "kernels/math.h", "mlbridge/aot.h")):
        folder = tmp_path / str(number) / "src"
        other = folder / name
        other.parent.mkdir(parents=True)
        other.write_text("// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\nint mine;\n")
        before = everything(folder)
        assert main([*line, f"{folder}/"]) == 1
        assert "has other files of these names" in capsys.readouterr().err
        assert everything(folder) == before
        other.unlink()
        assert main([*line, f"{folder}/"]) == main([*line, f"{folder}/"]) == 0


@pytest.mark.parametrize("text", ["a note", '{"module": 1}\n', "a note\n", '{"module": "x"}\nnote'])
def test_sizes_are_not_written_into_another_file(tmp_path: Path, text: str) -> None:
    """`mlbridge candidates --sizes FILE`, which forgets half a line of its own."""
    kept = tmp_path / "notes"
    kept.write_text(text)
    with pytest.raises(InvalidArgument, match="not a line of sizes"):
        candidates._read_kept(kept)
    assert kept.read_text() == text
    line = '{"module": "x", "program": "p", "stock": 1, "bytes": {}, "features": []}\n'
    for half in ("", "{", '{"module": "y", "pro'):
        kept.write_text(line + half)
        assert list(candidates._read_kept(kept)) == ["x"]
        assert kept.read_text() == line


def test_a_server_of_pipes_removes_its_own_alone(tmp_path: Path) -> None:
    folder = tmp_path / "pipes"
    folder.mkdir()
    signature = Signature([TensorSpec("x", "int64", [])], [TensorSpec("y", "int64", [])])
    for name in ("compiler-1-0123456789abcdef", "other"):
        for side in ("in", "out"):
            (folder / f"{name}.{side}").write_text("mine")
    before = everything(folder)
    Server(f"pipe:{folder}/", signature).close()
    assert everything(folder) == before
