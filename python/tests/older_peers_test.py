# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peers of each release, as the bytes that they sent, with the present ones on every transport; and
peers of versions that don't exist yet.

    older_peers_test.py     writes tests/golden/conversations/VERSION; run for a release
"""

from __future__ import annotations

import struct
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mlbridge
from mlbridge import Signature, TensorSpec
from raw_ends import (
    CONNECT,
    LISTEN,
    End,
    connect_folder,
    connect_grpc,
    connect_shm,
    listen_grpc,
    relay,
)
from serving import running
from wire import GOLDEN, Frame, protocol

CONVERSATIONS = GOLDEN / "conversations"
RELEASES = sorted(path.name for path in CONVERSATIONS.iterdir())
SERDES = ("bitstream", "json", "protobuf")
DECISION = Signature(
    [
        TensorSpec("x", "float32", [4]),
        TensorSpec("name", "string"),
        TensorSpec("rows", "int8", [None]),
    ],
    [TensorSpec("sum", "float32"), TensorSpec("twice", "int8", [None])],
)
HEADER = 40


def asked(k: int) -> dict[str, Any]:
    return {"x": [0.5, -1, k, 1.25], "name": f"loop {k} ü", "rows": list(range(k))}


def policy(inputs: Mapping[str, Any], _: Any) -> dict[str, Any]:
    return {"sum": inputs["x"].sum() + len(str(inputs["name"])), "twice": 2 * inputs["rows"]}


def compile_with(uri: str) -> list[Any]:
    """A compiler: handshake, an episode of three questions, close; what it was answered."""
    with mlbridge.open(uri, DECISION, deadline=20) as runner:
        runner.begin_episode("first", "module.c")
        answers = []
        for k in range(3):
            answer = runner.evaluate(**asked(k))
            answers.append((float(answer["sum"]), answer["twice"].tolist()))
            runner.reward(0.5 * k)
        runner.end_episode()
    return answers


def frames(data: bytes) -> Iterator[tuple[Frame, bytes]]:
    """Each frame and its bytes."""
    while data:
        (length,) = struct.unpack_from("<Q", data, 8)
        size = HEADER + length
        yield Frame(data[:HEADER], data[HEADER:size]), data[:size]
        data = data[size:]


def kept(release: str, side: str, serdes: str) -> list[tuple[Frame, bytes]]:
    return list(frames((CONVERSATIONS / release / f"{side}-{serdes}.bin").read_bytes()))


def next_frame(end: End) -> Frame:
    """Raises EOFError."""

    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = end.receive(size - len(data))
            if not more:
                raise EOFError(f"{len(data)} of {size} bytes")
            data += more
        return data

    header = exactly(HEADER)
    return Frame(header, exactly(struct.unpack_from("<Q", header, 8)[0]))


def next_of(end: End, kind: str) -> Frame:
    while (frame := next_frame(end)).kind != kind:
        assert frame.kind != "error", frame.error()
    return frame


def address(transport: str, folder: Path) -> str:
    if transport == "grpc":
        return "grpc:localhost:0"
    return f"pipe:{folder}/s/" if transport == "folder" else f"{transport}:{folder}/s"


@pytest.fixture(params=sorted(CONNECT))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("release", RELEASES)
def test_an_older_compiler_asks(release: str, way: str, serdes: str, tmp_path: Path) -> None:
    """It gets the answers that its server gave, byte for byte."""
    answers = [f.payload for f, _ in kept(release, "server", serdes) if f.kind == "reply"]
    assert len(answers) == 3
    with running(policy, address(way, tmp_path), DECISION, metadata={"who": "x"}) as server:
        end = CONNECT[way](server.uri)
        for frame, data in kept(release, "compiler", serdes):
            end.send(data)
            if frame.kind == "hello":
                assert next_of(end, "welcome").payload[12:28] == frame.payload[12:28]
            elif frame.kind == "request":
                reply = next_of(end, "reply")
                assert (reply.stream, reply.request) == (frame.stream, frame.request)
                assert reply.payload == answers[frame.request - 1]
        end.close()


class OldServer:
    """Sends what the server of a release sent, in answer to what a present compiler asks."""

    def __init__(self, release: str, serdes: str) -> None:
        frames_of_server = kept(release, "server", serdes)
        (self.welcome,) = (f for f, _ in frames_of_server if f.kind == "welcome")
        self.replies = [f for f, _ in frames_of_server if f.kind == "reply"]
        self.got: list[Frame] = []

    def welcome_to(self, hello: Frame) -> bytes:
        sent = self.welcome.payload
        return bytes(protocol.frame("welcome", sent[:12] + hello.payload[12:28] + sent[28:]))

    def converse(self, end: End) -> None:
        try:
            while True:
                frame = next_frame(end)
                self.got.append(frame)
                where = {"stream": frame.stream, "request": frame.request}
                if frame.kind == "hello":
                    end.send(self.welcome_to(frame))
                elif frame.kind == "request":
                    reply = self.replies[frame.request - 1]
                    end.send(protocol.frame("reply", reply.payload, flags=reply.flags, **where))
        except (EOFError, OSError):
            end.close()


@pytest.mark.parametrize("release", RELEASES)
def test_an_older_server_answers(release: str, way: str, serdes: str, tmp_path: Path) -> None:
    """The compiler gets what it answered, and asks as the compiler of that release did."""
    server = OldServer(release, serdes)
    with LISTEN[way](address(way, tmp_path)) as (uri, accept):
        thread = threading.Thread(target=lambda: server.converse(accept()))
        thread.start()
        answers = compile_with(f"{uri}?serdes={serdes}")
        thread.join(20)
        assert not thread.is_alive()
    assert answers == EXPECTED
    asked_then = [f.payload for f, _ in kept(release, "compiler", serdes) if f.kind == "request"]
    assert [f.payload for f in server.got if f.kind == "request"] == asked_then


EXPECTED = [(0.75 + k + len("loop k ü"), [2 * i for i in range(k)]) for k in range(3)]


def of_version(payload: bytes, major: int, minor: int) -> bytes:
    return payload[:8] + struct.pack("<HH", major, minor) + payload[12:]


ABSENT = bytes(5)  # the role of a model and no agents, which a welcome may leave out


def test_a_compiler_of_the_next_major_version_is_told(way: str, tmp_path: Path) -> None:
    (hello,) = (f for f, _ in kept(RELEASES[-1], "compiler", "json") if f.kind == "hello")
    with running(policy, address(way, tmp_path), DECISION) as server:
        end = CONNECT[way](server.uri)
        end.send(protocol.frame("hello", of_version(hello.payload, 2, 0)))
        code, text = next_frame(end).error()
        assert code == mlbridge.Code.PROTOCOL
        assert "the server speaks version 1 of the protocol, the compiler speaks version 2" in text
        end.close()


def test_a_server_of_the_next_major_version_is_named(way: str, tmp_path: Path) -> None:
    server = OldServer(RELEASES[-1], "json")
    server.welcome.payload = of_version(server.welcome.payload, 2, 0)
    with LISTEN[way](address(way, tmp_path)) as (uri, accept):
        threading.Thread(target=lambda: server.converse(accept()), daemon=True).start()
        says = "the server speaks version 2 of the protocol, this library speaks version 1"
        with pytest.raises(mlbridge.ProtocolError, match=says):
            compile_with(f"{uri}?serdes=json")


def test_peers_of_a_later_minor_version_are_understood(way: str, tmp_path: Path) -> None:
    """They append fields to messages, and send frames that may be skipped."""
    more = protocol.frame(99, b"from the future", flags=1)
    server = OldServer(RELEASES[-1], "json")
    server.welcome.payload = of_version(server.welcome.payload, 1, 7) + ABSENT + b"another field"
    with LISTEN[way](address(way, tmp_path)) as (uri, accept):
        thread = threading.Thread(target=lambda: server.converse(accept()))
        thread.start()
        assert compile_with(f"{uri}?serdes=json") == EXPECTED
        thread.join(20)
    (tmp_path / "other").mkdir()
    with running(policy, address(way, tmp_path / "other"), DECISION) as present:
        end = CONNECT[way](present.uri)
        for frame, data in kept(RELEASES[-1], "compiler", "json"):
            if frame.kind == "hello":
                later = of_version(frame.payload, 1, 7) + b"another field"
                end.send(protocol.frame("hello", later) + more)
                next_of(end, "welcome")
                continue
            end.send(data)
            if frame.kind == "request":
                next_of(end, "reply")
        end.close()


def test_another_layout_of_shared_memory_is_named(tmp_path: Path) -> None:
    with running(policy, address("shm", tmp_path), DECISION) as server:
        end = connect_shm(server.uri, major=2)
        end.first.settimeout(20)
        data = end.first.recv(4096)
        code, text = Frame(data[:HEADER], data[HEADER:]).error()
        assert code == mlbridge.Code.PROTOCOL
        assert "the compiler uses version 2 of its layout, the server version 1" in text


def test_another_service_of_grpc_is_refused_and_named() -> None:
    with running(policy, "grpc:localhost:0", DECISION) as server:
        end = connect_grpc(server.uri, "/mlbridge.v2.Bridge/Converse")
        with pytest.raises(EOFError):
            next_frame(end)
        end.close()
    says = r"no service mlbridge\.v1\.Bridge"
    with (
        listen_grpc("grpc:localhost:0", "mlbridge.v2.Bridge") as (uri, _),
        pytest.raises(mlbridge.ProtocolError, match=says),
    ):
        compile_with(uri)


def test_another_line_at_the_rendezvous_is_ignored(tmp_path: Path) -> None:
    with running(policy, address("folder", tmp_path), DECISION) as server:
        connect_folder(server.uri, version=2).close()
        assert compile_with(f"{server.uri}?serdes=json") == EXPECTED


def main() -> None:
    """Keeps what a compiler and a server of this release send each other."""
    folder = CONVERSATIONS / mlbridge.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for serdes in SERDES:
        sides = {"compiler": bytearray(), "server": bytearray()}
        with (
            tempfile.TemporaryDirectory() as name,
            running(policy, f"unix:{name}/server", DECISION) as server,
            LISTEN["unix"](f"unix:{name}/s") as (uri, accept),
            ThreadPoolExecutor(1) as pool,
        ):
            asking = pool.submit(compile_with, f"{uri}?serdes={serdes}")
            compiler, answering = accept(), CONNECT["unix"](server.uri)
            threads = [
                relay(compiler, answering, sides["compiler"]),
                relay(answering, compiler, sides["server"]),
            ]
            asking.result(20)
            for thread in threads:
                thread.join(20)
        for side, data in sides.items():
            (folder / f"{side}-{serdes}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
