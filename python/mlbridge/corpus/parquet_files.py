# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads modules from Parquet files in the format of ComPile, row by row.

ComPile (LLVM-ML/ComPile on Hugging Face) is bitcode of C, C++, Rust, Swift and Julia. A row is a
module; its columns are

    content             binary           LLVM bitcode, before optimization
    license_expression  string           SPDX, "MIT" or "Apache-2.0 OR MIT"
    license_source      string           who says so: "spack", "manual", …
    license_files       list<string>     files with the licence's text
    package_source      string           "spack:llvm", or the address of an archive
    language            string           "c", "cpp", "rust", "swift", "julia"

Sources: the data set's viewer, https://huggingface.co/datasets/llvm-ml/ComPile/viewer, and what
writes it, llvm_ir_dataset_utils/tools/process_to_parquet.py in
https://github.com/llvm-ml/llvm-ir-dataset-utils: uncompressed files of about 500 MB, written at
once, so that most have a single row group. The memory that reading takes does not depend on the
size of a file or row group: a column is read through a buffer, a few rows at a time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InvalidArgument, InvalidModel, NotFound
from ..reading import open_file, shortly
from .arrow import arrow

CONTENT = "content"
#: Other columns, in the order in which `Row` has them.
LICENSES = ("license_expression", "license_source", "license_files", "package_source", "language")
#: How languages are called here, by other spellings.
SPELLINGS = {"cpp": "c++", "cxx": "c++", "cc": "c++", "rs": "rust", "jl": "julia"}
LANGUAGES = ("c", "c++", "julia", "rust", "swift")
#: Bytes of content that are read at once, unless one row has more.
BATCH_BYTES = 4 << 20
BATCH_ROWS = 256
#: Bytes of each column's buffer.
_BUFFER = 1 << 20
#: Bytes in which the next value is looked for, and how many of its own must be there.
_AHEAD, _HEAD = 4 << 20, 256


class Row(NamedTuple):
    """A module in a Parquet file. Text is empty, and a list is, where the file has a null."""

    file: str
    group: int  #: the row group
    number: int  #: in the file, from 0
    content: bytes  #: the bitcode; empty if there is none
    license_expression: str
    license_source: str
    license_files: tuple[str, ...]
    package_source: str
    language: str  #: as `language` spells it
    offset: int  #: of the content in the file, if asked for and found; else -1


def language(text: str) -> str:
    """How a language is called here: "cpp", "C++" and "cxx" are "c++"."""
    text = text.strip().lower()
    return SPELLINGS.get(text, text)


@dataclass(frozen=True)
class Selection:
    """Says which rows are wanted."""

    languages: tuple[str, ...] = ()  #: in any spelling; all, if there is none
    smallest: int = 0  #: bytes of bitcode
    largest: int | None = None  #: bytes of bitcode
    licenses: tuple[str, ...] = ()  #: expressions, each exactly as the file has it; all, if none
    limit: int | None = None  #: rows, of those that are wanted by the rest
    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        unknown = [name for name in self.languages if language(name) not in LANGUAGES]
        if unknown:
            raise InvalidArgument(
                f"the language {unknown[0]!r} is none of {', '.join(LANGUAGES)} (c++ is also cpp)"
            )
        if self.smallest < 0 or (self.largest is not None and self.largest < self.smallest):
            raise InvalidArgument(
                f"expected sizes from 0, in order, got {self.smallest} to {self.largest} bytes"
            )
        if self.limit is not None and self.limit < 1:
            raise InvalidArgument(f"the limit is {self.limit}, expected 1 or more")
        if not 0 <= self.worker < self.workers:
            raise InvalidArgument(
                f"worker {self.worker} of {self.workers}; expected 0 to {self.workers - 1}"
            )


class Damage(NamedTuple):
    """A part of a file that cannot be read. What is in front of it in its row group was read, and
    so are other row groups."""

    file: str
    group: int | None  #: None if it is the whole file
    text: str  #: says where, and why


