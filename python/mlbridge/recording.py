# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recordings: made by a server between compiler and model, read for training, and replayed.

docs/recording.md describes the format.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import struct
import time
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ._core import Context, Event, EventKind, Model, Runner, Signature, Statistics, TensorSpec
from .errors import (
    Cancelled,
    Closed,
    Code,
    Error,
    InvalidArgument,
    InvalidModel,
    NotFound,
    PolicyFailed,
    Status,
)
from .reading import open_file, shortly
from .server import Server

__all__ = ["Episode", "Record", "Recorder", "Recording", "Replay", "Tensors", "record", "replay"]

MAGIC = b"MLBREC1\n"
# Bytes of the text, bytes of the tensors, CRC-32 of both.
_HEADER = struct.Struct("<IQI")
_MAX_TEXT = 1 << 28

Tensors = dict[str, NDArray[Any]]


# Writing


class Recorder(contextlib.AbstractContextManager["Recorder"]):
    """Writes a recording. What is written survives the end of this process, however it ends."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        signature: Signature | None = None,
        metadata: Mapping[str, str] | None = None,
        *,
        model: str = "",
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Make the file, which must not be there yet. `model` says who answers.

        A full disk raises nothing: recording stops and `failed` is called once with the reason, or
        without `failed` there is a RuntimeWarning.
        """
        self.path = os.fspath(path)
        try:
            self._file: IO[bytes] = open(self.path, "xb", buffering=0)  # noqa: SIM115
        except FileExistsError:
            raise InvalidArgument(
                f"{self.path} is there already; a recording is a new file"
            ) from None
        except OSError as error:
            raise NotFound(f"{self.path}: cannot be written: {error.strerror}") from None
        #: Why nothing is kept any more: a disk that is full. What was kept until then stays whole.
        self.failure = ""
        self._failed = failed or _warn
        self._kept = 0
        self._began = time.monotonic()
        self._requests = 0
        self._streams: set[tuple[int, int]] = set()
        self._write_all(MAGIC)
        self._record(
            "recording",
            model=model,
            began=time.time(),
            signature=_described(signature),
            metadata=dict(metadata or {}),
        )

    def request(self, context: Context, signature: Signature, inputs: Mapping[str, Any]) -> int:
        """Keep a request; its number is for the answer."""
        stream = (context.connection, context.stream)
        if stream not in self._streams:
            self._streams.add(stream)
            who = _who(context, "connection stream agent")
            self._record("stream", **who, signature=_described(signature))
        self._requests += 1
        self._record("request", inputs, number=self._requests, **_who(context))
        return self._requests

    def reply(self, number: int, outputs: Mapping[str, Any]) -> None:
        """Keep the answer to a request."""
        self._record("reply", outputs, number=number)

    def error(self, number: int, status: Status) -> None:
        """Keep that a request failed."""
        self._record("error", number=number, code=int(status.code), message=status.message)

    def event(self, event: Event) -> None:
        """Keep the begin, a reward or the end of an episode."""
        if event.kind is EventKind.EPISODE_BEGIN:
            self.begin(event.context)
        elif event.kind is EventKind.REWARD:
            self.reward(event.context, event.reward)
        elif event.kind is EventKind.EPISODE_END:
            self.end(event.context, event.outcome)

    def begin(self, context: Context) -> None:
        """Keep that an episode begins."""
        self._record("begin", **_who(context))

    def reward(self, context: Context, value: float) -> None:
        """Keep the reward of the last answer."""
        self._record("reward", reward=value, **_who(context))

    def end(self, context: Context, outcome: Status) -> None:
        """Keep how an episode ended."""
        code, message = outcome
        self._record("end", code=int(code), message=message, **_who(context))

    def close(self) -> None:
        """Closes the file; what was written is in it already."""
        self._file.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _record(self, kind: str, tensors: Mapping[str, Any] | None = None, **rest: Any) -> None:
        parts: list[bytes] = []
        text: dict[str, Any] = {"kind": kind, "time": time.monotonic() - self._began, **rest}
        if tensors is not None:
            text["tensors"] = []
            for name, value in tensors.items():
                array = np.asarray(value)
                entry: dict[str, Any] = {"name": name, "shape": list(array.shape)}
                if _is_text(array):
                    entry.update(type="string", values=[str(x) for x in array.ravel()])
                else:
                    entry["type"] = array.dtype.name
                    parts.append(_little_endian(array))
                text["tensors"].append(entry)
        line = json.dumps(text).encode()
        data = b"".join(parts)
        checksum = zlib.crc32(data, zlib.crc32(line))
        self._write_all(_HEADER.pack(len(line), len(data), checksum) + line + data)

    def _write_all(self, data: bytes) -> None:
        if self.failure:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.failure = f"{self.path}: cannot be written: {error.strerror}"
            with contextlib.suppress(OSError):  # half a record would be damage
                self._file.truncate(self._kept)
            self._failed(self.failure)
        self._kept += len(data)


