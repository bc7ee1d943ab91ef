# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilers and models of 2024 over named pipes: each of ours with theirs, and with our own.

Theirs in Python is the package compilerinterface 0.0.2 of PyPI. Theirs in C++ is what it would have
written, byte by byte (`recorded_compiler`).
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import CompilerInterface
import pytest
from building import ROOT

HERE = Path(__file__).parent
EXAMPLES = ROOT / "compat" / "examples"
MODULES = ("compilerinterface", "CompilerInterface")
FORMATS = ("json", "bytes")
# A machine with much to do starts a model slowly.
ENVIRONMENT = dict(os.environ, MLBRIDGE_COMPAT_DEADLINE="50s")


def converse(
    compiler: list[str],
    module: str,
    what: str,
    data_format: str,
    pipe: Path,
    *,
    compiler_first: bool = False,
) -> str:
    """A model and a compiler talk; what the compiler printed."""

    def compile_() -> subprocess.Popen[str]:
        return subprocess.Popen(
            compiler, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    process = compile_() if compiler_first else None
    model = subprocess.Popen(
        [sys.executable, HERE / "published/model.py", module, what, data_format, pipe],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(HERE.parent / "python")),
    )
    assert model.stdout is not None
    try:
        assert model.stdout.readline() == "ready\n"
        process = process or compile_()
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (out, err)
        assert model.stdout.read() == "good\n", (out, err)
        assert model.wait(30) == 0
        return out
    finally:
        model.kill()
        model.wait()
        model.stdout.close()


@pytest.mark.parametrize("program", ["types", "types_without_exceptions"])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("module", MODULES)
def test_every_type(
    programs: Path, tmp_path: Path, module: str, data_format: str, program: str
) -> None:
    pipe = tmp_path / "pipe"
    compiler = [str(programs / program), data_format, str(pipe)]
    assert converse(compiler, module, "types", data_format, pipe) == "0 wrong\n"


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("module", MODULES)
def test_an_episode(programs: Path, tmp_path: Path, module: str, data_format: str) -> None:
    pipe = tmp_path / "pipe"
    compiler = [str(programs / "episode"), data_format, str(pipe)]
    assert converse(compiler, module, "episode", data_format, pipe) == "7 3 7 0 ok\n"


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("module", MODULES)
def test_a_compiler_that_starts_before_its_model(
    programs: Path, tmp_path: Path, module: str, data_format: str
) -> None:
    """It waits for FIFOs that nobody has made yet."""
    pipe = tmp_path / "pipe"
    compiler = [str(programs / "episode"), data_format, str(pipe)]
    answer = converse(compiler, module, "episode", data_format, pipe, compiler_first=True)
    assert answer == "7 3 7 0 ok\n"


def test_fifos_that_are_made_anew(programs: Path, tmp_path: Path) -> None:
    """The next model replaces FIFOs that the compiler found and whose model is gone."""
    pipe = tmp_path / "pipe"
    os.mkfifo(f"{pipe}.in")
    with subprocess.Popen(
        [programs / "episode", "json", pipe], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as compiler:

        def model() -> None:
            with open(f"{pipe}.in", "wb"):  # returns when the compiler has opened it
                Path(f"{pipe}.in").unlink()
            for end in ("in", "out"):
                os.mkfifo(f"{pipe}.{end}")
            with open(f"{pipe}.in", "wb") as to, open(f"{pipe}.out", "rb") as from_compiler:
                from_compiler.read(int.from_bytes(from_compiler.read(8), "little"))
                to.write(framed(b'{"out": -1}'))
                to.flush()  # or from_compiler is closed before it

        thread = threading.Thread(target=model, daemon=True)
        thread.start()
        assert compiler.communicate(timeout=60)[0] == "ok\n"
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("module", MODULES)
def test_the_c_functions(programs: Path, tmp_path: Path, module: str, data_format: str) -> None:
    pipe = tmp_path / "pipe"
    kind = str(1 + FORMATS.index(data_format))
    compiler = [str(programs / "slides_pluto"), str(pipe), kind]
    assert converse(compiler, module, "pluto", data_format, pipe) == "4 0.25 \n"


@pytest.mark.parametrize("data_format", FORMATS)
def test_listings_4_and_5(programs: Path, tmp_path: Path, data_format: str) -> None:
    pipe = tmp_path / "pipe"
    with subprocess.Popen(
        [sys.executable, EXAMPLES / "listing5.py", data_format, pipe],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(HERE.parent / "python")),
    ) as model:
        assert model.stdout is not None and model.stdout.readline() == "ready\n"
        compiler = [str(programs / "listing4"), data_format, str(pipe)]
        done = subprocess.run(compiler, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.returncode) == ("0 ok\n", 0)
        assert model.wait(30) == 0


