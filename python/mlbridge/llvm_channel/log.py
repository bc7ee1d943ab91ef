# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training logs of LLVM's ML advisors: the format, reading, writing, and from and to recordings.

A log is a header in JSON that names the tensors; then for each question a line of JSON and the
tensors' bytes. LLVM's interactive channels send the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .._core import Signature, TensorSpec
from ..errors import (
    Code,
    InvalidArgument,
    InvalidModel,
    NotFound,
    ProtocolError,
    Status,
    Unsupported,
)
from ..optimizations import OPTIMIZATIONS
from ..outputs import write_all
from ..reading import open_file
from ..recording import Episode, Recording, Tensors, write

__all__ = [
    "Header",
    "LogWriter",
    "LoggedContext",
    "Tensor",
    "TrainingLog",
    "from_recording",
    "to_recording",
]

_TYPES = {
    "int64_t": "int64", "int32_t": "int32", "int16_t": "int16", "int8_t": "int8",
    "uint64_t": "uint64", "uint32_t": "uint32", "uint16_t": "uint16", "uint8_t": "uint8",
    "float": "float32", "double": "float64",
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
# A header has a few kilobytes; more than this is no header.
_LONGEST_LINE = 1 << 20
_MOST_BYTES = 1 << 26
_MOST_FEATURES = 10_000
_MOST_DIMENSIONS = 32  # of NumPy


@dataclass(frozen=True)
class Tensor:
    """A tensor as a header describes it; its bytes are little-endian, without padding."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of one value."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def spec(self) -> TensorSpec:
        """The tensor in a signature."""
        return TensorSpec(self.name, self.dtype.name, self.shape)

    @property
    def described(self) -> dict[str, Any]:
        """The tensor in a header."""
        kind = _NAMES[self.dtype.name]
        return {"name": self.name, "type": kind, "port": 0, "shape": list(self.shape)}

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}{list(self.shape)}"


@dataclass(frozen=True)
class Header:
    """The beginning of a log or conversation: the tensors of each question, in this order."""

    features: tuple[Tensor, ...]
    #: The reward after each observation, if a log has one.
    score: Tensor | None = None
    #: The answer that a compiler wants at an interactive channel.
    advice: Tensor | None = None

    @property
    def size(self) -> int:
        """Bytes of the features of one observation."""
        return sum(tensor.size for tensor in self.features)

    def line(self) -> bytes:
        """The header as LLVM writes it."""
        top: dict[str, Any] = {"features": [tensor.described for tensor in self.features]}
        if self.score is not None:
            top["score"] = self.score.described
        if self.advice is not None:
            top["advice"] = self.advice.described
        return _line(top)

    def arrays(self, payload: bytes) -> Tensors:
        """The features by name: read-only views of the bytes of an observation."""
        arrays: Tensors = {}
        at = 0
        for tensor in self.features:
            arrays[tensor.name] = _array(tensor, payload, at)
            at += tensor.size
        return arrays


def _line(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape") + b"\n"


def _array(tensor: Tensor, payload: bytes, at: int = 0) -> NDArray[Any]:
    little = tensor.dtype.newbyteorder("<")
    count = math.prod(tensor.shape)
    found = np.frombuffer(payload, little, count, at) if count else np.empty(0, little)
    return found.astype(tensor.dtype, copy=False).reshape(tensor.shape)


def _tensor(given: Any) -> Tensor:
    name, kind, shape = given["name"], given["type"], given["shape"]
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ValueError(f"'{name}' has the unknown type '{kind}'")
    if not isinstance(name, str) or not all(type(n) is int and 0 <= n < 1 << 31 for n in shape):
        raise ValueError(f"'{name}' has the shape {shape}")
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"'{name}' has {len(shape)} dimensions")
    return Tensor(name, np.dtype(_TYPES[kind]), tuple(shape))


def _header(top: Any) -> Header:
    """Raises KeyError, TypeError or ValueError."""
    if not isinstance(top["features"], list) or len(top["features"]) > _MOST_FEATURES:
        raise ValueError(f"'features' is no list of at most {_MOST_FEATURES}")
    score, advice = (
        None if top.get(key) is None else _tensor(top[key]) for key in ("score", "advice")
    )
    header = Header(tuple(map(_tensor, top["features"])), score, advice)
    names = [tensor.name for tensor in header.features]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two features are called '{name}'")
    for extra in (score, advice):
        if header.size + (extra.size if extra else 0) > _MOST_BYTES:
            raise ValueError(f"it announces {header.size} bytes for each observation, over 64 MiB")
    return header


# A stream consists of these and headers.


@dataclass(frozen=True)
class ContextLine:
    """The function to which what follows belongs; "" is the module."""

    name: str


@dataclass(frozen=True)
class Observation:
    """The features of one question, in the header's order."""

    number: int
    payload: bytes


@dataclass(frozen=True)
class Outcome:
    """The reward of the observation with this number."""

    number: int
    payload: bytes


Item = Header | ContextLine | Observation | Outcome


class Parser:
    """Takes a stream in pieces of any size, and gives what is complete.

    It keeps at most one incomplete item, whose length is limited.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        #: Bytes of the complete items so far.
        self.offset = 0
        self._buffer = bytearray()
        # The kind, number and size of the observation or outcome whose bytes are awaited.
        self._awaited: tuple[type[Observation] | type[Outcome], int, int] | None = None

    @property
    def incomplete(self) -> str:
        """The item that has begun and not ended; empty if none has."""
        if self._awaited is not None:
            kind, number, size = self._awaited
            have = min(len(self._buffer), size + 1)
            return f"{have} of {size + 1} bytes of {kind.__name__.lower()} {number}"
        return f"{len(self._buffer)} bytes of a line" if self._buffer else ""

    def feed(self, data: bytes) -> Iterator[Item]:
        """The items that these bytes complete. Raises ProtocolError, which says where and why."""
        self._buffer += data
        while True:
            item = self._line() if self._awaited is None else self._payload()
            if item is None:
                return
            if not isinstance(item, bool):
                yield item

    def _line(self) -> Item | bool | None:
        end = self._buffer.find(b"\n", 0, _LONGEST_LINE)
        if end < 0:
            if len(self._buffer) >= _LONGEST_LINE:
                raise self._wrong(f"no end of line in {_LONGEST_LINE} bytes")
            return None
        raw = bytes(self._buffer[:end])
        try:
            item = self._parsed(json.loads(raw.decode("utf-8", "surrogateescape")))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            if raw.startswith(b"MLBREC1"):
                raise self._wrong("this is a recording, which mlbridge.Recording reads") from None
            shown = raw[:60].decode("ascii", "replace")
            raise self._wrong(f"expected a line of JSON, got '{shown}': {error}") from None
        self._take(end + 1)
        return item

    def _parsed(self, value: Any) -> Item | bool:
        if not isinstance(value, dict):
            raise ValueError("not an object")
        if "features" in value:
            self.header = _header(value)
            return self.header
        if self.header is None:
            raise ValueError("there is no header before it")
        if "context" in value:
            if not isinstance(value["context"], str):
                raise ValueError("the context is no text")
            return ContextLine(value["context"])
        if "observation" in value:
            self._awaited = (Observation, int(value["observation"]), self.header.size)
        elif "outcome" in value:
            if self.header.score is None:
                raise ValueError("the header announces no score")
            self._awaited = (Outcome, int(value["outcome"]), self.header.score.size)
        else:
            raise ValueError("neither a context nor an observation")
        return True

    def _payload(self) -> Item | None:
        assert self._awaited is not None
        kind, number, size = self._awaited
        if len(self._buffer) <= size:
            return None
        if self._buffer[size] != 0x0A:
            raise self._wrong(
                f"{kind.__name__.lower()} {number}: no end of line after {size} bytes"
            )
        payload = bytes(self._buffer[:size])
        self._take(size + 1)
        self._awaited = None
        return kind(number, payload)

    def _take(self, count: int) -> None:
        del self._buffer[:count]
        self.offset += count

    @property
    def rest(self) -> bytes:
        """The bytes not yet taken; after an error, those after the first byte of what is wrong."""
        return bytes(self._buffer)

    def _wrong(self, what: str) -> ProtocolError:
        del self._buffer[:1]
        return ProtocolError(f"at byte {self.offset}: {what}")


# Reading


@dataclass
class LoggedContext:
    """The questions of one function, or of a module."""

    #: The function; "" is the module.
    name: str
    #: All features by name, the decision among them if it was logged.
    observations: list[Tensors] = field(default_factory=list)
    #: The reward of each observation: an array of the score's shape, or None.
    rewards: list[NDArray[Any] | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.observations)

    def stacked(self, name: str) -> NDArray[Any]:
        """A feature of all observations as one array, a row for each."""
        return np.stack([observation[name] for observation in self.observations])


class TrainingLog:
    """A training log, or what LLVM wrote into an interactive channel that is a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read its header. Raises NotFound, and InvalidModel for a file that has none."""
        self.path = os.fspath(path)
        #: Why the contexts end before the file does, if they do. Known once all are read.
        self.damage = ""
        first = next(self._items(), None)
        if not isinstance(first, Header):
            why = self.damage or "it is empty"
            raise InvalidModel(f"{self.path}: not a training log of LLVM: {why}")
        self.header = first

    @property
    def decision(self) -> str:
        """The name of the feature that is the advisor's answer; "" if none is."""
        last = self.header.features[-1].name if self.header.features else ""
        return last if last in {one.decision for one in OPTIMIZATIONS.values()} else ""

    def contexts(self) -> Iterator[LoggedContext]:
        """Each in turn, with what is whole of the last one; one is in memory at a time."""
        header = self.header
        current: LoggedContext | None = None
        for item in self._items():
            if isinstance(item, ContextLine):
                if current is not None:
                    yield current
                current = LoggedContext(item.name)
            elif isinstance(item, Header):
                header = item
            else:
                if current is None:
                    current = LoggedContext("")
                if isinstance(item, Observation):
                    current.observations.append(header.arrays(item.payload))
                    current.rewards.append(None)
                elif current.rewards and header.score is not None:
                    current.rewards[-1] = _array(header.score, item.payload)
        if current is not None:
            yield current

    def _items(self) -> Iterator[Item]:
        self.damage = ""
        parser = Parser()
        with open_file(self.path) as file:
            try:
                while data := file.read(1 << 16):
                    yield from parser.feed(data)
            except ProtocolError as error:
                self.damage = error.message
                return
            except OSError as error:
                self.damage = f"at byte {parser.offset}: cannot be read: {error.strerror}"
                return
        if parser.incomplete:
            self.damage = f"at byte {parser.offset}: cut off after {parser.incomplete}"

    def __repr__(self) -> str:
        return f"<mlbridge.llvm_channel.log.TrainingLog {self.path}>"


# Writing


class LogWriter(contextlib.AbstractContextManager["LogWriter"]):
    """Writes a training log, as LLVM's advisors do; its features end with the decision."""

    def __init__(
        self, path: str | os.PathLike[str], features: Sequence[Tensor], score: Tensor | None = None
    ) -> None:
        """Make the file, which must not be there yet. With `score` each observation has a reward.

        Raises InvalidArgument if it is there, NotFound if its folder isn't.
        """
        self.path = os.fspath(path)
        self.header = Header(tuple(features), score)
        try:
            # Unbuffered: what was observed survives the end of the process.
            self._file: IO[bytes] = open(self.path, "xb", buffering=0)  # noqa: SIM115
        except FileExistsError:
            raise InvalidArgument(f"{self.path} is there already; a log is a new file") from None
        except OSError as error:
            raise NotFound(f"{self.path}: cannot be written: {error.strerror}") from None
        self._context, self._number = _line({"context": ""}), 0
        write_all(self._file.fileno(), self.header.line())

    def context(self, name: str) -> None:
        """Begin a function, to which what follows belongs; "" is the module.

        One without observations is not written: LLVM's own reader refuses it.
        """
        self._context, self._number = _line({"context": name}), 0

    def observation(self, values: Mapping[str, Any], reward: Any = None) -> None:
        """Add one, with a value for each feature. Values must have the announced types and shapes.

        `reward` is a number, or an array of the score's shape; it must be given if the log has a
        score. Raises InvalidArgument.
        """
        parts = [self._bytes(t, values.get(t.name)) for t in self.header.features]
        self.raw(b"".join(parts), reward)

    def raw(self, payload: bytes, reward: Any = None) -> None:
        """Add an observation by the bytes of all features, in order."""
        if len(payload) != self.header.size:
            raise InvalidArgument(f"expected {self.header.size} bytes, got {len(payload)}")
        if (reward is None) != (self.header.score is None):
            wanted = "no score" if reward is not None else f"the score {self.header.score}"
            raise InvalidArgument(f"{self.path} has {wanted}, the reward is {reward}")
        data = self._context + _line({"observation": self._number}) + payload + b"\n"
        if self.header.score is not None:
            data += _line({"outcome": self._number}) + self._bytes(self.header.score, reward)
            data += b"\n"
        write_all(self._file.fileno(), data)
        self._context, self._number = b"", self._number + 1

    def _bytes(self, tensor: Tensor, value: Any) -> bytes:
        if value is None:
            raise InvalidArgument(f"there is no value of '{tensor.name}'")
        array = np.asarray(value)
        if array.size != math.prod(tensor.shape) or not np.can_cast(
            array.dtype, tensor.dtype, "same_kind"
        ):
            raise InvalidArgument(f"expected {tensor}, got {array.dtype.name}{list(array.shape)}")
        return array.astype(tensor.dtype.newbyteorder("<")).tobytes()

    def close(self) -> None:
        """Closes the file; what was written is in it already."""
        self._file.close()

    def __exit__(self, *error: object) -> None:
        self.close()


# Conversions


def to_recording(
    log: str | os.PathLike[str], recording: str | os.PathLike[str], *, decision: str = ""
) -> str:
    """Write what is whole of a log as a recording; what is damaged of it, or "".

    Each context is an episode, whose context is the function. `decision` is the feature that is
    the action: by default the one that LLVM's advisors log. Raises what TrainingLog and
    recording.write raise, and InvalidArgument if no feature is the decision.
    """
    source = TrainingLog(log)
    decision = decision or source.decision
    inputs = [t.spec for t in source.header.features if t.name != decision]
    outputs = [t.spec for t in source.header.features if t.name == decision]
    if not outputs and source.header.advice is not None:
        raise InvalidArgument(
            f"{source.path}: a compiler asked this at a channel for {source.header.advice}; the "
            "answers are not in it. `mlbridge run --log` writes both"
        )
    if not outputs:
        raise InvalidArgument(f"{source.path}: no feature is the decision; pass decision=NAME")
    signature = Signature(inputs, outputs)

    def episodes() -> Iterator[Episode]:
        for number, context in enumerate(source.contexts()):
            yield Episode(
                episode=str(number),
                unit=context.name,
                signature=signature,
                observations=[
                    {name: value for name, value in values.items() if name != decision}
                    for values in context.observations
                ],
                actions=[{decision: values[decision]} for values in context.observations],
                reward_sums=[0.0 if r is None else float(r.sum()) for r in context.rewards],
                outcome=Status(Code.OK),
            )

    write(recording, episodes(), signature, model=source.path)
    return source.damage


def from_recording(
    recording: str | os.PathLike[str], log: str | os.PathLike[str], *, score: str | None = "reward"
) -> str:
    """Write the answered requests of a recording as a log; what is damaged of it, or "".

    Each episode is a context. The features are the inputs and then the outputs, the rewards
    float32. With `score` None there are none. Raises Unsupported for tensors that the format
    doesn't have: other types, strings, and shapes that change.
    """
    source = Recording(recording)
    writer: LogWriter | None = None
    with contextlib.ExitStack() as stack:
        for episode in source.episodes():
            for step, (inputs, outputs) in enumerate(
                zip(episode.observations, episode.actions, strict=True)
            ):
                values = {**inputs, **outputs}
                features = [_logged(source.path, name, value) for name, value in values.items()]
                if writer is None:
                    reward = Tensor(score, np.dtype("float32"), (1,)) if score else None
                    writer = stack.enter_context(LogWriter(log, features, reward))
                if tuple(features) != writer.header.features:
                    raise Unsupported(
                        f"{source.path}: a request has ({', '.join(map(str, features))}), the "
                        f"first ({', '.join(map(str, writer.header.features))}); in a log all are "
                        "alike"
                    )
                if step == 0:
                    writer.context(episode.unit)
                writer.observation(values, episode.rewards[step] if score else None)
    if writer is None:
        raise InvalidArgument(f"{source.path} has no answered request")
    return source.damage


def _logged(path: str, name: str, value: NDArray[Any]) -> Tensor:
    if value.dtype.name not in _NAMES:
        raise Unsupported(
            f"{path}: '{name}' is {value.dtype.name}, which a training log cannot hold"
        )
    return Tensor(name, value.dtype, value.shape)
