# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whatever a file is that a command is given: the command ends with 1 or 2 and one line."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import page_sources
import pytest

import mlbridge
from mlbridge import (
    Error,
    Recording,
    Signature,
    TensorSpec,
    candidates,
    corpus,
    files,
    frames,
    vocabulary,
)
from mlbridge.cli import main
from mlbridge.corpus import store
from mlbridge.recording import MAGIC, Replay, replay
from mlbridge.training.folder import Folder

#: How many lengths and how many bits of a longer file are tried, and by how many a night has more.
SAMPLE = 20
OTHERS = {
    "empty": b"",
    "zeros": bytes(4096),
    "text": b"Dear all,\nthis is a letter.\n",
    "not text": bytes(range(256)) * 4,
    "surrogate": b'["\\ud800"]',
    "null": b"null",
    "number": b"1e999",
    "list": b"[]",
    "lists": b"[[[]]]",
    "object": b"{}",
    "string": b'"x"',
    "true": b"true",
    "deep": b"[" * 200_000,
    "deep object": b'{"a":' * 100_000,
    "long line": b"a" * (3 << 20),
    "object file": b"\x7fELF\x02\x01\x01" + bytes(57),
    "archive": b"PK\x03\x04" + bytes(60),
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(60),
    "parquet": b"PAR1" + bytes(40) + b"PAR1",
    "huge lengths": MAGIC + b"\xff" * 64,
    "huge table": b"PAR1" + b"\xff" * 40 + b"\xff\xff\xff\x7fPAR1",
}


@mlbridge.function("recorded", metadata={"name": "value"})
def answer(observation: Any, context: Any) -> int:
    if not observation["x"][0]:
        raise ValueError("gone")
    return 1


