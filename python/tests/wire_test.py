# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The golden messages, spoken to a real server by hand, and servers that misbehave."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import mlbridge
from mlbridge import Signature, TensorSpec
from serving import running
from wire import GOLDEN, Peer, connected, fake_server, protocol, welcome

INDEX = json.loads((GOLDEN / "protocol" / "index.json").read_text())
SUM = Signature(
    [TensorSpec("x", "float32", [4]), TensorSpec("k", "int64")],
    [TensorSpec("sum", "float32"), TensorSpec("twice", "int64")],
)
CODES = {code.name.lower().replace("_", " "): int(code) for code in mlbridge.Code}


def golden(kind: str, name: str) -> bytes:
    return Path(GOLDEN, "protocol", kind, f"{name}.bin").read_bytes()


def policy(observation: Mapping[str, Any], _: mlbridge.CallContext) -> dict[str, Any]:
    return {"sum": observation["x"].sum(), "twice": 2 * observation["k"]}


def converse(uri: str) -> bytes:
    """The golden conversation; gives the reply."""
    with connected(uri) as peer:
        peer.send(golden("good", "hello"))
        assert peer.receive().payload[12:28] == protocol.NONCE
        peer.send(*(golden("good", name) for name in ("open-stream", "request")))
        frame = peer.until("reply")
        assert (frame.stream, frame.request) == (1, 1)
        return frame.payload


def test_the_golden_files_are_what_the_second_implementation_makes() -> None:
    command = [sys.executable, str(GOLDEN / "make_protocol.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout


def test_the_golden_conversation(address: str) -> None:
    with running(policy, address, SUM):
        assert converse(address) == protocol.REPLY == golden("good", "reply")[40:]


@pytest.mark.parametrize("name", sorted(INDEX["bad"]))
@pytest.mark.parametrize("greeted", [False, True], ids=["first", "later"])
def test_bad_messages_get_an_error_and_the_server_lives_on(
    address: str, name: str, greeted: bool
) -> None:
    with running(policy, address, SUM):
        with connected(address) as peer:
            if greeted:
                peer.send(golden("good", "hello"))
                assert peer.receive().kind == "welcome"
                peer.send(golden("good", "open-stream"))
            peer.send(golden("bad", name))
            if name == "garbage-short":
                peer.end.shutdown(1)  # three bytes are not a header yet
            else:
                code, text = peer.until("error").error()
                if greeted and not name.startswith("hello"):
                    assert code == CODES[INDEX["bad"][name]], text
                assert len(text) > 10
            if name not in STREAM_ONLY:
                assert peer.is_closed()
        assert converse(address) == protocol.REPLY


# A bad signature is that stream's affair.
STREAM_ONLY = {name for name in INDEX["bad"] if name.startswith("open-stream")}


@pytest.mark.parametrize("size", [0, 1, 23, 25, 4096])
def test_a_request_of_another_size(address: str, size: int) -> None:
    with running(policy, address, SUM), connected(address) as peer:
        peer.send(golden("good", "hello"))
        assert peer.receive().kind == "welcome"
        peer.send(golden("good", "open-stream"))
        peer.send(protocol.frame("request", bytes(size), stream=1, request=1))
        code, text = peer.until("error").error()
        assert code == mlbridge.Code.PROTOCOL and str(size) in text
        peer.send(protocol.frame("request", protocol.REQUEST, stream=1, request=2))
        assert peer.until("reply").payload == protocol.REPLY


def reply(payload: bytes, **fields: Any) -> Callable[[Peer], None]:
    """A server that answers every request with this."""

    def behave(peer: Peer) -> None:
        peer.send(welcome(peer.until("hello"), protocol.SUM))
        while True:
            asked = peer.until("request")
            header = {"stream": asked.stream, "request": asked.request, **fields}
            peer.send(protocol.frame("reply", payload, **header))

    return behave


def after_welcome(*messages: bytes, close: bool = False) -> Callable[[Peer], None]:
    def behave(peer: Peer) -> None:
        peer.send(welcome(peer.until("hello"), protocol.SUM))
        peer.until("request")
        peer.send(*messages)
        if close:
            peer.end.close()

    return behave


def at_once(*messages: bytes, close: bool = False) -> Callable[[Peer], None]:
    def behave(peer: Peer) -> None:
        peer.send(*messages)
        if close:
            peer.end.close()

    return behave


def too_new(peer: Peer) -> None:
    peer.until("hello")
    peer.send(protocol.frame("error", struct.pack("<i", 12) + protocol.text("too new")))


GOOD_REPLY = golden("good", "reply")
MISBEHAVIOUR: dict[str, tuple[Callable[[Peer], None], tuple[str, ...]]] = {
    "silent": (at_once(), ("DEADLINE_EXCEEDED",)),
    "closes": (at_once(close=True), ("CLOSED",)),
    "garbage": (at_once(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4), ("PROTOCOL",)),
    "other version": (too_new, ("PROTOCOL",)),
    "stale welcome": (at_once(golden("good", "welcome")), ("DEADLINE_EXCEEDED",)),
    "half a welcome": (at_once(golden("good", "welcome")[:50], close=True), ("CLOSED",)),
    "no answer": (after_welcome(), ("DEADLINE_EXCEEDED",)),
    "closes unanswered": (after_welcome(close=True), ("CLOSED",)),
    "half a reply": (after_welcome(GOOD_REPLY[:50], close=True), ("CLOSED",)),
    "half a reply, then silence": (after_welcome(GOOD_REPLY[:50]), ("DEADLINE_EXCEEDED",)),
    "garbage reply": (after_welcome(b"x" * 100), ("PROTOCOL",)),
    "length of 2^60": (after_welcome(golden("bad", "length-of-2-to-the-60")), ("LIMIT_EXCEEDED",)),
    "reply too short": (reply(protocol.REPLY[:-1]), ("PROTOCOL",)),
    "reply too long": (reply(protocol.REPLY + b"\0"), ("PROTOCOL",)),
    "reply of another number": (reply(protocol.REPLY, request=77), ("DEADLINE_EXCEEDED",)),
    "reply to another stream": (reply(protocol.REPLY, stream=99), ("DEADLINE_EXCEEDED",)),
    "damaged": (after_welcome(golden("bad", "damaged-checksum")), ("PROTOCOL",)),
}


@pytest.mark.parametrize("name", sorted(MISBEHAVIOUR))
def test_a_server_that_misbehaves_is_an_error_within_the_deadline(address: str, name: str) -> None:
    behave, codes = MISBEHAVIOUR[name]
    with fake_server(address, behave):
        caught: list[mlbridge.Error] = []
        done = threading.Event()

        def ask() -> None:
            try:
                runner = mlbridge.open(address, SUM, deadline=0.4)
                for _ in range(50):  # as many call sites; they share one deadline
                    try:
                        runner.evaluate(x=[1, 2, 3, 4], k=5)
                    except mlbridge.Error as error:
                        caught.append(error)
            except mlbridge.Error as error:
                caught.append(error)
            done.set()

        threading.Thread(target=ask, daemon=True).start()
        assert done.wait(10), "hung"
        assert caught and caught[0].code.name in codes, caught[0]
        assert len(caught) in (1, 50) and len(caught[0].message) > 10


def test_a_hand_made_server_is_understood(address: str) -> None:
    with fake_server(address, reply(protocol.REPLY)):
        runner = mlbridge.open(address, deadline=20)
        assert runner.signature == SUM
        for _ in range(3):
            assert runner.evaluate() == {"sum": 10.5, "twice": 42}
