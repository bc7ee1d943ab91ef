# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A client that has protobuf and the .proto, and nothing of MLBridge's serializers."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import mlbridge
from golden_serdes_test import TYPES, greet, signature
from serving import running
from wire import GOLDEN, Frame, connected, protocol

PROTO = GOLDEN.parent.parent / "proto"


def classes(folder: Path, proto: Path, include: Path) -> Any:
    """The message classes of a .proto by their full names, made by protoc and Python's protobuf."""
    protoc = shutil.which("protoc")
    assert protoc, "protoc is missing (Debian: protobuf-compiler)"
    subprocess.run(
        [protoc, f"--descriptor_set_out={folder}/set", f"-I{include}", proto], check=True
    )
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString((folder / "set").read_bytes()).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@pytest.fixture
def tensor_list(tmp_path: Path) -> Any:
    proto = PROTO / "mlbridge/v1/tensors.proto"
    return classes(tmp_path, proto, PROTO)("mlbridge.v1.TensorList")


def ask(uri: str, serdes: str, opening: bytes, request: bytes) -> Frame:
    with connected(uri) as peer:
        greet(peer, serdes)
        peer.send(
            protocol.frame("open-stream", opening + protocol.text("") * 3, stream=1),
            protocol.frame("request", request, stream=1, request=1),
        )
        return peer.receive()


def echo(observation: Mapping[str, Any], _: mlbridge.CallContext) -> dict[str, Any]:
    return dict(observation)


def test_a_foreign_client_is_answered(address: str, tensor_list: Any) -> None:
    specs: list[dict[str, Any]] = [
        {"name": "nodes", "type": "float32", "shape": [-1, 2]},
        {"name": "words", "type": "string", "shape": [-1]},
        {"name": "step", "type": "int64", "shape": []},
    ]
    request = tensor_list()
    step = request.tensors.add(name="step", type=4, contents=struct.pack("<q", -7))
    words = request.tensors.add(name="words", type="ELEMENT_TYPE_STRING", shape=[2])
    words.strings.extend([b"a", "é".encode()])
    values = np.arange(6, dtype="<f4").reshape(3, 2)
    nodes = request.tensors.add(name="nodes", type=10, shape=[3, 2], contents=values.tobytes())
    with running(echo, address) as server:
        answer = ask(server.uri, "protobuf", signature(specs), request.SerializeToString())
    assert answer.kind == "reply", answer.payload
    reply = tensor_list.FromString(answer.payload)
    assert list(reply.tensors) == [nodes, words, step]


def test_every_type_number_is_that_of_the_library(tensor_list: Any) -> None:
    numbers = tensor_list().tensors.add().DESCRIPTOR.fields_by_name["type"].enum_type
    expected = {f"ELEMENT_TYPE_{name.upper()}": i + 1 for i, name in enumerate(TYPES)}
    assert {v.name: v.number for v in numbers.values if v.number} == expected


def test_a_request_that_lacks_a_tensor_is_refused(address: str, tensor_list: Any) -> None:
    specs = [{"name": "x", "type": "float32", "shape": [2]}]
    with running(echo, address) as server:
        answer = ask(server.uri, "protobuf", signature(specs), b"")
    code, text = answer.error()
    assert code == mlbridge.Code.PROTOCOL
    assert "'x' is missing" in text


REGALLOC = PROTO.parent / "src/serdes/protobuf/testing/regalloc.proto"
MESSAGES = f"serdes=protobuf&proto={REGALLOC}&request=regalloc.Features&reply=regalloc.Advice"
FEATURES = mlbridge.Signature(
    [
        mlbridge.TensorSpec("function.name", "string"),
        mlbridge.TensorSpec("function.cost", "float64"),
        mlbridge.TensorSpec("ranges.id", "uint32", [-1]),
        mlbridge.TensorSpec("ranges.interferences", "uint32", [-1]),
        mlbridge.TensorSpec("ranges.interferences#lengths", "int64", [-1]),
        mlbridge.TensorSpec("ranges.mean", "float32", [-1, 3]),
    ],
    [
        mlbridge.TensorSpec("action", "int32"),
        mlbridge.TensorSpec("node", "int64"),
        mlbridge.TensorSpec("remarks", "string", [-1]),
    ],
)