def test_listing_1(programs: Path) -> None:
    done = subprocess.run([programs / "listing4"], capture_output=True, text=True, timeout=60)
    assert done.stdout == "2 ok\n"


# ---- a compiler that only repeats what one of 2024 wrote

RECORDED = {
    "json": b'{"mean":0.5,"name":"f","sizes":[1,2,3]}',
    "bytes": b'{"features":[{"name":"mean","type":"float","port":6020,"shape":[1]},'
    b'{"name":"name","type":"uint8_t","port":6020,"shape":[1]},'
    b'{"name":"sizes","type":"int32_t","port":6020,"shape":[3]}]}\n'
    + struct.pack("<f", 0.5)
    + b"f"
    + struct.pack("<3i", 1, 2, 3)
    + b"\n",
}


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(8, "little") + message


def recorded_compiler(pipe: Path, messages: list[bytes], sizes: list[int]) -> Callable[[], bytes]:
    """Opens the pipes in the order of a compiler of 2024, writes each message and reads so many
    bytes after it. The function that it returns waits, and gives what was read."""
    got = b""

    def work() -> None:
        nonlocal got
        with (
            open(f"{pipe}.in", "rb", buffering=0) as inbound,
            open(f"{pipe}.out", "wb", buffering=0) as outbound,
        ):
            for message, size in zip(messages, sizes, strict=True):
                outbound.write(message)
                end = len(got) + size
                while len(got) < end and (part := inbound.read(end - len(got))):
                    got += part

    thread = threading.Thread(target=work)
    thread.start()

    def result() -> bytes:
        thread.join(30)
        assert not thread.is_alive()
        return got

    return result


ADVICE: list[tuple[object, bytes, bytes]] = [
    (3, b'{"out": 3}', struct.pack("<i", 3)),
    (0.5, b'{"out": 0.5}', struct.pack("<f", 0.5)),
    (True, b'{"out": true}', struct.pack("<i", 1)),
    ([1, 2], b'{"out": [1, 2]}', struct.pack("<2i", 1, 2)),
    ([0.5, 0.25], b'{"out": [0.5, 0.25]}', struct.pack("<2f", 0.5, 0.25)),
]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("number", range(len(ADVICE)))
def test_the_bytes_of_the_python_side(
    tmp_path: Path, module: str, data_format: str, number: int
) -> None:
    """Both packages read the same bytes and write the same."""
    package = __import__(module)
    advice, as_json, as_bytes = ADVICE[number]
    want = as_json if data_format == "json" else as_bytes
    pipe = tmp_path / "pipe"
    interface = package.PipeCompilerInterface(data_format, str(pipe))
    result = recorded_compiler(pipe, [framed(RECORDED[data_format])] * 2, [8 + len(want)] * 2)
    interface.reset_pipes()
    for _ in range(2):
        request = interface.evaluate()
        if data_format == "json":
            assert request == {"mean": 0.5, "name": "f", "sizes": [1, 2, 3]}
        else:
            assert [list(t) for t in request] == [[0.5], [ord("f")], [1, 2, 3]]
            assert [t.spec().name for t in request] == ["mean", "name", "sizes"]
        interface.populate_buffer(advice)
        if _ == 1:
            interface.evaluate(mode="exit")
            break
        interface.tc_buffer.write(interface.serdes_obj.getOutputBuffer())
        interface.tc_buffer.flush()
    assert result() == framed(want) * 2