@pytest.fixture(autouse=True)
def strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Unforeseen errors are raised, and nothing is waited for."""
    monkeypatch.setenv("MLBRIDGE_TRACEBACK", "1")
    monkeypatch.setenv("MLBRIDGE_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.chdir(tmp_path)

    def hung(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, hung)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def recording(folder: Path) -> Path:
    path = folder / "whole.mlbrec"
    signature = Signature(
        [TensorSpec("x", "float32", [2]), TensorSpec("s", str, [1])], [TensorSpec("a", "int64", [])]
    )
    with mlbridge.open(f"function:recorded?record={folder}/made", signature) as runner:
        runner.begin_episode("e", "f.c")
        runner.evaluate(x=[1.0, 2.0], s=["text"])
        runner.reward(0.5)
        with contextlib.suppress(mlbridge.PolicyFailed):
            runner.evaluate(x=[0.0, 2.0])
        runner.end_episode()
    (made,) = (folder / "made").iterdir()
    made.rename(path)
    (folder / "made").rmdir()
    return path


def log(folder: Path) -> Path:
    path = folder / "whole.log"
    header = {
        "features": [
            {"name": "f", "type": "float", "port": 0, "shape": [2]},
            {"name": "inlining_decision", "type": "int64_t", "port": 0, "shape": [1]},
        ],
        "score": {"name": "r", "type": "float", "port": 0, "shape": [1]},
    }
    lines = [json.dumps(header).encode(), b'{"context":"f"}', b'{"observation":0}']
    lines += [struct.pack("<ffq", 1, 2, 1), b'{"outcome":0}', struct.pack("<f", 3)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def listed(folder: Path) -> Path:
    path = folder / "whole.json"
    path.write_text(candidates.text([candidates.Candidate("one", "instcombine", ("-x",))]))
    return path


def sizes(folder: Path) -> Path:
    path = folder / "whole.jsonl"
    line = {"module": "m", "program": "p", "stock": 1, "bytes": {"k": 1}, "features": [1]}
    path.write_text((json.dumps(line) + "\n") * 2)
    return path


def settings(folder: Path) -> Path:
    path = folder / "whole.json"
    path.write_text(
        json.dumps(
            {"environment": "phase-ordering", "steps": 3, "options": {"corpus": "/nowhere/x"}}
        )
    )
    return path


def network(folder: Path) -> Path:
    path = folder / "whole.onnx"
    shutil.copy(files.shipped_model("phase-ordering-size"), path)
    return path


def commands(folder: Path) -> Path:
    path = folder / "whole.json"
    entries = [{"directory": ".", "file": "x.c", "command": "cc -c x.c"}]
    path.write_text(json.dumps(entries))
    return path


def words_of(folder: Path) -> Path:
    path = folder / "whole.json"
    path.write_text(json.dumps({"Opcodes": {"add": [1.0, 2.0]}, "Types": {}, "Arguments": {}}))
    return path


def table(folder: Path) -> Path:
    """The manifest of a corpus with a module."""
    path = folder / "corpus"
    bitcode = folder / "bitcode"
    bitcode.write_bytes(bytes(range(100)))
    module = store.Module("0" * 40, "p", "1", "a.c", "c", ("-Oz",), "x86_64", 100, None, "", 0)
    with store.lock(path):
        store.append(path, [(module, bitcode)])
    return path / store.MANIFEST


def shard(folder: Path) -> Path:
    return next((table(folder).parent / "shards").iterdir())


def divided(folder: Path) -> Path:
    path = table(folder).parent / "split.json"
    path.write_text(json.dumps({"seed": 1, "parts": {"a": 1.0}, "programs": {"p": "a"}}))
    return path


def kind(folder: Path) -> Path:
    return table(folder).parent / "mlbridge.json"


def made_object(folder: Path) -> Path:
    path = folder / "whole.o"
    section = struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 192, 20, 0, 0, 1, 0)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 2, 1)
    path.write_bytes(head + bytes(64) + section + b"\0.llvmbc\0".ljust(20, b"\0"))
    return path


def evaluated(folder: Path) -> Path:
    path = folder / "whole.json"
    page_sources.validation(path, 1)
    return path


def demonstrated(folder: Path) -> Path:
    path = folder / "whole.json"
    page_sources.demo(path, 2)
    return path


def trained(folder: Path) -> Path:
    page_sources.training(folder / "training")
    return folder / "training/progress.jsonl"


def tried_candidates(folder: Path) -> Path:
    page_sources.candidates(folder / "logs")
    return folder / "logs/1.trials.json"


def run(*words: str | Path) -> Callable[[Path], int]:
    """A command; FILE is what is damaged, FOLDER where it is, NEW a path without a file."""

    def call(file: Path) -> int:
        names = {"FILE": str(file), "FOLDER": str(file.parent), "NEW": f"{file}.new"}
        line = []
        for word in map(str, words):
            for name, text in names.items():
                word = word.replace(name, text)
            line.append(word)
        with contextlib.suppress(OSError):
            Path(f"{file}.new").unlink()
        return main(line)

    return call


def python(call: Callable[[Path], Any]) -> Callable[[Path], int]:
    """A function of the package: raises an Error, or nothing."""

    def outcome(file: Path) -> int:
        try:
            call(file)
        except Error as error:
            main(["inspect", f"/nowhere/{type(error).__name__}"])  # says one line
            return 1
        return 0

    return outcome


def whole_recording(file: Path) -> None:
    Replay(file)
    list(Recording(file).episodes())
    frames.steps(file)


AT = ("--at", "unix:/nowhere/at/all.sock")
CASES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], int]]] = {
    "replay": (recording, run("replay", "FILE", *AT)),
    "report recording": (recording, run("report", "FILE", "-o", "NEW")),
    "report validation": (evaluated, run("report", "FILE", "-o", "NEW")),
    "report demo": (demonstrated, run("report", "FILE", "-o", "NEW")),
    "report training": (trained, run("report", "FOLDER", "-o", "NEW")),
    "report candidates": (tried_candidates, run("report", "FILE", "-o", "NEW")),
    "report object": (made_object, run("report", "FILE", "-o", "NEW")),
    "recording": (recording, python(whole_recording)),
    "inspect recording": (recording, run("inspect", "FILE")),
    "log": (log, run("log", "FILE")),
    "log -o": (log, run("log", "FILE", "-o", "NEW")),
    "inspect": (network, run("inspect", "FILE")),
    "inspect --json": (network, run("inspect", "native:FILE", "--json")),
    "inspect aot": (made_object, run("inspect", "FILE")),
    "aot": (network, run("aot", "FILE", "-o", "FILE.weights")),
    "serve": (network, run("serve", "FILE", *AT)),
    "stats": (network, run("stats", "native:FILE")),
    "train --config": (settings, run("train", "--config", "FILE", "-o", "NEW")),
    "tune --config": (settings, run("tune", "--config", "FILE", "-o", "NEW")),
    "candidates": (listed, run("candidates", "FILE", "/nowhere/x", "--sizes", "NEW")),
    "sizes": (sizes, python(lambda file: candidates._read_kept(file))),
    "vocabulary": (words_of, python(vocabulary.read)),
    "compile commands": (commands, run("corpus", "add", "./new", "--compile-commands", "FILE")),
    "embedded": (made_object, run("corpus", "add", "./new", "--embedded", "FILE")),
    "manifest show": (table, run("corpus", "show", "FOLDER")),
    "manifest add": (table, run("corpus", "add", "FOLDER", "--embedded", "/nowhere/x.o")),
    "shard": (shard, run("corpus", "show", "FOLDER/..", "0" * 40, "--extract", "FOLDER/..")),
    "split": (divided, run("corpus", "split", "FOLDER", "--seed", "1", "--parts", "a=1")),
    "split show": (divided, run("corpus", "show", "FOLDER")),
    "marker": (kind, run("corpus", "split", "FOLDER", "--seed", "1", "--parts", "a=1")),
}


def damaged(whole: bytes, most: int) -> Iterator[bytes]:
    """Cut off at each length, and with each bit flipped; of many a sample."""
    chosen = random.Random(1)
    lengths = range(len(whole))
    some = lengths if len(whole) <= most else sorted(chosen.sample(lengths, most))
    for length in some:
        yield whole[:length]
    for _ in range(min(most, 8 * len(whole))):
        bit = chosen.randrange(8 * len(whole))
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def tried(call: Callable[[Path], int], file: Path, capsys: Any) -> None:
    """Expects what the head of this file says, unless what is damaged doesn't matter."""
    signal.alarm(20)
    code = call(file)
    signal.alarm(0)
    err = capsys.readouterr().err
    if code:
        assert code in (1, 2), code
        # Each file of an addition that is not recorded has a line, before the one that ends it.
        lines = [
            line
            for line in err.splitlines()
            if not re.match("mlbridge corpus: (not recorded|left out)", line)
        ]
        assert len(lines) == 1 and len(lines[0]) < 3000 and "this is a bug" not in err, err