def stream(
    files: Iterable[str | os.PathLike[str]],
    selection: Selection | None = None,
    *,
    left_out: Counter[str] | None = None,
    damaged: list[Damage] | None = None,
    locate: bool = False,
) -> Iterator[Row]:
    """The wanted rows of Parquet files, in their order.

    The rows of the workers are disjoint, are together all, and are always the same: a worker has
    row groups of its own, or, if there are fewer than workers, every n-th row. `limit` is for each
    worker. `left_out` counts the rows that are not wanted, by the reason. With `damaged`, what
    cannot be read is noted there and the rest is read; without, it raises InvalidModel. `locate`
    also finds where in the file the bitcode is, if that is neither compressed nor repeated. Raises
    NotFound (a file), InvalidArgument (its columns are others), InvalidModel (damage).
    """
    wanted = selection or Selection()
    names = {language(name) for name in wanted.languages}
    counts: Counter[str] = Counter() if left_out is None else left_out
    paths = [os.fspath(file) for file in files]
    groups: list[tuple[str, int, int]] = []  # file, row group, number of its first row
    for path in paths:
        try:
            first = 0
            with _opened(path) as opened:
                for group in range(opened.metadata.num_row_groups):
                    groups.append((path, group, first))
                    first += opened.metadata.row_group(group).num_rows
        except InvalidModel as error:
            if damaged is None:
                raise
            damaged.append(Damage(path, None, str(error)))
    by_group = len(groups) >= wanted.workers
    taken = 0
    for turn, (path, group, first) in enumerate(groups):
        if by_group and turn % wanted.workers != wanted.worker:
            continue
        try:
            for row in _rows(path, group, first, names, wanted, by_group, counts, locate):
                yield row
                taken += 1
                if taken == wanted.limit:
                    return
        except InvalidModel as error:
            if damaged is None:
                raise
            damaged.append(Damage(path, group, str(error)))


def read(path: str, group: int, numbers: Sequence[int]) -> dict[int, bytes]:
    """The content of some rows of a row group, by their numbers in the file. All that is in front
    of the last one is decoded, but not kept. NotFound, InvalidModel."""
    missing, found = set(numbers), {}
    with _opened(path) as opened:
        if group >= opened.metadata.num_row_groups:
            raise InvalidModel(f"{path}: row group {group} is not there")
        first = sum(opened.metadata.row_group(i).num_rows for i in range(group))
        for start, batch in _batches(opened, path, group, first, [CONTENT]):
            for number in sorted(missing.intersection(range(start, start + batch.num_rows))):
                found[number] = _bytes(batch.column(0)[number - start])
                missing.discard(number)
            if not missing:
                break
    if missing:
        raise InvalidModel(f"{path}: row {min(missing)} is not in row group {group}")
    return found


class _Locator:
    """Finds the rows of a row group in the bytes of their file, in their order.

    Parquet writes values without compression one after another, each after its length in four
    bytes (little-endian), with the headers of pages in between
    (https://parquet.apache.org/docs/file-format/data-pages/encodings/). What is found is compared.
    """

    def __init__(self, opened: Any, path: str, group: int) -> None:
        chunk = _content_chunk(opened, group)
        self._file = open_file(path) if chunk.compression == "UNCOMPRESSED" else None
        self._next = chunk.dictionary_page_offset or chunk.data_page_offset

    def find(self, content: bytes) -> int:
        if self._file is None or not content:
            return -1
        value = len(content).to_bytes(4, "little") + content
        at = self._next
        if os.pread(self._file.fileno(), len(value), at) != value:
            ahead = os.pread(self._file.fileno(), _AHEAD, self._next)
            index = ahead.find(value[:_HEAD])
            at += index
            if index < 0 or os.pread(self._file.fileno(), len(value), at) != value:
                return -1
        self._next = at + len(value)
        return int(at + 4)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _rows(
    path: str,
    group: int,
    first: int,
    names: set[str],
    wanted: Selection,
    by_group: bool,
    left_out: Counter[str],
    locate: bool,
) -> Iterator[Row]:
    with _opened(path) as opened, ExitStack() as stack:
        if (names or wanted.licenses) and not _any(opened, path, group, names, wanted.licenses):
            left_out["another language or licence"] += opened.metadata.row_group(group).num_rows
            return
        locator = None
        if locate:
            locator = stack.enter_context(closing(_Locator(opened, path, group)))
        for start, batch in _batches(opened, path, group, first, [CONTENT, *LICENSES]):
            content = batch.column(CONTENT)
            columns = [batch.column(name).to_pylist() for name in LICENSES]
            for index, values in enumerate(zip(*columns, strict=True)):
                number = start + index
                at = -1 if locator is None else locator.find(_bytes(content[index]))
                if not by_group and number % wanted.workers != wanted.worker:
                    continue
                expression, source, files, package, spoken = values
                spoken = language(spoken or "")
                buffer = content[index].as_buffer()
                size = 0 if buffer is None else buffer.size
                if names and spoken not in names:
                    left_out["another language"] += 1
                elif wanted.licenses and expression not in wanted.licenses:
                    left_out["another licence"] += 1
                elif size < wanted.smallest:
                    left_out[f"less than {wanted.smallest} bytes"] += 1
                elif wanted.largest is not None and size > wanted.largest:
                    left_out[f"more than {wanted.largest} bytes"] += 1
                else:
                    data = b"" if buffer is None else buffer.to_pybytes()
                    licence = (expression or "", source or "", tuple(files or ()), package or "")
                    yield Row(path, group, number, data, *licence, spoken, at)