@pytest.mark.parametrize("module", MODULES)
def test_advice_that_is_none(module: str) -> None:
    """JSON has a null; the bytes of a bitstream have none, and none for what has no type."""
    package = __import__(module)
    interface = package.SerDes("json")
    interface.serializeData(None)
    assert interface.getOutputBuffer() == framed(b'{"out": null}')
    interface.serializeData({"a": [ctypes.c_long(1), ctypes.c_double(0.5)]})
    assert interface.getOutputBuffer() == framed(b'{"out": {"a": [1, 0.5]}}')
    with pytest.raises(TypeError):
        interface.serializeData(object())
    interface = package.SerDes("bytes")
    for advice in (None, [1, None], {"a": 1}, object()):
        with pytest.raises(TypeError):
            interface.serializeData(advice)
    assert interface.getOutputBuffer() is None


@pytest.mark.parametrize("module", MODULES)
def test_the_rest_of_the_python_side(module: str, tmp_path: Path) -> None:
    serdes = importlib.import_module(f"{module}.SerDes")
    text = json.dumps([ctypes.c_long(3), ctypes.c_double(0.5)], cls=serdes.NpEncoder)
    assert text == "[3, 0.5]"
    log_reader = importlib.import_module(f"{module}.log_reader")
    header, tensors = RECORDED["bytes"].split(b"\n", 1)
    file = tmp_path / "log"
    file.write_bytes(header + b"\n" + (b'{"observation":0}\n' + tensors) * 2)
    observations = list(log_reader.read_stream(str(file)))
    assert [[list(t) for t in o[2]] for o in observations] == [[[0.5], [ord("f")], [1, 2, 3]]] * 2
    with file.open("rb") as f:
        specs, score, _ = log_reader.read_header(f)
        event = f.readline()
        one = log_reader.read_one_observation("f", event, f, specs, score)
        assert one[0] == "f" and [t.spec().name for t in one[2]] == ["mean", "name", "sizes"]
        assert f.readline() == event


@pytest.mark.parametrize("data_format", FORMATS)
def test_the_bytes_of_the_compiler(programs: Path, tmp_path: Path, data_format: str) -> None:
    """What our C++ side writes is what is recorded of 2024, here of its first evaluation."""
    pipe = tmp_path / "pipe"
    for end in ("in", "out"):
        os.mkfifo(f"{pipe}.{end}")
    compiler = subprocess.Popen([programs / "types", data_format, pipe], stdout=subprocess.DEVNULL)
    with open(f"{pipe}.in", "wb", buffering=0) as to, open(f"{pipe}.out", "rb") as from_compiler:
        size = int.from_bytes(from_compiler.read(8), "little")
        message = from_compiler.read(size)
        if data_format == "json":
            assert message == b'{"request_int":11}'
            to.write(framed(b'{"out": 12}'))
        else:
            header = b'{"features":[{"name":"request_int","type":"int32_t","port":6020,"shape":[1]}'
            header += b"]}"
            assert message == header + b"\n" + struct.pack("<i", 11) + b"\n"
            to.write(framed(struct.pack("<i", 12)))
        size = int.from_bytes(from_compiler.read(8), "little")
        assert len(from_compiler.read(size)) == size
    assert compiler.wait(60) == 1  # the model left: values are wrong, and nothing hung


# ---- better behaved: the C++ side


def faults(
    programs: Path, pipe: Path, data_format: str, deadline: str = "10s"
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [programs / "faults", data_format, pipe],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, MLBRIDGE_COMPAT_DEADLINE=deadline),
    )


