# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds the rows of Parquet files in the format of ComPile to a corpus (parquet_files.py)."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ..errors import Error, InvalidModel
from ..process_runner import run
from ..reading import shortly
from .adding import Added, Incoming, level_of, module_from_text, text_of
from .parquet_files import Damage, Row, Selection, stream
from .store import Module, Origin, append, digest_of, digests, lock, strip

#: How bitcode begins, by itself and in a wrapper (https://llvm.org/docs/BitCodeFormat.html).
MAGICS = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
#: Rows that wait for the compiler together.
TOGETHER_ROWS, TOGETHER_BYTES = 64, 32 << 20
#: Modules are put into the manifest when writing it is a small part of the time, or so many wait.
SHARE, WAITING_ROWS, WAITING_BYTES = 0.05, 50_000, 1 << 30
_PRODUCER = re.compile(r"record string = '([^']*)'")
_TRIPLE = re.compile(rb'^target triple = "([^"\n]*)"', re.MULTILINE)
_GROUPS = re.compile(rb"^attributes #\d+ = \{([^\n]*)\}", re.MULTILINE)


class _Unusable(Exception):
    """A row without a module that can be used: the reason, which is counted, and more about it."""

    def __init__(self, reason: str, more: str = "", wanted: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.more, self.wanted = reason, more, wanted


class _Ready(NamedTuple):
    module: Module
    origin: Origin
    file: Path


def parquet(
    corpus: Path,
    files: Sequence[str | os.PathLike[str]],
    selection: Selection | None = None,
    *,
    targets: Sequence[str] = (),
    in_place: bool = False,
    jobs: int = 2,
    measure: bool = False,
    progress: bool = False,
) -> Added:
    """Add the wanted rows of Parquet files, whose modules are copied, or used `in_place`: the
    corpus then only has where they are. `targets` are beginnings of triples.

    A row is read by LLVM 22, which upgrades older bitcode and loses debug information. One that
    cannot be used is counted by the reason, and is a problem; the others are added. The part of a
    file that cannot be read is a problem too. A program is a package source. Rows that were added
    before are known by their bytes, so that an addition that was ended goes on quickly.
    """
    added, damaged = Added(), list[Damage]()
    paths = [str(Path(file).absolute()) for file in files]
    # What is no such file is said before hours of work.
    for path in paths:
        next(stream([path], Selection(limit=1), damaged=[]), None)
    with Incoming(corpus, "parquet") as incoming, ThreadPoolExecutor(jobs) as pool:
        there, pending = digests(incoming.corpus), list[_Ready]()
        last, cost = time.monotonic(), 0.0

        def commit() -> None:
            nonlocal last, cost
            start = time.monotonic()
            origins = {ready.module.hash: ready.origin for ready in reversed(pending)}
            with lock(incoming.corpus):
                pairs = [(ready.module, ready.file) for ready in pending]
                new = append(incoming.corpus, pairs, origins, in_place)
            added.new += new
            added.known += len(pending) - new
            for ready in pending:
                added.levels[f"O{level_of(ready.module.flags)}"] += 1
                ready.file.unlink(missing_ok=True)
            pending.clear()
            last, cost = time.monotonic(), time.monotonic() - start

        def one(numbered: tuple[int, Row]) -> _Ready | _Unusable | None:
            return _ready(*numbered, incoming.folder, targets, measure, in_place, there)

        rows = stream(paths, selection, left_out=added.rows, damaged=damaged, locate=in_place)
        for together in _together(_bar(enumerate(rows), progress)):
            for (_, row), done in zip(together, pool.map(one, together), strict=True):
                if done is None:
                    added.known += 1
                elif isinstance(done, _Unusable):
                    added.rows[done.reason] += 1
                    if not done.wanted:
                        continue
                    where = f"{row.file}: row {row.number} (row group {row.group})"
                    added.problems.append(f"{where}: {done.reason}{done.more}")
                elif done.module.hash:
                    pending.append(done)
                    there.add(bytes.fromhex(done.origin.digest))
                else:
                    added.empty += 1
                    done.file.unlink(missing_ok=True)
            spent = time.monotonic() - last
            size = sum(ready.module.bytes for ready in pending)
            if pending and (
                cost < SHARE * spent or len(pending) > WAITING_ROWS or size > WAITING_BYTES
            ):
                commit()
        commit()
        left = incoming.finish(jobs=jobs, measure=measure)  # of additions that were killed
        added.new += left.new
    added.problems += [damage.text for damage in damaged]
    return added


def _bar(rows: Iterable[tuple[int, Row]], progress: bool) -> Iterable[tuple[int, Row]]:
    try:
        from tqdm import tqdm
    except ImportError:
        return rows
    hidden = None if progress else True
    bar: Iterable[tuple[int, Row]] = tqdm(rows, unit="row", disable=hidden, leave=False)
    return bar


def _together(rows: Iterable[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    """Some rows at a time, since a pool takes all that it gets at once."""
    together: list[tuple[int, Row]] = []
    size = 0
    for row in rows:
        together.append(row)
        size += len(row[1].content)
        if len(together) == TOGETHER_ROWS or size >= TOGETHER_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


def _ready(
    number: int,
    row: Row,
    folder: Path,
    targets: Sequence[str],
    measure: bool,
    in_place: bool,
    there: set[bytes],
) -> _Ready | _Unusable | None:
    """The module of a row; None if it was added before."""
    digest = digest_of(row.content)
    if bytes.fromhex(digest) in there:
        return None
    raw, bitcode = folder / f"{number:08}.part", folder / f"{number:08}.bc"
    try:
        if not row.content:
            raise _Unusable("no content")
        if not row.content.startswith(MAGICS):
            begins = row.content[:4].hex(" ")
            raise _Unusable(
                "no bitcode", f": it begins with {begins}, expected {MAGICS[0].hex(' ')}"
            )
        raw.write_bytes(row.content)
        module = _module(row, raw, bitcode, targets, measure)
        licence = (row.license_expression, row.license_source, row.license_files)
        origin = Origin(
            module.hash, row.file, row.group, row.number, row.offset, len(row.content), digest,
            *licence, row.package_source,
        )  # fmt: skip
        if in_place:
            bitcode.unlink(missing_ok=True)
        return _Ready(module, origin, bitcode)
    except _Unusable as error:
        bitcode.unlink(missing_ok=True)
        return error
    finally:
        raw.unlink(missing_ok=True)


def _producer(bitcode: Path) -> str:
    """Who wrote bitcode, "LLVM23.1.0", as its first block says; empty if that cannot be read."""
    command = ["llvm-bcanalyzer-22", "--dump", str(bitcode)]
    with contextlib.suppress(Error):
        found = _PRODUCER.search(run(command, timeout=60.0, keep=1 << 12).stdout.text)
        return found[1] if found else ""
    return ""


def _module(row: Row, raw: Path, bitcode: Path, targets: Sequence[str], measure: bool) -> Module:
    try:
        strip(raw, bitcode)
        text = text_of(bitcode)
    except InvalidModel as error:
        producer = _producer(raw)
        by = f", written by {producer}" if producer else ""
        said = shortly(error).rpartition("error: ")[2]
        raise _Unusable(f"LLVM 22 cannot read it{by}", f": {said}") from None
    found = _TRIPLE.search(text)
    target = found[1].decode(errors="replace") if found else ""
    if targets and not target.startswith(tuple(targets)):
        raise _Unusable(f"another target: {target or 'none'}", wanted=False)
    groups = [group[1] for group in _GROUPS.finditer(text)]
    if any(b" optnone " in group for group in groups):
        raise _Unusable("compiled at -O0, so that passes skip its functions")
    level = "-O2"
    for mark, flag in ((b" optsize ", "-Os"), (b" minsize ", "-Oz")):
        if any(mark in group for group in groups):
            level = flag
    entry = {
        "program": row.package_source if row.package_source.isprintable() else "",
        "version": "",
        "source": f"{Path(row.file).name}:{row.number}",
        "language": row.language,
        "flags": [level],
        "target": target,
    }
    entry["program"] = entry["program"] or Path(row.file).name
    try:
        return module_from_text(text, bitcode, entry, measure)
    except Error as error:
        raise _Unusable("it does not compile", f": {shortly(error)}") from None