def _bytes(value: Any) -> bytes:
    buffer = value.as_buffer()
    return b"" if buffer is None else buffer.to_pybytes()


def _any(opened: Any, path: str, group: int, names: set[str], licenses: tuple[str, ...]) -> bool:
    """False if no row can be wanted, for which the bitcode need not be read."""
    with _damage(path, group):
        table = opened.read_row_group(
            group, columns=["language", "license_expression"], use_threads=False
        )
        spoken = {language(name or "") for name in table["language"].unique().to_pylist()}
        stated = set(table["license_expression"].unique().to_pylist())
    return bool(not names or names & spoken) and bool(not licenses or stated & set(licenses))


def _batches(
    opened: Any, path: str, group: int, first: int, columns: list[str]
) -> Iterator[tuple[int, Any]]:
    """Some rows at a time of a row group, each with the number of the first of them."""
    size = _content_chunk(opened, group).total_uncompressed_size
    each = size // max(1, opened.metadata.row_group(group).num_rows)
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, each)))
    batches = opened.iter_batches(
        batch_size=rows, row_groups=[group], columns=columns, use_threads=False
    )
    start = first
    while True:
        with _damage(path, group, start):
            batch = next(batches, None)
        if batch is None:
            return
        yield start, batch
        start += batch.num_rows


def _content_chunk(opened: Any, group: int) -> Any:
    row_group = opened.metadata.row_group(group)
    chunks = map(row_group.column, range(row_group.num_columns))
    return next(chunk for chunk in chunks if chunk.path_in_schema == CONTENT)


@contextmanager
def _damage(path: str, group: int, row: int | None = None) -> Iterator[None]:
    pa = arrow()
    try:
        yield
    except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
        where = f"row group {group}" + ("" if row is None else f", from row {row} on")
        raise InvalidModel(f"{path}: {where}: cannot be read: {shortly(error)}") from None


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """A Parquet file with the columns of ComPile. NotFound, InvalidModel, InvalidArgument."""
    pa = arrow()
    try:
        file = open_file(path)
    except OSError as error:
        if isinstance(error, NotFound):
            raise
        raise NotFound(f"{path}: cannot be read: {error.strerror}") from None
    with file, pa.OSFile(f"/proc/self/fd/{file.fileno()}") as source:
        try:
            # Without pre_buffer=False the whole column of a row group would be read at once.
            opened = pa.parquet.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False)
            schema = opened.schema_arrow
        except (OSError, ValueError, pa.ArrowException) as error:
            size = os.fstat(file.fileno()).st_size
            raise InvalidModel(
                f"{path}: no whole Parquet file, of which the end says where everything is; it has "
                f"{size} bytes: {shortly(error)}"
            ) from None
        _check(path, schema)
        yield opened


def _check(path: str, schema: Any) -> None:
    types = arrow().types

    def text(kind: Any) -> bool:
        if types.is_dictionary(kind):
            kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))

    def texts(kind: Any) -> bool:
        is_list = types.is_list(kind) or types.is_large_list(kind)
        return bool(types.is_null(kind) or (is_list and text(kind.value_type)))

    def binary(kind: Any) -> bool:
        return bool(types.is_binary(kind) or types.is_large_binary(kind))

    expected = dict.fromkeys(LICENSES, ("string", text))
    expected |= {CONTENT: ("binary", binary), "license_files": ("list of strings", texts)}
    for name in (CONTENT, *LICENSES):
        kind, fits = expected[name]
        if name not in schema.names:
            came = ", ".join(schema.names) or "none"
            raise InvalidArgument(
                f"{path}: the column '{name}' ({kind}) is missing; there are: {came}"
            )
        if not fits(schema.field(name).type):
            raise InvalidArgument(
                f"{path}: the column '{name}' is {schema.field(name).type}, expected {kind}"
            )
