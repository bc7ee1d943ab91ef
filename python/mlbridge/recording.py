# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recordings: read for training, replayed to compilers, or written from episodes.

docs/recording.md describes the format. `?record=FOLDER` of a model's URI makes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ._core import CallContext, EventKind, Signature, Statistics, TensorSpec
from .claiming import file_errors
from .errors import Closed, Code, Error, InvalidArgument, InvalidModel, PolicyFailed, Status
from .reading import open_file, shortly
from .server import Server

__all__ = ["Episode", "Record", "Recording", "Replay", "Tensors", "replay", "write"]

MAGIC = b"MLBREC1\n"
# Bytes of the text, bytes of the tensors, CRC-32 of both.
_HEADER = struct.Struct("<IQI")
_MAX_TEXT = 1 << 28

Tensors = dict[str, NDArray[Any]]


# Reading


def _signature(described: Any) -> Signature | None:
    if described is None:
        return None
    inputs, outputs = (
        [TensorSpec(s["name"], s["type"], s["shape"], s["maximum"]) for s in described[side]]
        for side in ("inputs", "outputs")
    )
    return Signature(inputs, outputs)


@dataclass(frozen=True)
class Record:
    """One thing that happened, `time` seconds after the recording began."""

    kind: str
    time: float
    fields: Mapping[str, Any]
    tensors: Tensors

    @property
    def stream(self) -> tuple[int, int]:
        """The number of the connection, and of the stream on it."""
        return self.fields["connection"], self.fields["stream"]


@dataclass
class Episode:
    """Requests, answers and rewards of one stream between a begin and an end.

    Entry k of `observations`, `actions`, `rewards`, `times` and `waits` belongs to one answered
    request. A reward counts for the answer before it.
    """

    agent: str = ""
    episode: str = ""
    unit: str = ""
    signature: Signature | None = None
    observations: list[Tensors] = field(default_factory=list)
    actions: list[Tensors] = field(default_factory=list)
    #: Seconds from the begin of the recording to the request, and from the request to its answer.
    times: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    #: The requests that failed: the number that had been answered before each, and the reason.
    failures: list[tuple[int, Status]] = field(default_factory=list)
    #: The end as the compiler reported it; None if it is not in the recording.
    outcome: Status | None = None
    #: The reward of each answered request; several rewards of one request are added up.
    reward_sums: list[float] = field(default_factory=list)
    #: Rewards that came before any answer.
    first_reward: float = 0.0

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """`reward_sums` as an array."""
        return np.array(self.reward_sums, np.float64)

    def stacked(self, name: str) -> NDArray[Any]:
        """An input or output of all steps as one array, a row for each; of equal shapes only."""
        rows = [{**a, **o}[name] for a, o in zip(self.actions, self.observations, strict=True)]
        return np.stack(rows)

    def _reward(self, value: float) -> None:
        if self.reward_sums:
            self.reward_sums[-1] += value
        else:
            self.first_reward += value