def _who(
    context: Context, fields: str = "connection stream agent episode context step"
) -> dict[str, Any]:
    return {name: getattr(context, name) for name in fields.split()}


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


def _signature(described: Any) -> Signature | None:
    if described is None:
        return None
    inputs, outputs = (
        [TensorSpec(s["name"], s["type"], s["shape"], s["maximum"]) for s in described[side]]
        for side in ("inputs", "outputs")
    )
    return Signature(inputs, outputs)


# Reading


@dataclass(frozen=True)
class Record:
    """One thing that happened, `time` seconds after the recording began."""

    kind: str
    time: float
    fields: Mapping[str, Any]
    tensors: Tensors

    @property
    def stream(self) -> tuple[int, int]:
        """Who it belongs to: the number of the connection, and of the stream on it."""
        return self.fields["connection"], self.fields["stream"]


@dataclass
class Episode:
    """What one stream asked, was answered and was rewarded for, between a begin and an end.

    Entry k of `observations`, `actions`, `rewards`, `times` and `waits` belongs to one answered
    request. A reward counts for the answer before it.
    """

    agent: str = ""
    episode: str = ""
    context: str = ""
    signature: Signature | None = None
    observations: list[Tensors] = field(default_factory=list)
    actions: list[Tensors] = field(default_factory=list)
    #: Seconds from the begin of the recording to the request, and from the request to its answer.
    times: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    #: Of requests that failed: how many had been answered before, and why.
    failures: list[tuple[int, Status]] = field(default_factory=list)
    #: How the compiler says that it ended; None if that is not in the recording.
    outcome: Status | None = None
    _rewards: list[float] = field(default_factory=list)
    #: Rewards that came before any answer.
    first_reward: float = 0.0

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The reward of each answered request; several rewards of one request are added up."""
        return np.array(self._rewards, np.float64)

    def stacked(self, name: str) -> NDArray[Any]:
        """An input or output of all steps as one array, a row for each; of equal shapes only."""
        rows = [{**a, **o}[name] for a, o in zip(self.actions, self.observations, strict=True)]
        return np.stack(rows)

    def _reward(self, value: float) -> None:
        if self._rewards:
            self._rewards[-1] += value
        else:
            self.first_reward += value


class Recording:
    """A recording file. Reading does not change it; it may still be written meanwhile."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read its header. Raises NotFound, and InvalidModel for what is not a recording."""
        self.path = os.fspath(path)
        #: Why the records ended before the file did, if they did. Known once all are read.
        self.damage = ""
        #: Whether the damage is only that the file ends in a record, as after a recorder's kill.
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
        """Everything in order, up to the first record that is incomplete or damaged."""
        self.damage, self.cut_off = "", False
        with open_file(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(len(MAGIC)) != MAGIC:
                raise InvalidModel(f"{self.path} is not a recording of mlbridge")
            while header := file.read(_HEADER.size):
                at = file.tell() - len(header)
                if len(header) < _HEADER.size:
                    self.damage = f"at byte {at}: cut off in the header of a record"
                    self.cut_off = True
                    return
                text, data, checksum = _HEADER.unpack(header)
                if text > _MAX_TEXT or text + data > size - file.tell():
                    self.damage = (
                        f"at byte {at}: a record of {text} + {data} bytes, "
                        f"the file has {size - file.tell()} more"
                    )
                    self.cut_off = text <= _MAX_TEXT
                    return
                try:
                    line, raw = file.read(text), file.read(data)
                except (OSError, MemoryError) as error:
                    self.damage = f"at byte {at}: cannot be read: {shortly(error)}"
                    return
                if zlib.crc32(raw, zlib.crc32(line)) != checksum:
                    self.damage = f"at byte {at}: the checksum of a record is wrong"
                    return
                try:
                    record = _parsed(line, raw)
                except _WRONG as error:
                    self.damage = f"at byte {at}: a record cannot be read: {shortly(error)}"
                    return
                yield record

    def episodes(self) -> Iterator[Episode]:
        """Each as it ends; those that did not end, at the end of the file.

        Requests outside of episodes are one episode for each stretch of their stream.
        """
        open_ones: dict[tuple[int, int], Episode] = {}
        signatures: dict[tuple[int, int], Signature | None] = {}
        asked: dict[int, Record] = {}

        def of(record: Record) -> Episode:
            fields = record.fields
            return open_ones.setdefault(
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
                before = open_ones.pop(record.stream, None)
                if before is not None and (before.actions or before.failures):
                    yield before
                of(record)
            elif record.kind == "request":
                asked[record.fields["number"]] = record
                episode = of(record)
                episode.signature = signatures.get(record.stream, self.signature)
            elif record.kind in ("reply", "error"):
                request = asked.pop(record.fields["number"], None)
                if request is None:
                    continue
                episode = of(request)
                if record.kind == "error":
                    episode.failures.append((len(episode), _status_of(record)))
                    continue
                episode.observations.append(request.tensors)
                episode.actions.append(record.tensors)
                episode.times.append(request.time)
                between = record.time - request.time  # and what recording itself takes
                episode.waits.append(float(record.fields.get("wait", between)))
                episode._rewards.append(0.0)
            elif record.kind == "reward":
                of(record)._reward(float(record.fields["reward"]))
            elif record.kind == "end":
                ended = of(record)
                ended.outcome = _status_of(record)
                del open_ones[record.stream]
                yield ended
        yield from open_ones.values()

    def __repr__(self) -> str:
        return f"<mlbridge.recording.Recording {self.path}>"


def _status_of(record: Record) -> Status:
    return Status(Code(record.fields["code"]), record.fields["message"])


# What a record of each kind has, and of which type; others may come later.
_OF_STREAM = {"connection": int, "stream": int, "agent": str}
_OF_EPISODE = {**_OF_STREAM, "episode": str, "context": str}
_OUTCOME = {"code": int, "message": str}
_FIELDS: dict[str, dict[str, Any]] = {
    "recording": {"model": str, "began": (int, float), "metadata": dict},
    "stream": _OF_STREAM,
    "request": {**_OF_EPISODE, "number": int, "step": int},
    "reply": {"number": int},
    "error": {"number": int, **_OUTCOME},
    "begin": _OF_EPISODE,
    "reward": {**_OF_EPISODE, "reward": (int, float)},
    "end": {**_OF_EPISODE, **_OUTCOME},
}
_TYPES = frozenset(
    [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool"]
    + [f"float{bits}" for bits in (16, 32, 64)]
)
#: What reading a record raises that is wrong.
_WRONG = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


def _check(kind: str, fields: Mapping[str, Any]) -> None:
    """Raises one of _WRONG."""
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
    """Raises one of _WRONG."""
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


# Recording a model


# A stream's end is not seen; the one that has asked for longest is forgotten, and made again.
_MOST_RUNNERS = 512


class _Asked:
    """The model behind a recording server: a runner for each stream."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.model = Model.open(uri)
        self._models: dict[str, Model] = {}
        self._runners: OrderedDict[tuple[int, int], Runner] = OrderedDict()

    def runner(self, context: Context, signature: Signature) -> Runner:
        stream = (context.connection, context.stream)
        found = self._runners.get(stream)
        if found is not None:
            self._runners.move_to_end(stream)
            return found
        key = f"{context.agent}: {signature}"
        model = self._models.get(key)
        if model is None:
            model = Model.open(self.uri, agent=context.agent)
            model.bind(signature)
            self._models[key] = model
        if len(self._runners) >= _MOST_RUNNERS:
            self._runners.popitem(last=False)
        made = model.new_runner(
            agent=context.agent, episode=context.episode, context=context.context
        )
        self._runners[stream] = made
        return made


def record(
    model: str,
    uri: str,
    path: str | os.PathLike[str],
    *,
    ready: Callable[[Server], None] | None = None,
    failed: Callable[[str], None] | None = None,
    **limits: Any,
) -> Statistics:
    """Serve another model at `uri` and keep what is asked and answered in `path`, until Ctrl-C.

    `model` is the URI of the other model, whose signature and metadata are shown to compilers. One
    request is in work at a time. Compilers get its failures as PolicyFailed. When the file
    can't be written any more, compilers are answered still; see Recorder.
    """
    asked = _Asked(model)
    known = asked.model.model_signature
    with (
        Server(uri, known, asked.model.metadata, **limits) as server,
        Recorder(path, known, asked.model.metadata, model=model, failed=failed) as recorder,
    ):
        if ready is not None:
            ready(server)
        for event in _events(server):
            if event.kind is EventKind.REQUEST:
                _ask(asked, event, recorder)
            else:
                recorder.event(event)
                with contextlib.suppress(Error):
                    _tell(asked, event)
        return server.statistics


def _warn(why: str) -> None:
    warnings.warn(f"{why}; what follows is not recorded", RuntimeWarning, stacklevel=2)


def _events(server: Server) -> Iterator[Event]:
    with contextlib.suppress(KeyboardInterrupt, Cancelled):
        while (event := server.next()) is not None:
            yield event


def _ask(asked: _Asked, event: Event, recorder: Recorder) -> None:
    inputs = event.inputs
    number = recorder.request(event.context, event.signature, inputs)
    try:
        outputs = asked.runner(event.context, event.signature).evaluate(**inputs)
    except Error as error:
        recorder.error(number, Status(error.code, error.message))
        with contextlib.suppress(Error):
            event.fail(error.message)
        return
    recorder.reply(number, outputs)
    with contextlib.suppress(Closed):
        event.reply(outputs)


def _tell(asked: _Asked, event: Event) -> None:
    runner = asked.runner(event.context, event.signature)
    if event.kind is EventKind.EPISODE_BEGIN:
        runner.begin_episode(event.context.episode, event.context.context)
    elif event.kind is EventKind.REWARD:
        runner.reward(event.reward)
    elif event.kind is EventKind.EPISODE_END:
        outcome = event.outcome
        runner.end_episode("" if outcome.ok else outcome.message or str(outcome.code.name))


# Replaying


class Replay:
    """Answers from a recording.

    The answer is the one recorded for the same inputs, bit for bit. If there are several: the one
    of the same agent, episode, context and step (the k-th request gets the k-th answer); else of
    the same agent, context and step; else of the same agent; else any.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.recording = Recording(path)
        self._answers: dict[tuple[Any, ...], list[Tensors | Status]] = {}
        self._asked: dict[tuple[Any, ...], int] = {}
        self._places: set[tuple[Any, ...]] = set()
        open_ones: dict[int, list[tuple[Any, ...]]] = {}
        for record in self.recording.records():
            fields = record.fields
            if record.kind == "request":
                who = (fields["agent"], fields["episode"], fields["context"], fields["step"])
                self._places.add(who[1:])
                open_ones[fields["number"]] = self._keys(who, record.tensors)
            elif record.kind in ("reply", "error"):
                answer = record.tensors if record.kind == "reply" else _status_of(record)
                for key in open_ones.pop(fields["number"], ()):
                    self._answers.setdefault(key, []).append(answer)

    @staticmethod
    def _keys(who: tuple[Any, ...], inputs: Mapping[str, Any]) -> list[tuple[Any, ...]]:
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
        what = digest.digest()
        agent, _, context, step = who
        return [(what, *who), (what, agent, context, step), (what, agent), (what,)]

    def __call__(self, observation: Mapping[str, Any], context: Context) -> Tensors:
        """The answer; raises PolicyFailed if there is none, or if it was an error."""
        who = (context.agent, context.episode, context.context, context.step)
        for precision, key in enumerate(self._keys(who, observation)):
            answers = self._answers.get(key)
            if answers is None:
                continue
            turn = 0
            if precision == 0:
                turn = self._asked.get(key, 0)
                self._asked[key] = turn + 1
            answer = answers[min(turn, len(answers) - 1)]
            if isinstance(answer, Status):
                raise PolicyFailed(answer.message)
            return answer
        place = f"step {context.step} of context '{context.context}', episode '{context.episode}'"
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
        for event in _events(server):
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
