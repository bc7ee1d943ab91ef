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
from serving import running
from test_golden_serdes import TYPES, greet, signature
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


def echo(observation: Mapping[str, Any], _: mlbridge.Context) -> dict[str, Any]:
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
