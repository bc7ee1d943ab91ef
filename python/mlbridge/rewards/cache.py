# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers kept by the content that they were measured on, in a file that many processes share."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import NotFound

_log = logging.getLogger("mlbridge")
_VALUE = struct.Struct("<d")
_SCHEMA = "CREATE TABLE IF NOT EXISTS measured (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
_PATIENCE = 10.0  # seconds that another process may be writing


class _Damaged(sqlite3.DatabaseError):
    """An entry that is not what was written."""


class Cache:
    """Measured numbers in an SQLite file, on a local file system.

    Never the reason that something fails: if the file can't be read or written (a full disk, no
    permission), numbers are measured again, with one warning in the log `mlbridge`. A damaged file
    is put aside as FILE.damaged-TIME, with a warning. Threads, processes and forks may share it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises NotFound if there is no folder for the file."""
        self.path = Path(path).absolute()
        if not self.path.parent.is_dir():
            raise NotFound(f"{self.path.parent} is not there; expected a folder for the cache")
        self._warned = False

    def get(self, kind: str, version: str, content: bytes, measure: Callable[[], float]) -> float:
        """The number kept for this content, or that of `measure`, which is then kept.

        `kind` is the measure, `version` that of its tool.
        """
        key = _digest(kind.encode(), version.encode(), content)
        value = self._attempt(lambda database: _read(database, key))
        if value is None:
            value = float(measure())
            entry = _VALUE.pack(value)
            entry += _digest(key, entry)
            self._attempt(lambda database: _write(database, key, entry))
        return value

    def _attempt(self, action: Callable[[sqlite3.Connection], float | None]) -> float | None:
        # A connection for each, as it survives neither fork() nor that the file is put aside.
        for again in (True, False):
            try:
                with self._opened() as database:
                    return action(database)
            except sqlite3.OperationalError as error:  # full, locked, not to be opened
                self._warn(error)
                return None
            except sqlite3.DatabaseError as error:
                if not again:
                    self._warn(error)
                    return None
                with contextlib.suppress(OSError):
                    self._put_aside(error)
        return None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as database:
            database.execute("PRAGMA synchronous = OFF")  # a power cut may cost the file, no kill
            database.execute(_SCHEMA)
            with database:
                yield database

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s: %s; going on without this cache", self.path, error)

    def _put_aside(self, error: Exception) -> None:
        with open(f"{self.path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:  # another process may have done it
                with self._opened() as database:
                    _check(database)
                return
            except sqlite3.OperationalError:
                return
            except sqlite3.DatabaseError:
                pass
            aside = f"{self.path}.damaged-{time.time_ns()}"
            self.path.rename(aside)
            # SQLite would bring its contents back into the new file.
            Path(f"{self.path}-journal").unlink(missing_ok=True)
            _log.warning("%s is damaged (%s); put aside as %s", self.path, error, aside)


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _value(key: bytes, entry: object) -> float:
    """The number of an entry; SQLite does not notice a wrong byte in one."""
    if not isinstance(entry, bytes) or entry[8:] != _digest(key, entry[:8]):
        raise _Damaged("an entry has another checksum")
    value: float = _VALUE.unpack_from(entry)[0]
    return value


def _read(database: sqlite3.Connection, key: bytes) -> float | None:
    row = database.execute("SELECT value FROM measured WHERE key = ?", (key,)).fetchone()
    return None if row is None else _value(key, row[0])


def _write(database: sqlite3.Connection, key: bytes, entry: bytes) -> None:
    database.execute("INSERT OR REPLACE INTO measured VALUES (?, ?)", (key, entry))


def _check(database: sqlite3.Connection) -> None:
    for key, entry in database.execute("SELECT key, value FROM measured"):
        _value(key, entry)
    if database.execute("PRAGMA integrity_check").fetchone() != ("ok",):
        raise _Damaged("SQLite's own check fails")
