# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors as exceptions. docs/errors.md lists causes and remedies."""

from __future__ import annotations

import enum
import functools
import logging
from typing import NamedTuple


class Code(enum.IntEnum):
    """The kind of an error; the numbers are those of the C++ library and of the wire."""

    OK = 0
    DEADLINE_EXCEEDED = 1
    UNAVAILABLE = 2
    BUSY = 3
    CLOSED = 4
    POLICY_FAILED = 5
    CANCELLED = 6
    INVALID_ARGUMENT = 7
    MISMATCH = 8
    INVALID_MODEL = 9
    NOT_FOUND = 10
    UNSUPPORTED = 11
    PROTOCOL = 12
    LIMIT_EXCEEDED = 13
    INTERNAL = 14


class NextStep(enum.Enum):
    """The remedy that a caller has for an error."""

    PROCEED = "proceed"
    RETRY = "retry"
    FALL_BACK = "fall back"
    FIX_CALL = "fix the call"
    FIX_MODEL = "fix the model"
    STOP = "stop"


@functools.cache
def _next_steps() -> dict[Code, NextStep]:
    from ._core import _codes  # late, since the parts in Python alone work without the extension

    return {Code(code): NextStep(step) for code, _, step in _codes()}


class Status(NamedTuple):
    """An outcome that is looked at, not raised."""

    code: Code
    message: str = ""

    @property
    def ok(self) -> bool:
        """True if there is no error."""
        return self.code is Code.OK

    @property
    def next_step(self) -> NextStep:
        """The remedy that the caller has."""
        return _next_steps()[self.code]

    def __str__(self) -> str:
        return "ok" if self.ok else f"{self.code.name.lower().replace('_', ' ')}: {self.message}"


_CLASSES: dict[Code, type[Error]] = {}


class Error(Exception):
    """Every error of MLBridge: a `code`, a `message` and the `next_step` for the caller."""

    code: Code = Code.INTERNAL

    def __init_subclass__(cls, code: Code | None = None) -> None:
        if code is not None:
            cls.code = code
            _CLASSES[code] = cls

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    @property
    def next_step(self) -> NextStep:
        """The remedy that the caller has."""
        return _next_steps()[self.code]

    def __str__(self) -> str:
        return self.message


class DeadlineExceeded(Error, TimeoutError, code=Code.DEADLINE_EXCEEDED):
    """The time given has passed; nothing is known about the other side."""


class Unavailable(Error, ConnectionError, code=Code.UNAVAILABLE):
    """Nobody there, or the Model's circuit breaker is open after earlier failures."""


class Busy(Error, ConnectionError, code=Code.BUSY):
    """The other side is there and refuses more work now."""


class Closed(Error, ConnectionError, code=Code.CLOSED):
    """The other side ended the connection."""


class PolicyFailed(Error, RuntimeError, code=Code.POLICY_FAILED):
    """The model ran and failed, or answered what the caller cannot use."""


class Cancelled(Error, RuntimeError, code=Code.CANCELLED):
    """The caller gave up, or the server is shutting down."""


class InvalidArgument(Error, ValueError, code=Code.INVALID_ARGUMENT):
    """The call is wrong: a name, type, count, URI or option."""


class Mismatch(Error, ValueError, code=Code.MISMATCH):
    """Caller and model disagree on the signature or on what the metadata says."""


class InvalidModel(Error, ValueError, code=Code.INVALID_MODEL):
    """The model file is damaged or not a model."""


class NotFound(Error, FileNotFoundError, code=Code.NOT_FOUND):
    """No such file, component, library or registered name."""


class Unsupported(Error, NotImplementedError, code=Code.UNSUPPORTED):
    """Understood, but not supported here."""


class ProtocolError(Error, ConnectionError, code=Code.PROTOCOL):
    """Bytes that break the protocol, or a peer of another version."""


class LimitExceeded(Error, ValueError, code=Code.LIMIT_EXCEEDED):
    """A length, count or size beyond the agreed limit."""


class InternalError(Error, RuntimeError, code=Code.INTERNAL):
    """A bug in MLBridge; please report it."""


def _error(code: int, message: str) -> Error:
    """The exception for a status of the C++ library."""
    return _CLASSES.get(Code(code), InternalError)(message)


def _status(code: int, message: str) -> Status:
    return Status(Code(code), message)


def _describe(source: str, error: BaseException) -> str:
    """Logs an exception of the user's code; its type and text on one line."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "(its text cannot be had)"
    logging.getLogger("mlbridge").error("%s raised %s", source, name, exc_info=error)
    if len(text) > 1000:
        text = text[:1000] + "…"
    return f"{name}: {text}" if text else name
