# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests in the bitstream format: a line of JSON that describes tensors, then their bytes."""

from __future__ import annotations

import ctypes
import dataclasses
import io
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

_element_types: dict[str, Any] = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    **{
        f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}


class ProtocolError(ValueError):
    """Bytes that are not what a compiler of 2024 sends."""


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    name: str
    port: int
    shape: list[int]
    element_type: Any

    @staticmethod
    def from_dict(d: dict[str, Any]) -> TensorSpec:
        try:
            name, port, shape = str(d["name"]), int(d["port"]), [int(n) for n in d["shape"]]
            element_type = _element_types[d["type"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"{d!r} describes no tensor: {error!r}") from None
        if any(n < 0 for n in shape):
            raise ProtocolError(f"the tensor {name!r} has the shape {shape}")
        return TensorSpec(name, port, shape, element_type)


class TensorValue:
    """A sequence of numbers: len(), indices, iteration, and numpy.array(value) in its shape."""

    def __init__(self, spec: TensorSpec, buffer: bytes | memoryview) -> None:
        self._spec = spec
        self._len = math.prod(spec.shape)
        self._view = memoryview(buffer).cast("B").cast(spec.element_type._type_)
        if len(self._view) != self._len:
            raise ProtocolError(
                f"the tensor {spec.name!r} has {len(self._view)} elements, {self._len} are declared"
            )

    def spec(self) -> TensorSpec:
        return self._spec

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, index: int) -> Any:
        if index < 0 or index >= self._len:
            raise IndexError(f"Index {index} out of range [0..{self._len})")
        return self._view[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._view)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy  # a user who asks for an array has it

        array = numpy.array(self._view, dtype=dtype)
        return array.reshape(self._spec.shape)


def read_header(f: BinaryIO) -> tuple[list[TensorSpec], TensorSpec | None, TensorSpec | None]:
    line = f.readline()
    if not line:
        raise EOFError("the log ends where a header is expected")
    try:
        header = json.loads(line)
        features = list(header["features"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"the header is not that of a bitstream: {error!r}") from None
    one = [TensorSpec.from_dict(header[k]) if k in header else None for k in ("score", "advice")]
    return [TensorSpec.from_dict(d) for d in features], one[0], one[1]


def read_tensor(fs: BinaryIO, ts: TensorSpec) -> TensorValue:
    size = math.prod(ts.shape) * ctypes.sizeof(ts.element_type)
    data = fs.read(size) if size < 1 << 31 else b""
    if len(data) != size:
        raise ProtocolError(f"the tensor {ts.name!r} has {len(data)} of {size} bytes")
    return TensorValue(ts, data)


def read_observation(message: bytes) -> list[TensorValue]:
    """The tensors of one whole message."""
    f = io.BytesIO(message)
    try:
        specs, _, _ = read_header(f)
    except EOFError:
        raise ProtocolError("the request is empty") from None
    values = [read_tensor(f, spec) for spec in specs]
    rest = f.read()
    if rest != b"\n":
        raise ProtocolError(f"after the tensors there are {len(rest)} bytes instead of a newline")
    return values


Observation = tuple[str | None, int | None, list[TensorValue], TensorValue | None]


def read_one_observation(
    context: str | None,
    event_str: str | bytes,
    f: BinaryIO,
    tensor_specs: list[TensorSpec],
    score_spec: TensorSpec | None,
) -> Observation:
    """The tensors of an observation, and the newline after them."""
    features = [read_tensor(f, spec) for spec in tensor_specs]
    f.readline()
    return context, None, features, None


def read_stream(fname: str) -> Iterator[Observation]:
    """The observations of a file with one header, each after a line of its own."""
    with open(fname, "rb") as f:
        specs, score, _ = read_header(f)
        while event := f.readline():
            yield read_one_observation(None, event, f, specs, score)


def read_stream2(f: BinaryIO) -> Iterator[Observation]:
    """Observations without their lengths, one after another, each with a header."""
    while True:
        try:
            specs, score, _ = read_header(f)
        except EOFError:
            return
        yield read_one_observation(None, "", f, specs, score)


def pretty_print_tensor_value(tv: TensorValue) -> None:
    print(f"{tv.spec().name}: {','.join(str(v) for v in tv)}")