def lines_of(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == "", (process.returncode, out, err)
    return out.splitlines()


def test_pipes_that_are_not_there(programs: Path, tmp_path: Path) -> None:
    lines = lines_of(faults(programs, tmp_path / "nowhere", "json", "300ms"))
    assert lines[0].startswith("-1 not found: pipe: open ")
    assert "nowhere.in" in lines[0]
    assert lines[1] == "fell back" and len(lines) == 6


def test_a_model_that_never_opens_its_ends(programs: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    for end in ("in", "out"):
        os.mkfifo(f"{pipe}.{end}")
    lines = lines_of(faults(programs, pipe, "json", "300ms"))
    assert lines[0].startswith("-1 deadline exceeded: pipe: ") and "reset_pipes" in lines[0]


REPLIES = {
    "garbage": (framed(b"no json"), "protocol: "),
    "no member": (framed(b'{"in": 3}'), "protocol: the reply has no member 'out'"),
    "text": (framed(b'{"out": "three"}'), "mismatch: "),
    "a fraction": (framed(b'{"out": 3.5}'), "mismatch: "),
    "too large": (framed(b'{"out": 3000000000}'), "mismatch: "),
    "no value": (framed(b'{"out": []}'), "mismatch: the pass asks for one value"),
    "values of two kinds": (framed(b'{"out": [1, "two"]}'), "protocol: "),
    "null": (framed(b'{"out": null}'), "protocol: "),
    "a list of lists": (framed(b'{"out": [[1]]}'), "protocol: "),
    "lists without end": (framed(b'{"a": ' + b"[" * 1_000_000), "protocol: "),
    "a byte too many": (framed(b'{"out": 3}\0'), "protocol: "),
    "text that is not UTF-8": (framed(b'{"out": "\xff"}'), "protocol: "),
    "a hostile length": (b"\xff" * 8, "limit exceeded: "),
    "half a length": (b"\x08\x00", "closed: "),
    "half a reply": (framed(b'{"out": 3}')[:12], "closed: "),
    "nothing": (b"", "closed: "),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies_that_are_none(programs: Path, tmp_path: Path, name: str) -> None:
    reply, why = REPLIES[name]
    pipe = tmp_path / "pipe"
    for end in ("in", "out"):
        os.mkfifo(f"{pipe}.{end}")
    compiler = faults(programs, pipe, "json")
    with open(f"{pipe}.in", "wb", buffering=0) as to, open(f"{pipe}.out", "rb") as from_compiler:
        size = int.from_bytes(from_compiler.read(8), "little")
        assert len(json.loads(from_compiler.read(size))["tensor"]) == 100000
        to.write(reply)
    lines = lines_of(compiler)
    assert lines[0].startswith("-1 " + why), lines
    assert lines[1] == "fell back"


@pytest.mark.parametrize(
    ("kind", "reply", "answer"),
    [
        ("int", b"[3, 4]", "3 ok"),
        ("int", b"[3, 4.5]", "3 ok"),
        ("long", b"[3000000000, 4]", "3000000000 ok"),
        ("float", b"[1.5, 2]", "1.5 ok"),
        ("double", b"[3]", "3 ok"),
        ("bool", b"[true, false]", "1 ok"),
        ("char", b'"hello"', "h ok"),
        ("char", b"[104, 105]", "h ok"),
        ("double", b"[-Infinity, 1]", "-inf ok"),
        ("long", b"9223372036854775807", "9223372036854775807 ok"),
        ("int", b'3, "more": {"out": [[null, {}]]}', "3 ok"),
        ("int", b'"hello"', "-1 mismatch: the model answered text"),
        ("int", b"[4.5, 3]", "-1 mismatch: "),
        ("int", b"[]", "-1 mismatch: the pass asks for one value and the model answered none"),
    ],
)
def test_the_first_of_several_values(
    programs: Path, tmp_path: Path, kind: str, reply: bytes, answer: str
) -> None:
    """As in the release, which read what lay first."""
    base = tmp_path / "file"
    base.with_suffix(".in").write_bytes(framed(b'{"out": ' + reply + b"}"))
    done = subprocess.run(
        [programs / "scalar", kind, base], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(answer), done


def test_too_few_bytes_for_the_type(programs: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    for end in ("in", "out"):
        os.mkfifo(f"{pipe}.{end}")
    compiler = faults(programs, pipe, "bytes")
    with open(f"{pipe}.in", "wb", buffering=0) as to, open(f"{pipe}.out", "rb") as from_compiler:
        from_compiler.read(int.from_bytes(from_compiler.read(8), "little"))
        to.write(framed(b"\x01\x00"))
    assert lines_of(compiler)[0].startswith("-1 mismatch: the model answered 2 bytes")


def test_a_model_that_says_nothing(programs: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    for end in ("in", "out"):
        os.mkfifo(f"{pipe}.{end}")
    compiler = faults(programs, pipe, "json", "300ms")
    with open(f"{pipe}.in", "wb", buffering=0), open(f"{pipe}.out", "rb") as from_compiler:
        from_compiler.read(int.from_bytes(from_compiler.read(8), "little"))
        lines = lines_of(compiler)
    assert lines[0].startswith("-1 deadline exceeded: pipe: the model did not answer")


# ---- better behaved: the Python side


def interface_and_compiler(
    tmp_path: Path, data_format: str, message: bytes
) -> CompilerInterface.PipeCompilerInterface:
    interface = CompilerInterface.PipeCompilerInterface(
        data_format, str(tmp_path / "pipe"), deadline=20
    )
    recorded_compiler(tmp_path / "pipe", [message], [0])
    return interface


@pytest.mark.parametrize(
    ("data_format", "message", "error"),
    [
        ("json", b"", EOFError),
        ("json", b"\x10\x00", EOFError),
        ("json", framed(b'{"a":1}')[:-1], EOFError),
        ("json", framed(b'{"a":'), ValueError),
        ("json", b"\xff" * 8, ValueError),
        ("bytes", framed(b""), ValueError),
        ("bytes", framed(b"{}\n\n"), ValueError),
        ("bytes", framed(RECORDED["bytes"][:-3]), ValueError),
        ("bytes", framed(RECORDED["bytes"] + b"more"), ValueError),
        ("bytes", framed(RECORDED["bytes"].replace(b"[3]", b"[-3]")), ValueError),
        ("bytes", framed(RECORDED["bytes"].replace(b"[3]", b"[9999999999999]")), ValueError),
        ("bytes", framed(RECORDED["bytes"].replace(b"int32_t", b"quux_t")), ValueError),
    ],
)
def test_requests_that_are_none(
    tmp_path: Path, data_format: str, message: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        interface_and_compiler(tmp_path, data_format, message).evaluate()


def test_calls_that_are_missing_and_compilers_one_after_another(tmp_path: Path) -> None:
    """Listing 5 never opens the pipes; and a second compiler finds the model as the first did."""
    pipe = tmp_path / "pipe"
    interface = CompilerInterface.PipeCompilerInterface("json", str(pipe), deadline=20)
    for _ in range(2):
        result = recorded_compiler(pipe, [framed(b'{"a":1}')], [8 + len(b'{"out": 5}')])
        assert interface.evaluate() == {"a": 1}
        interface.populate_buffer(5)
        interface.evaluate(mode="exit")
        assert result() == framed(b'{"out": 5}')
        interface.close_pipes()


def test_no_compiler_comes(tmp_path: Path) -> None:
    interface = CompilerInterface.PipeCompilerInterface(
        "json", str(tmp_path / "pipe"), deadline=0.05
    )
    with pytest.raises(TimeoutError, match="no compiler opened"):
        interface.reset_pipes()


def test_files_of_others_stay(tmp_path: Path) -> None:
    precious = tmp_path / "pipe.in"
    precious.write_text("precious")
    with pytest.raises(FileExistsError):
        CompilerInterface.PipeCompilerInterface("json", str(tmp_path / "pipe"))
    assert precious.read_text() == "precious"


def test_the_pipes_go_with_the_interface(tmp_path: Path) -> None:
    interface = CompilerInterface.PipeCompilerInterface("json", str(tmp_path / "pipe"))
    assert len(list(tmp_path.iterdir())) == 2
    del interface
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [("xml", "p"), (None, "p"), ("json", None)])
def test_wrong_arguments(arguments: tuple[str | None, str | None]) -> None:
    with pytest.raises(ValueError, match=r"unknown|needs"):
        CompilerInterface.PipeCompilerInterface(*arguments)