def allocate(observation: Mapping[str, Any], _: mlbridge.CallContext) -> dict[str, Any]:
    """Splits the range with the most interferences."""
    lengths = observation["ranges.interferences#lengths"]
    most = int(np.argmax(lengths))
    ends = np.cumsum(lengths)
    neighbours = observation["ranges.interferences"][ends[most] - lengths[most] : ends[most]]
    return {
        "action": 1,
        "node": int(observation["ranges.id"][most]) + int(observation["ranges.mean"].sum()),
        "remarks": [str(observation["function.name"]), *map(str, neighbours)],
    }


def test_a_compiler_and_a_policy_speak_messages_of_their_own(address: str) -> None:
    with running(allocate, f"{address}?{MESSAGES}", FEATURES) as server:
        runner = mlbridge.open(server.uri, FEATURES, deadline=20)
        for ids in ([7, 9, 3], [4]):
            lengths = list(range(1, len(ids) + 1))
            answer = runner.evaluate(
                **{
                    "function.name": "main",
                    "function.cost": 0.5,
                    "ranges.id": np.array(ids, "uint32"),
                    "ranges.interferences": np.arange(sum(lengths), dtype="uint32"),
                    "ranges.interferences#lengths": np.array(lengths),
                    "ranges.mean": np.ones((len(ids), 3), "float32"),
                }
            )
            assert answer["action"] == 1
            assert answer["node"] == ids[-1] + 3 * len(ids)
            first = sum(lengths[:-1])
            numbers = map(str, range(first, first + lengths[-1]))
            assert list(answer["remarks"]) == ["main", *numbers]


def test_a_foreign_client_sends_messages_of_its_own(address: str, tmp_path: Path) -> None:
    message = classes(tmp_path, REGALLOC, REGALLOC.parent)
    request = message("regalloc.Features")()
    request.function.name, request.function.cost = "main", 1
    for number in (5, 6):
        request.ranges.add(id=number, interferences=range(number - 4), mean=[0, 0, 1])
    opening = wire_signature(FEATURES)
    name = "protobuf:regalloc.Features/regalloc.Advice"
    with running(allocate, f"{address}?{MESSAGES}", FEATURES) as server:
        answer = ask(address, name, opening, request.SerializeToString())
    del server
    assert answer.kind == "reply", answer.payload
    reply = message("regalloc.Advice").FromString(answer.payload)
    assert (reply.action, reply.node) == (1, 8)
    assert list(reply.remarks) == ["main", "0", "1"]


def wire_signature(signature: mlbridge.Signature) -> bytes:
    def side(specs: Any) -> list[bytes]:
        return [protocol.spec(s.name, TYPES.index(str(s.type)) + 1, list(s.shape)) for s in specs]

    return bytes(protocol.signature(side(signature.inputs), side(signature.outputs)))


def test_a_server_without_the_messages_refuses_them(address: str) -> None:
    with (
        running(allocate, address, FEATURES) as server,
        pytest.raises(mlbridge.Error, match=r"started without their \.proto file"),
    ):
        mlbridge.open(f"{server.uri}?{MESSAGES}", FEATURES)


def test_a_server_with_other_messages_refuses_them(address: str) -> None:
    other = MESSAGES.replace("request=regalloc.Features", "request=regalloc.Everything")
    with (
        running(allocate, f"{address}?{MESSAGES}", FEATURES),
        pytest.raises(mlbridge.Error, match=r"regalloc.Everything.*regalloc\.Features"),
    ):
        mlbridge.open(f"{address}?{other}", FEATURES)


def test_a_signature_that_does_not_fit_is_refused_at_once(address: str) -> None:
    wrong = mlbridge.Signature([mlbridge.TensorSpec("matrix", "float64", [4])], FEATURES.outputs)
    with pytest.raises(mlbridge.Error, match=r"matrix: float64\[4\].*repeated float matrix = 3"):
        mlbridge.Server(f"{address}?{MESSAGES}", wrong)
    with (
        running(allocate, f"{address}?{MESSAGES}") as server,
        pytest.raises(mlbridge.Error, match=r"matrix: float64\[4\].*repeated float matrix = 3"),
    ):
        mlbridge.open(server.uri, wrong)


def test_a_server_with_messages_speaks_to_others_too(address: str) -> None:
    signature = mlbridge.Signature(
        [mlbridge.TensorSpec("matrix", "float32", [2])], [mlbridge.TensorSpec("node", "int64")]
    )
    with running(lambda o, _: int(o["matrix"].sum()), f"{address}?{MESSAGES}", signature):
        for query in (MESSAGES, "serdes=protobuf", "serdes=bitstream"):
            runner = mlbridge.open(f"{address}?{query}", signature, deadline=20)
            assert runner.evaluate_scalar(matrix=[1, 2]) == 3