class Recording:
    """A recording file. Reading does not change it; it may still be written meanwhile."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read its header. Raises NotFound, and InvalidModel for what is not a recording."""
        self.path = os.fspath(path)
        #: The reason why the records ended before the file did, if they did; once all are read.
        self.damage = ""
        #: The damage is only that the file ends in a record, as after a recorder's kill.
        self.cut_off = False
        first = next(self.records(), None)
        if first is None or first.kind != "recording":
            raise InvalidModel(f"{self.path}: the recording has no valid header: {self.damage}")
        self.model: str = first.fields["model"]
        #: Seconds since 1970.
        self.began: float = first.fields["began"]
        self.metadata: dict[str, str] = first.fields["metadata"]
        self.signature = _signature(first.fields["signature"])

    def records(self) -> Iterator[Record]:
        """All records in order, up to the first one that is incomplete or damaged."""
        self.damage, self.cut_off = "", False
        with open_file(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(len(MAGIC))
            if start != MAGIC:
                what = "not a recording of mlbridge"
                if re.fullmatch(rb"MLBREC[0-9]\n", start):
                    what = f"a recording of version {start[6:7].decode()}; expected version 1"
                raise InvalidModel(f"{self.path} is {what}")
            while header := file.read(_HEADER.size):
                at = file.tell() - len(header)
                try:
                    record = self._record(file, header, size - file.tell())
                except _WRONG as error:
                    self.damage = f"at byte {at}: {shortly(error)}"
                    return
                yield record

    def _record(self, file: IO[bytes], header: bytes, left: int) -> Record:
        """The record after this header, where the file has so many bytes left. Raises one of
        _WRONG."""
        if len(header) < _HEADER.size:
            self.cut_off = True
            raise ValueError("cut off in the header of a record")
        text, data, checksum = _HEADER.unpack(header)
        if text > _MAX_TEXT or text + data > left:
            self.cut_off = text <= _MAX_TEXT
            raise ValueError(f"a record of {text} + {data} bytes, the file has {left} more")
        line, raw = file.read(text), file.read(data)
        if zlib.crc32(raw, zlib.crc32(line)) != checksum:
            raise ValueError("the checksum of a record is wrong")
        try:
            return _parsed(line, raw)
        except _WRONG as error:
            raise ValueError(f"a record cannot be read: {shortly(error)}") from None

    def episodes(self) -> Iterator[Episode]:
        """Yields each episode as it ends, and those that did not end at the end of the file.

        Requests outside of episodes are one episode for each stretch of their stream.
        """
        unfinished: dict[tuple[int, int], Episode] = {}
        signatures: dict[tuple[int, int], Signature | None] = {}
        unanswered: dict[int, Record] = {}

        def episode_of(record: Record) -> Episode:
            fields = record.fields
            return unfinished.setdefault(
                record.stream,
                Episode(
                    fields["agent"],
                    fields["episode"],
                    fields["context"],
                    signatures.get(record.stream, self.signature),
                ),
            )

        for record in self.records():
            if record.kind == "stream":
                signatures[record.stream] = _signature(record.fields["signature"])
            elif record.kind == "begin":
                before = unfinished.pop(record.stream, None)
                if before is not None and (before.actions or before.failures):
                    yield before
                episode_of(record)
            elif record.kind == "request":
                unanswered[record.fields["number"]] = record
                episode = episode_of(record)
                episode.signature = signatures.get(record.stream, self.signature)
            elif record.kind in ("reply", "error"):
                request = unanswered.pop(record.fields["number"], None)
                if request is None:
                    continue
                episode = episode_of(request)
                if record.kind == "error":
                    episode.failures.append((len(episode), _status_of(record)))
                    continue
                episode.observations.append(request.tensors)
                episode.actions.append(record.tensors)
                episode.times.append(request.time)
                between = record.time - request.time  # and what recording itself takes
                episode.waits.append(float(record.fields.get("wait", between)))
                episode.reward_sums.append(0.0)
            elif record.kind == "reward":
                episode_of(record)._reward(float(record.fields["reward"]))
            elif record.kind == "end":
                ended = episode_of(record)
                ended.outcome = _status_of(record)
                del unfinished[record.stream]
                yield ended
        yield from unfinished.values()

    def __repr__(self) -> str:
        return f"<mlbridge.recording.Recording {self.path}>"


def _status_of(record: Record) -> Status:
    return Status(Code(record.fields["code"]), record.fields["message"])


# The fields of a record of each kind, and their types; others may come later.
_STREAM = {"connection": int, "stream": int, "agent": str}
_EPISODE = {**_STREAM, "episode": str, "context": str}
_OUTCOME = {"code": int, "message": str}
_FIELDS: dict[str, dict[str, Any]] = {
    "recording": {"model": str, "began": (int, float), "metadata": dict},
    "stream": _STREAM,
    "request": {**_EPISODE, "number": int, "step": int},
    "reply": {"number": int},
    "error": {"number": int, **_OUTCOME},
    "begin": _EPISODE,
    "reward": {**_EPISODE, "reward": (int, float)},
    "end": {**_EPISODE, **_OUTCOME},
}
_TYPES = frozenset(
    [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool"]
    + [f"float{bits}" for bits in (16, 32, 64)]
)
#: Errors of reading a record that is wrong.
_WRONG = (
    *(LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError),
    *(OSError, MemoryError),
)


def _check(kind: str, fields: Mapping[str, Any]) -> None:
    """Raises one of _WRONG for a record without its fields."""
    for name, type_ in _FIELDS.get(kind, {}).items():
        if not isinstance(fields[name], type_) or isinstance(fields[name], bool):
            raise TypeError(f"{name} of a record '{kind}' is {str(fields[name])[:50]!r}")
    if "code" in _FIELDS.get(kind, {}):
        Code(fields["code"])
    if kind in ("recording", "stream"):
        _signature(fields["signature"])
    if kind == "recording" and not all(isinstance(v, str) for v in fields["metadata"].values()):
        raise TypeError("the metadata are not texts")
    if kind == "reward":
        float(fields["reward"])
    if kind == "reply":
        float(fields.get("wait", 0))


def _parsed(line: bytes, raw: bytes) -> Record:
    """The record with this text and these tensors; raises one of _WRONG."""
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    kind = fields.pop("kind")
    if not isinstance(kind, str):
        raise TypeError("its kind is no text")
    _check(kind, fields)
    tensors: Tensors = {}
    at = 0
    for entry in fields.pop("tensors", []):
        if not isinstance(entry["name"], str):
            raise TypeError("the name of a tensor is no text")
        shape = tuple(int(n) for n in entry["shape"])
        if any(length < 0 for length in shape):
            raise ValueError(f"'{entry['name']}' has a negative length in its shape {list(shape)}")
        count = math.prod(shape)
        if entry["type"] == "string":
            if len(entry["values"]) != count:
                raise ValueError(f"'{entry['name']}' has {len(entry['values'])} texts, not {count}")
            if not all(isinstance(value, str) for value in entry["values"]):
                raise TypeError(f"'{entry['name']}' has values that are no texts")
            array = np.empty(count, object)
            array[:] = entry["values"]
            tensors[entry["name"]] = array.reshape(shape)
            continue
        if entry["type"] not in _TYPES:
            raise ValueError(f"'{entry['name']}' has the type {str(entry['type'])[:50]!r}")
        dtype = np.dtype(entry["type"])
        if count * dtype.itemsize > len(raw) - at:
            raise ValueError(f"'{entry['name']}' is longer than its record")
        little = np.frombuffer(raw, dtype.newbyteorder("<"), count, at)
        tensors[entry["name"]] = little.astype(dtype).reshape(shape)
        at += count * dtype.itemsize
    return Record(kind, float(fields.pop("time")), fields, tensors)


# Writing


def write(
    path: str | os.PathLike[str],
    episodes: Iterable[Episode],
    signature: Signature | None = None,
    *,
    model: str = "",
) -> None:
    """Write episodes that have ended as a recording, a new file. `model` says who answered.

    Requests that failed are left out. Raises InvalidArgument if the file is there, NotFound or
    LimitExceeded if it can't be written.
    """
    path = Path(path)
    if path.exists():
        raise InvalidArgument(f"{path} is there already; a recording is a new file")
    began, number = time.monotonic(), 0
    streams: dict[str, int] = {}
    with file_errors(path), path.open("xb") as file:

        def put(kind: str, tensors: Mapping[str, Any] | None = None, **fields: Any) -> None:
            text: dict[str, Any] = {"kind": kind, "time": time.monotonic() - began, **fields}
            data = b""
            if tensors is not None:
                entries = [_entry(name, np.asarray(value)) for name, value in tensors.items()]
                text["tensors"] = [entry for entry, _ in entries]
                data = b"".join(elements for _, elements in entries)
            line = json.dumps(text).encode()
            checksum = zlib.crc32(data, zlib.crc32(line))
            file.write(_HEADER.pack(len(line), len(data), checksum) + line + data)

        file.write(MAGIC)
        described = _described(signature)
        put("recording", model=model, began=time.time(), signature=described, metadata={})
        for episode in episodes:
            is_new = episode.agent not in streams
            stream = streams.setdefault(episode.agent, len(streams) + 1)
            who: dict[str, Any] = {"connection": 1, "stream": stream, "agent": episode.agent}
            if is_new:
                put("stream", **who, signature=_described(episode.signature))
            who |= {"episode": episode.episode, "context": episode.unit}
            put("begin", **who, step=0)
            steps = zip(
                episode.observations, episode.actions, episode.rewards.tolist(), strict=True
            )
            for step, (inputs, outputs, reward) in enumerate(steps):
                number += 1
                put("request", inputs, number=number, **who, step=step)
                put("reply", outputs, number=number)
                if reward:
                    put("reward", reward=reward, **who, step=step)
            if episode.outcome is not None:
                code, message = episode.outcome
                put("end", code=int(code), message=message, **who, step=len(episode))


def _entry(name: str, array: NDArray[Any]) -> tuple[dict[str, Any], bytes]:
    """A tensor's entry in the text of a record, and its bytes after the text."""
    entry: dict[str, Any] = {"name": name, "shape": list(array.shape)}
    if _is_text(array):
        return entry | {"type": "string", "values": [str(x) for x in array.ravel()]}, b""
    return entry | {"type": array.dtype.name}, _little_endian(array)


def _is_text(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "OUS"


def _little_endian(array: NDArray[Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def _described(signature: Signature | None) -> dict[str, Any] | None:
    if signature is None:
        return None
    return {
        side: [
            {
                "name": s.name,
                "type": s.type,
                "shape": s.shape,
                "maximum": s.maximum and [m or None for m in s.maximum],
            }
            for s in getattr(signature, side)
        ]
        for side in ("inputs", "outputs")
    }


# Replaying


class Replay:
    """Answers from a recording.

    The answer is the one recorded for the same inputs, bit for bit. If there are several: the one
    of the same agent, episode, unit and step (the k-th request gets the k-th answer); else of
    the same agent, unit and step; else of the same agent; else any.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.recording = Recording(path)
        self._answers: dict[tuple[Any, ...], list[Tensors | Status]] = {}
        self._times_asked: dict[tuple[Any, ...], int] = {}
        self._places: set[tuple[Any, ...]] = set()
        unanswered: dict[int, list[tuple[Any, ...]]] = {}
        for record in self.recording.records():
            fields = record.fields
            if record.kind == "request":
                who = (fields["agent"], fields["episode"], fields["context"], fields["step"])
                self._places.add(who[1:])
                unanswered[fields["number"]] = self._keys(who, record.tensors)
            elif record.kind in ("reply", "error"):
                answer = record.tensors if record.kind == "reply" else _status_of(record)
                for key in unanswered.pop(fields["number"], ()):
                    self._answers.setdefault(key, []).append(answer)

    @staticmethod
    def _keys(who: tuple[Any, ...], inputs: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Keys of an answer, from the most precise to the least."""
        digest = hashlib.blake2b(digest_size=16)
        for name in sorted(inputs):
            array = np.asarray(inputs[name])
            if _is_text(array):
                head = [name, "string", array.shape, [str(x) for x in array.ravel()]]
            else:
                head = [name, array.dtype.name, array.shape]
            digest.update(json.dumps(head).encode() + b"\0")
            if not _is_text(array):
                digest.update(_little_endian(array))
        key = digest.digest()
        agent, _, unit, step = who
        return [(key, *who), (key, agent, unit, step), (key, agent), (key,)]

    def __call__(self, observation: Mapping[str, Any], context: CallContext) -> Tensors:
        """The answer; raises PolicyFailed if there is none, or if it was an error."""
        who = (context.agent, context.episode, context.unit, context.step)
        for precision, key in enumerate(self._keys(who, observation)):
            answers = self._answers.get(key)
            if answers is None:
                continue
            turn = 0
            if precision == 0:
                turn = self._times_asked.get(key, 0)
                self._times_asked[key] = turn + 1
            answer = answers[min(turn, len(answers) - 1)]
            if isinstance(answer, Status):
                raise PolicyFailed(answer.message)
            return answer
        place = f"step {context.step} of unit '{context.unit}', episode '{context.episode}'"
        known = who[1:] in self._places
        raise PolicyFailed(
            f"not in the recording {self.recording.path}: {place} was "
            + ("recorded with other inputs" if known else "not recorded")
            + ", and these inputs occur nowhere in it"
        )


def replay(
    path: str | os.PathLike[str],
    uri: str,
    *,
    ready: Callable[[Server], None] | None = None,
    damaged: Callable[[str], None] | None = None,
    **limits: Any,
) -> Statistics:
    """Serve what is in a recording at `uri` until Ctrl-C; described at Replay.

    InvalidModel if the recording is damaged. If it only ends in the middle of a record, what is
    before that is served; `damaged` is told, or there is a RuntimeWarning.
    """
    answers = Replay(path)
    recording = answers.recording
    if recording.damage and not recording.cut_off:
        raise InvalidModel(f"{recording.path}: {recording.damage}")
    with Server(uri, recording.signature, recording.metadata, **limits) as server:
        if recording.damage:
            why = f"{recording.path}: {recording.damage}; what is before it is answered"
            if damaged is None:
                warnings.warn(why, RuntimeWarning, stacklevel=2)
            else:
                damaged(why)
        if ready is not None:
            ready(server)
        for event in server.events():
            if event.kind is not EventKind.REQUEST:
                continue
            try:
                event.reply(answers(event.inputs, event.context))
            except Closed:
                continue
            except Error as error:
                with contextlib.suppress(Error):
                    event.fail(error.message)
        return server.statistics