@pytest.mark.parametrize("case", CASES)
def test_other_files(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, call = CASES[case]
    file = make(tmp_path)
    for data in OTHERS.values():
        file.write_bytes(data)
        tried(call, file, capsys)


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_file(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, call = CASES[case]
    file = make(tmp_path)

    def endless() -> None:
        file.symlink_to("/dev/zero")

    def looping() -> None:
        file.symlink_to(file)

    makers: list[Callable[[], object]] = [
        *(file.mkdir, lambda: os.mkfifo(file), endless, looping, lambda: None),
    ]
    for replace in makers:
        file.unlink()
        replace()
        tried(call, file, capsys)
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        if not os.path.lexists(file):
            file.touch()


@pytest.mark.parametrize(
    "most", [SAMPLE, pytest.param(1200, marks=pytest.mark.nightly)], ids=["some", "many"]
)
@pytest.mark.parametrize("case", CASES)
def test_damaged_files(
    case: str, most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, call = CASES[case]
    file = make(tmp_path)
    whole = file.read_bytes()
    for data in damaged(whole, most):
        file.write_bytes(data)
        tried(call, file, capsys)


def test_a_replay_says_that_a_recording_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recording(tmp_path)
    whole = file.read_bytes()
    wrong = bytearray(whole)
    wrong[-1] ^= 1
    file.write_bytes(wrong)
    assert main(["replay", str(file), *AT]) == 1
    assert "the checksum of a record is wrong" in capsys.readouterr().err
    file.write_bytes(whole[:-1])  # as a recorder leaves it that was killed
    said: list[str] = []
    replay(file, f"unix:{tmp_path}/s", ready=lambda server: server.stop(), damaged=said.append)
    assert len(said) == 1 and said[0].endswith("more; what is before it is answered")


def record_of(text: bytes, data: bytes = b"") -> bytes:
    checksum = zlib.crc32(data, zlib.crc32(text))
    return struct.pack("<IQI", len(text), len(data), checksum) + text + data


HEAD = {"kind": "recording", "time": 0, "model": "m", "began": 0, "metadata": {}, "signature": None}
WHO = {"connection": 1, "stream": 1, "agent": "", "episode": "", "context": "", "step": 0}
REQUEST = {"kind": "request", "time": 0, "number": 1, "tensors": [], **WHO}
SPEC = {"name": "x", "type": "int64", "shape": [1], "maximum": None}
VALUES: list[Any] = [None, True, -1, 1 << 70, 1e308, "x", "\ud800", [], [[]], {}, {"a": 1}, [SPEC]]


def changed_once(whole: Any) -> Iterator[Any]:
    """Variants with each value, at any depth, replaced by each other one or left out."""
    if isinstance(whole, dict):
        for name, value in whole.items():
            yield {key: other for key, other in whole.items() if key != name}
            for other in (*VALUES, *changed_once(value)):
                yield {**whole, name: other}
    elif isinstance(whole, list):
        for at, value in enumerate(whole):
            for other in (*VALUES, *changed_once(value)):
                yield [*whole[:at], other, *whole[at + 1 :]]


@pytest.mark.parametrize(
    "every", [11, pytest.param(1, marks=pytest.mark.nightly)], ids=["some", "all"]
)
def test_recordings_with_right_checksums(
    every: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recordings whose records have any values."""
    numbers = {"name": "x", "type": "int64", "shape": [1]}
    texts = {"name": "s", "type": "string", "shape": [1], "values": ["x"]}
    signature = {"inputs": [SPEC], "outputs": [SPEC]}
    records = [
        ({**HEAD, "signature": signature}, b""),
        ({"kind": "stream", "time": 0, "signature": signature, **WHO}, b""),
        ({"kind": "begin", "time": 0, **WHO}, b""),
        ({**REQUEST, "tensors": [numbers, texts]}, bytes(8)),
        ({"kind": "reply", "time": 1, "number": 1, "wait": 1, "tensors": [numbers]}, bytes(8)),
        ({"kind": "reward", "time": 0, "reward": 1, **WHO}, b""),
        ({**REQUEST, "number": 2}, b""),
        ({"kind": "error", "time": 1, "number": 2, "code": 1, "message": "m"}, b""),
        ({"kind": "end", "time": 1, "code": 0, "message": "", **WHO}, b""),
    ]
    file = tmp_path / "f.mlbrec"
    read = python(whole_recording)
    for at, (record, data) in enumerate(records):
        for other in list(changed_once(record))[at % every :: every]:
            changed = [*records[:at], (other, data), *records[at + 1 :]]
            file.write_bytes(
                MAGIC + b"".join(record_of(json.dumps(r).encode(), d) for r, d in changed)
            )
            tried(read, file, capsys)


@pytest.mark.parametrize("make", [commands, listed, settings, words_of, divided, sizes])
def test_json_with_any_values(
    make: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = make(tmp_path)
    whole = json.loads(file.read_text().splitlines()[0] if make is sizes else file.read_text())
    [call, *_] = [call for maker, call in CASES.values() if maker is make]
    for other in changed_once(whole):
        file.write_text(json.dumps(other) + "\n")
        tried(call, file, capsys)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def policy(", "SyntaxError"),
        ("x = 1\nraise RuntimeError('no such luck')", "line 2: RuntimeError: no such luck"),
        ("import sys\nsys.exit(0)", "line 2: SystemExit: 0"),
        ("import no_such_module_at_all", "line 1: ModuleNotFoundError"),
        ("\0", "SyntaxError|ValueError"),
    ],
)
def test_python_files(
    text: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_policy.py").write_text(text)
    assert main(["serve", str(tmp_path / "broken_policy.py:policy"), *AT]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert any(part in err for part in what.split("|")), err


def test_a_folder_of_a_training(tmp_path: Path) -> None:
    row = {"iteration": 1, "steps": 2, "seconds": 1.0, "reward": None}
    texts = {"settings.json": "{}", "progress.jsonl": json.dumps(row) + "\n"}
    texts["checkpoint-1/iteration.json"] = json.dumps({"iteration": 1})
    place = tmp_path / "training"
    folder = Folder(place)
    with folder.locked():
        (place / "checkpoint-1").mkdir()
        for name, text in texts.items():
            (place / name).write_text(text)
        assert folder.begin({}, resume=True) == [row]
        for name, whole in texts.items():
            others = [json.dumps(value).encode() for value in changed_once(json.loads(whole))]
            for data in [*OTHERS.values(), *others, *damaged(whole.encode(), SAMPLE)]:
                (place / name).write_bytes(data)
                with contextlib.suppress(Error):
                    folder.begin({}, resume=True)
                (place / "progress.jsonl").write_text(texts["progress.jsonl"])
            (place / name).write_text(whole)


def test_an_error_that_nobody_has_foreseen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("how\ncome?")

    monkeypatch.setattr(corpus, "names", broken)
    with pytest.raises(ZeroDivisionError):
        main(["corpus", "list"])
    monkeypatch.delenv("MLBRIDGE_TRACEBACK")
    assert main(["corpus", "list"]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and "ZeroDivisionError: how come?; this is a bug" in err
