# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The golden messages of the serdes, sent as requests by hand to a server whose policy echoes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import mlbridge
from serving import running
from wire import GOLDEN, NAMES, Frame, Peer, connected, protocol

FOLDER = GOLDEN / "serdes"
CASES = json.loads((FOLDER / "index.json").read_text())["cases"]
TYPES = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bool string".split()
)


def signature(specs: list[dict[str, Any]]) -> bytes:
    side = [
        protocol.spec(s["name"], TYPES.index(s["type"]) + 1, s["shape"], s.get("maximum"))
        for s in specs
    ]
    return bytes(protocol.signature(side, side))


def seen(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An array as the index writes it."""
    shape = list(array.shape)
    if array.dtype == object:
        texts = [text.encode("utf-8", "surrogateescape").hex() for text in array.ravel()]
        return {"shape": shape, "strings": texts}
    return {"shape": shape, "bits": array.tobytes().hex()}


class Echo:
    """A policy that answers with its inputs and remembers what they were."""

    def __init__(self) -> None:
        self.observed: list[dict[str, Any]] = []

    def __call__(self, observation: Mapping[str, Any], _: mlbridge.CallContext) -> dict[str, Any]:
        self.observed = [seen(array) for array in observation.values()]
        return dict(observation)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Echo, str]]:
    policy = Echo()
    with running(policy, f"unix:{tmp_path_factory.mktemp('golden')}/s") as server:
        yield policy, server.uri


def exchange(uri: str, case: dict[str, Any], message: bytes) -> Frame:
    with connected(uri) as peer:
        greet(peer, case["serdes"])
        opening = signature(case["specs"]) + protocol.text("") * 3
        peer.send(
            protocol.frame("open-stream", opening, stream=1),
            protocol.frame("request", message, stream=1, request=1),
        )
        while (answer := peer.receive()).kind not in ("reply", "error"):
            assert answer.kind in NAMES.values()
        return answer


def greet(peer: Peer, serdes: str) -> None:
    head = b"MLBRIDGE" + struct.pack("<HH", 1, 0) + protocol.NONCE + struct.pack("<Q", 1 << 28)
    peer.send(protocol.frame("hello", head + protocol.text(serdes) + protocol.text("golden")))
    assert peer.receive().kind == "welcome"


@pytest.mark.parametrize("case", CASES, ids=[case["file"] for case in CASES])
def test_golden_message(echo: tuple[Echo, str], case: dict[str, Any]) -> None:
    policy, uri = echo
    policy.observed = []
    message = (FOLDER / case["file"]).read_bytes()
    answer = exchange(uri, case, message)
    if "values" not in case:
        code, text = answer.error()
        assert code == mlbridge.Code.PROTOCOL
        # A message of fixed size is measured before its tensors are looked at.
        measured = "bytes, " in text and "were expected" in text
        assert measured or all(mention in text for mention in case["mentions"]), text
        assert not policy.observed
        return
    assert answer.kind == "reply", answer.payload
    assert policy.observed == case["values"]
    if case["canonical"]:
        assert answer.payload == message
