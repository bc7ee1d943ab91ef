# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads files that users name and that may be anything: never waits, and never without a limit."""

from __future__ import annotations

import json
import os
import stat
from typing import IO, Any

from .errors import InvalidModel, LimitExceeded, NotFound

#: Bytes of a file that is read as a whole.
MOST = 1 << 30
_SHOWN = 200


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file: neither a folder, nor a pipe, which would be waited for, nor a device,
    which may never end. NotFound, InvalidModel."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        why = error.strerror if isinstance(error, OSError) else error
        raise NotFound(f"{os.fspath(path)}: cannot be read: {why}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        raise InvalidModel(f"{os.fspath(path)} is {kind}, and no file")
    return os.fdopen(descriptor, "rb")


def read_file(path: str | os.PathLike[str], most: int = MOST) -> bytes:
    """The whole of a regular file. NotFound, InvalidModel, LimitExceeded."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size <= most:
                data = file.read(most + 1)
                if len(data) <= most:
                    return data
    except OSError as error:
        if isinstance(error, NotFound):
            raise
        raise NotFound(f"{os.fspath(path)}: cannot be read: {error.strerror}") from None
    raise LimitExceeded(f"{os.fspath(path)} has more than {most} bytes")


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a regular file in UTF-8. NotFound, InvalidModel, LimitExceeded."""
    try:
        return read_file(path).decode()
    except UnicodeDecodeError as error:
        raise InvalidModel(f"{os.fspath(path)}: not text in UTF-8: {shortly(error)}") from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """The value in a JSON file. NotFound, InvalidModel, LimitExceeded."""
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidModel(f"{os.fspath(path)}: not JSON: {shortly(error)}") from None


def parse_json(text: str | bytes) -> Any:
    """The value of JSON; ValueError for whatever is wrong, also for values nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def shortly(error: BaseException) -> str:
    """The text of an exception, on one line that isn't long."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, KeyError):
        text = f"{text} is missing"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
