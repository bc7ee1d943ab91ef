# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders that commands write in say of themselves what they are, so that no command deletes or
overwrites what somebody else has put there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from .errors import Error, InvalidArgument, InvalidModel, LimitExceeded, NotFound, Unsupported
from .outputs import replace_whole
from .reading import parse_json, read_file

MARKER = "mlbridge.json"
VERSION = 1
MOST = 1000  #: bytes of a marker
_PARTIAL = re.compile(re.escape(f".{MARKER}.") + r"\d+-[0-9a-f]{8}")


def kind_of(path: Path) -> str | None:
    """The kind that a folder says it is; None if it says nothing. InvalidModel, Unsupported."""
    marker = path / MARKER
    try:
        data = read_file(marker, MOST) if os.path.lexists(marker) else None
        if data is None:
            return None
        content = parse_json(data)
        kind, version = content["kind"], content["version"]
        if not isinstance(kind, str) or type(version) is not int:
            raise TypeError
    except (ValueError, LookupError, TypeError):
        raise InvalidModel(
            f"{marker}: does not say what the folder is; expected "
            f'{{"kind": "corpus", "version": {VERSION}}} or the like'
        ) from None
    if version > VERSION:
        raise Unsupported(
            f"{marker}: a {kind} of version {version}; this mlbridge knows {VERSION}: use a newer"
        )
    return kind


def claim(path: Path, kind: str) -> None:
    """Make a folder of this kind, unless it is there. Changes nothing if the folder has anything
    else: InvalidArgument.
    """
    with file_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        # Another process may make the same folder: its marker comes before all else.
        inside = {file.name for file in path.iterdir() if not _PARTIAL.fullmatch(file.name)}
    found = kind_of(path)
    if found == kind:
        return
    if found is not None:
        raise InvalidArgument(f"{path} is a {found}, and no {kind}; choose another folder")
    if inside:
        some = ", ".join(sorted(inside)[:3]) + (", …" if len(inside) > 3 else "")
        raise InvalidArgument(
            f"{path} is no {kind}, and has other files in it ({some}); choose a new or empty folder"
        )
    text = json.dumps({"kind": kind, "version": VERSION}) + "\n"
    with file_errors(path):
        replace_whole(path / MARKER, text.encode())


@contextlib.contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Errors of the file system as this package's."""
    try:
        yield
    except Error:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise LimitExceeded(f"{path}: cannot be written: {error.strerror}") from None
        raise NotFound(f"{path}: cannot be written: {error.strerror or error}") from None
