# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A corpus: a folder with a manifest and the unoptimized bitcode that it lists.

    mlbridge.json            says that this is a corpus, and of which version
    manifest.parquet         a row for each module, in the order in which they were added
    shards/NNNNN-XXXXXXXX.parquet    their bitcode, about 1 MiB before compression (zstd) in each
    rows/NNNNN-XXXXXXXX.parquet      the rows of Parquet files from which a shard's modules are, and
                             licences; there is no such shard if they are used in place
    split.json               the part of each program, if it was split
    profiles/PROGRAM.parquet counts of its functions in workloads, if it was profiled
    incoming/                what builds have left that is not in the manifest yet
    wrappers/                compilers that record

A shard is complete before a manifest names it, and files only ever appear whole, so a reader needs
no lock. Writers hold the lock of the folder. They only delete files of their own, and nothing
through a link.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import quote

from ..claiming import claim, file_errors
from ..errors import Busy, InvalidArgument, InvalidModel, NotFound
from ..outputs import replace_whole
from ..process_runner import run_tool
from ..reading import open_file, read_json, shortly
from .arrow import arrow

MANIFEST, SPLIT, SHARDS = "manifest.parquet", "split.json", "shards"
FORMAT = {b"mlbridge.corpus": b"1"}
NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)
PROFILES, PROFILE_FORMAT = "profiles", {b"mlbridge.profile": b"1"}
HASH = re.compile(r"[0-9a-f]{40}")
SHARD = re.compile(r"\d{5,9}-[0-9a-f]{8}")
INCOMING, WRAPPERS, LOCK = "incoming", "wrappers", ".lock"
#: The folder of one addition.
ADDITION = re.compile(r"[0-9a-f]{12}")
_PARTIAL = re.compile(r"\.(split\.json|(manifest|\d{5,9}-[0-9a-f]{8})\.parquet)\.\d+-[0-9a-f]{8}")
#: Bytes of bitcode in a shard. Compressed together they take a fifth less than one by one.
SHARD_BYTES = 1 << 20
#: Rows of Parquet files, and where they are, for modules that came from such.
ROWS, ROWS_FORMAT, IN_PLACE = "rows", {b"mlbridge.rows": b"1"}, {b"mlbridge.in-place": b"1"}
#: Modules used in place whose rows are listed together.
PLACED = 1000
#: Seconds in which debug information is taken out of a module.
STRIPPING = 600.0
#: Seconds that a writer waits for others.
PATIENCE = 600.0


@dataclass(frozen=True)
class Module:
    """One translation unit as clang's front end left it."""

    hash: str  #: of its text, without file names, compiler version and debug information
    program: str
    version: str  #: of the program; may be empty
    source: str  #: relative to where the program was built
    language: str  #: "c" or "c++"; from Parquet files also "rust", "swift", "julia"
    flags: tuple[str, ...]  #: of the compilation, without file names
    target: str  #: the triple
    bytes: int  #: of bitcode
    oz_code_bytes: int | None  #: executable bytes of its object at -Oz, if they were measured
    shard: str
    row: int  #: in the shard

    @property
    def name(self) -> str:
        """Says for people which one it is; of several compilations of a file the flags differ."""
        return f"{self.program}/{self.source}"


class FunctionCounts(NamedTuple):
    """The counts of a function of a module in a workload.

    A function that was linked and never ran has zeros. Without a record its counts are None: what
    was run was linked without it, or LLVM had dropped it before it was counted.
    """

    module: str  #: the hash
    program: str
    source: str
    function: str  #: the linkage name
    workload: str
    #: True if several modules hold the function, of which a program gets one (C++ templates and
    #: inline functions): all of them have the same counts.
    shared: bool
    entry: int | None  #: how often it was called
    sum: int | None  #: of its counters
    max: int | None  #: its largest counter
    share: float | None  #: the sum, over that of all functions of the workload


class Origin(NamedTuple):
    """The row of a Parquet file from which a module is, and its licence, as the file has it."""

    module: str  #: the hash
    file: str  #: absolute
    group: int  #: the row group
    row: int  #: in the file
    offset: int  #: of the bitcode in the file; -1 if only decoding the row group finds it
    size: int  #: bytes of the row's bitcode
    digest: str  #: BLAKE2b of 20 bytes, in hexadecimal, of the row's bitcode
    license_expression: str
    license_source: str
    license_files: tuple[str, ...]
    package_source: str


COLUMNS = [field.name for field in fields(Module)]


class Corpus:
    """Modules of a corpus: all of them, or those of a part. Never changes; open it again to see
    what was added since. May be used by several threads."""

    def __init__(self, path: Path, modules: Sequence[Module], parts: Mapping[str, str]) -> None:
        self.path = path
        self.modules = list(modules)
        #: The part of each program that is in one.
        self.parts = dict(parts)
        self._last: tuple[str, dict[str, bytes]] = ("", {})
        self._placed: tuple[str, dict[str, Origin]] = ("", {})

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def _of(self, modules: Iterable[Module]) -> Corpus:
        return Corpus(self.path, list(modules), self.parts)

    def part(self, name: str) -> Corpus:
        """The modules of the programs in a part of the split. NotFound if there is no such part."""
        if name not in (known := set(self.parts.values())):
            there = ", ".join(sorted(known)) or "none; `mlbridge corpus split` makes them"
            raise NotFound(f"{self.path}: no part '{name}'; there are: {there}")
        return self._of(m for m in self.modules if self.parts.get(m.program) == name)

    def shard(self, worker: int, workers: int) -> Corpus:
        """The share of one of several workers, who together have each module once.

        Each reads shards of its own; only if there are fewer shards than workers do they share.
        """
        if not 0 <= worker < workers:
            raise InvalidArgument(f"worker {worker} of {workers}; expected 0 to {workers - 1}")
        shards = {name: i for i, name in enumerate(dict.fromkeys(m.shard for m in self.modules))}
        if len(shards) < workers:
            return self._of(self.modules[worker::workers])
        return self._of(m for m in self.modules if shards[m.shard] % workers == worker)

    def find(self, name: str) -> Module:
        """The module with a hash, the beginning of one, or a name. NotFound, InvalidArgument."""
        matching = [m for m in self.modules if name in (m.hash, m.name)]
        if not matching and len(name) >= 4:
            matching = [m for m in self.modules if m.hash.startswith(name)]
        if not matching:
            raise NotFound(f"{self.path}: no module '{name}'; expected a hash or PROGRAM/SOURCE")
        if len(matching) > 1:
            hashes = ", ".join(m.hash[:12] for m in matching[:5])
            raise InvalidArgument(f"{self.path}: '{name}' is {len(matching)} modules: {hashes}")
        return matching[0]

    def read(self, module: Module) -> bytes:
        """The bitcode of a module. InvalidModel if the shard is damaged, or if a Parquet file that
        is used in place has changed; NotFound if one is not there."""
        if (origin := self._in_place(module)) is not None:
            return self._whole(module, without_debug(read_origin(origin)))
        shard, there = self._last
        if shard != module.shard:
            there = _read_shard(self.path / SHARDS / f"{module.shard}.parquet")
            self._last = (module.shard, there)
        return self._whole(module, there.get(module.hash, b""))

    def _whole(self, module: Module, data: Any) -> bytes:
        if not isinstance(data, bytes) or len(data) != module.bytes:
            raise InvalidModel(
                f"{self.path}: {module.name}: shard {module.shard} has not its {module.bytes} bytes"
            )
        return data

    def _in_place(self, module: Module) -> Origin | None:
        shard, origins = self._placed
        if shard != module.shard:
            file = self.path / ROWS / f"{module.shard}.parquet"
            rows, in_place = _read_rows(file) if file.is_file() else ([], False)
            origins = {origin.module: origin for origin in rows if in_place}
            self._placed = (module.shard, origins)
        return origins.get(module.hash)

    def origins(self) -> Iterator[Origin]:
        """The rows of Parquet files from which modules are, with their licences. A module that was
        compiled here has none. InvalidModel if a file is damaged."""
        hashes = {module.hash for module in self.modules}
        for shard in dict.fromkeys(module.shard for module in self.modules):
            file = self.path / ROWS / f"{shard}.parquet"
            if file.is_file():
                yield from (row for row in _read_rows(file)[0] if row.module in hashes)

    def origins_of(self, modules: Iterable[Module]) -> Iterator[Origin]:
        """Like `origins`, of some modules."""
        return self._of(modules).origins()

    def licensed(self, *expressions: str) -> Corpus:
        """The modules from Parquet files with one of these licences, each an expression exactly as
        the file has it: "MIT", "Apache-2.0 OR MIT"."""
        wanted = {o.module for o in self.origins() if o.license_expression in expressions}
        return self._of(m for m in self.modules if m.hash in wanted)

    def extract(self, module: Module, folder: str | os.PathLike[str] | None = None) -> Path:
        """The bitcode as FOLDER/HASH.bc, written if it is not there.

        Without `folder` it is in a cache of this corpus, below $XDG_CACHE_HOME.
        """
        target = self.place(module, folder)
        if not (target.is_file() and target.stat().st_size == module.bytes):
            write(target, self.read(module))
        return target

    def place(self, module: Module, folder: str | os.PathLike[str] | None = None) -> Path:
        """The file in which `extract` puts a module, whether or not it is there."""
        if folder is None:
            key = hashlib.blake2b(os.fsencode(self.path.resolve()), digest_size=8).hexdigest()
            folder = cache() / "modules" / key
        return Path(folder).absolute() / f"{module.hash}.bc"

    def profiles(self) -> Iterator[FunctionCounts]:
        """The counts of the functions in these modules, of the programs that were profiled: a row
        for each function and workload. InvalidModel if a file is damaged."""
        hashes = {module.hash for module in self.modules}
        for program in dict.fromkeys(module.program for module in self.modules):
            yield from (row for row in read_profile(self.path, program) if row.module in hashes)

    def split(self, parts: Mapping[str, float], seed: int) -> Corpus:
        """Give each program that is in no part one, and keep that in the corpus.

        `parts` are shares. Programs take their turn in an order that `seed` decides; each joins the
        part that lacks most of its share. A program never changes its part, so a corpus that was
        split can only be split again with the same parts and seed, after programs were added.
        """
        total = sum(parts.values())
        if (
            not all(NAME.fullmatch(name) and share > 0 for name, share in parts.items())
            or not total
        ):
            raise InvalidArgument(f"parts are {dict(parts)}, expected names with positive shares")
        with lock(self.path):
            now = open(self.path)
            stated = _read_split(self.path)
            shares = {name: share / total for name, share in parts.items()}
            wanted = {"seed": seed, "parts": shares}
            before = {key: stated.get(key) for key in wanted}
            if stated and before != wanted:
                raise InvalidArgument(f"{self.path}: already split, with {json.dumps(before)}")
            assigned: dict[str, str] = dict(stated.get("programs", {}))
            counts = dict.fromkeys([*parts, *assigned.values()], 0)
            for part in assigned.values():
                counts[part] += 1
            waiting = {m.program for m in now} - set(assigned)
            for program in sorted(waiting, key=lambda p: (_random(seed, p), p)):
                size = len(assigned) + 1
                part = max(parts, key=lambda n: shares[n] * size - counts[n])
                assigned[program] = part
                counts[part] += 1
            _write_split(self.path, {**wanted, "programs": assigned})
        return open(self.path)


def _random(seed: int, program: str) -> bytes:
    return hashlib.blake2b(f"{seed} {program}".encode(), digest_size=8).digest()


def cache() -> Path:
    """The folder in which this package keeps files that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlbridge"


def home() -> Path:
    """The folder of corpora that are known by their name: $MLBRIDGE_CORPORA, or below
    $XDG_DATA_HOME."""
    if stated := os.environ.get("MLBRIDGE_CORPORA"):
        return Path(stated)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "mlbridge" / "corpora"


def place_of(name_or_path: str | os.PathLike[str]) -> Path:
    """The folder of a corpus, whether or not it is there. What has a slash is a path."""
    text = os.fspath(name_or_path)
    if not isinstance(name_or_path, str) or "/" in text:
        return Path(text)
    if not NAME.fullmatch(text):
        raise InvalidArgument(
            f"{text!r} is no name of a corpus: expected letters, digits and ._+-, or a path with /"
        )
    return home() / text


def is_corpus(path: Path) -> bool:
    """True for the folder of a corpus."""
    return (path / MANIFEST).is_file()


def open(name_or_path: str | os.PathLike[str]) -> Corpus:
    """A corpus by its name, or by its folder. NotFound, InvalidModel."""
    path = place_of(name_or_path)
    if not is_corpus(path):
        there = ", ".join(names()) or "none"
        raise NotFound(f"{path}: no corpus (no {MANIFEST}); corpora with names: {there}")
    return Corpus(path, read_manifest(path), _read_split(path).get("programs", {}))


def names() -> list[str]:
    """The names of corpora."""
    folder = home()
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if NAME.fullmatch(p.name) and is_corpus(p))


# Files


def _schema() -> Any:
    pa = arrow()
    types = {"flags": pa.list_(pa.string()), "row": pa.int32()}
    types |= dict.fromkeys(("bytes", "oz_code_bytes"), pa.int64())
    return pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS], metadata=FORMAT)


def read_table(path: Path) -> Any:
    """A Parquet file, whose checksums are compared."""
    pa = arrow()
    try:
        # A thread of Arrow's that still holds an object of Python's when Python ends aborts it.
        with open_file(path) as file, pa.OSFile(f"/proc/self/fd/{file.fileno()}") as source:
            return pa.parquet.ParquetFile(source, page_checksum_verification=True).read()
    except NotFound:
        raise NotFound(f"{path} is not there, or cannot be read") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InvalidModel(f"{path}: cannot be read: {shortly(error)}") from None


def read_manifest(path: Path) -> list[Module]:
    """The modules of the corpus in a folder; none if it has no manifest yet."""
    if not is_corpus(path):
        return []
    file = path / MANIFEST
    table = read_table(file)
    if (
        not table.schema.equals(_schema())
        or not (table.schema.metadata or {}).items() >= FORMAT.items()
    ):
        raise InvalidModel(f"{file}: not a manifest of version 1 with the columns {COLUMNS}")
    try:
        rows = table.to_pylist()
    except ValueError as error:  # what is no UTF-8
        raise InvalidModel(f"{file}: cannot be read: {shortly(error)}") from None
    modules = [Module(**{**row, "flags": tuple(row["flags"] or ())}) for row in rows]
    for m in modules:
        required = (
            *m.flags,
            *(value for name, value in asdict(m).items() if name != "oz_code_bytes"),
        )
        if None in required or not (HASH.fullmatch(m.hash) and SHARD.fullmatch(m.shard)):
            raise InvalidModel(f"{file}: not a module: {m}")
    if len({m.hash for m in modules}) != len(modules):
        raise InvalidModel(f"{file}: a hash is listed twice")
    return modules


def _read_shard(path: Path) -> dict[str, bytes]:
    table = read_table(path)
    if table.schema.names != ["hash", "bitcode"]:
        raise InvalidModel(f"{path}: not a shard, but a table of {table.schema.names}")
    try:
        return dict(zip(*(table[name].to_pylist() for name in table.schema.names), strict=True))
    except (TypeError, ValueError) as error:  # hashes that are no UTF-8, or lists
        raise InvalidModel(f"{path}: cannot be read: {shortly(error)}") from None


def _read_split(path: Path) -> dict[str, Any]:
    if not (path / SPLIT).exists():
        return {}
    split = read_json(path / SPLIT)
    try:
        programs = split["programs"]
        if all(isinstance(part, str) for part in programs.values()):
            return dict(split)
        raise ValueError("a part is no text")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidModel(f"{path / SPLIT}: not a split: {shortly(error)}") from None


def assign(path: Path, parts: Mapping[str, str]) -> None:
    """State the part of programs in the corpus in a folder. InvalidArgument if one has another."""
    with lock(path):
        split = _read_split(path)
        programs = split.get("programs", {})
        for program, part in parts.items():
            if not NAME.fullmatch(part) or programs.get(program, part) != part:
                raise InvalidArgument(
                    f"{path}: {program} is in {programs.get(program)!r}, and cannot be in {part!r}"
                )
        _write_split(path, {**split, "programs": {**programs, **parts}})


def _write_split(path: Path, split: Mapping[str, Any]) -> None:
    write(path / SPLIT, (json.dumps(split, indent=1, sort_keys=True) + "\n").encode())


def _profile_file(path: Path, program: str) -> Path:
    return path / PROFILES / f"{quote(program, safe=' ')}.parquet"


def _profile_schema() -> Any:
    pa = arrow()
    types = {name: pa.string() for name in FunctionCounts._fields}
    types |= dict.fromkeys(("entry", "sum", "max"), pa.int64())
    types |= {"shared": pa.bool_(), "share": pa.float64()}
    return pa.schema([*types.items()], metadata=PROFILE_FORMAT)


def read_profile(path: Path, program: str) -> Iterator[FunctionCounts]:
    """The counts of a program in the corpus in a folder; none if it was not profiled.
    InvalidModel."""
    file = _profile_file(path, program)
    if not file.is_file():
        return
    table = read_table(file)
    if (
        not table.schema.equals(_profile_schema())
        or not (table.schema.metadata or {}).items() >= PROFILE_FORMAT.items()
    ):
        raise InvalidModel(f"{file}: not a profile of version 1 with {FunctionCounts._fields}")
    try:
        columns = [table[name].to_pylist() for name in FunctionCounts._fields]
    except ValueError as error:  # what is no UTF-8
        raise InvalidModel(f"{file}: cannot be read: {shortly(error)}") from None
    yield from map(FunctionCounts._make, zip(*columns, strict=True))


def write_profile(path: Path, program: str, rows: Sequence[FunctionCounts]) -> None:
    """Put the counts of a program in the place of those that are there."""
    table = arrow().Table.from_pylist([row._asdict() for row in rows], schema=_profile_schema())
    with lock(path):
        write(_profile_file(path, program), parquet(table))


def parquet(table: Any) -> bytes:
    buffer = io.BytesIO()
    arrow().parquet.write_table(
        table,
        buffer,
        compression="zstd",
        compression_level=19,
        data_page_size=1 << 30,  # one page, so that modules are compressed together
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    return buffer.getvalue()


def _rows_schema(in_place: bool) -> Any:
    pa = arrow()
    types = {name: pa.string() for name in Origin._fields}
    types |= dict.fromkeys(("group", "row", "offset", "size"), pa.int64())
    types |= {"license_files": pa.list_(pa.string())}
    return pa.schema([*types.items()], metadata=ROWS_FORMAT | (IN_PLACE if in_place else {}))


def _read_rows(file: Path) -> tuple[list[Origin], bool]:
    """The rows that a file lists, and whether they are used in place. InvalidModel."""
    table = read_table(file)
    metadata = table.schema.metadata or {}
    if not table.schema.equals(_rows_schema(False)) or not metadata.items() >= ROWS_FORMAT.items():
        raise InvalidModel(f"{file}: not rows of version 1 with the columns {Origin._fields}")
    try:
        columns = [table[name].to_pylist() for name in Origin._fields]
        rows = [Origin._make(row) for row in zip(*columns, strict=True)]
        rows = [row._replace(license_files=tuple(row.license_files)) for row in rows]
    except (TypeError, ValueError) as error:  # nulls, what is no UTF-8
        raise InvalidModel(f"{file}: cannot be read: {shortly(error)}") from None
    if any(None in row for row in rows):
        raise InvalidModel(f"{file}: a row is not whole")
    return rows, metadata.items() >= IN_PLACE.items()


def read_origin(origin: Origin) -> bytes:
    """The bitcode in a row of a Parquet file, as it is there. NotFound, InvalidModel."""
    from . import parquet_files

    data = b""
    if origin.offset >= 0:
        with open_file(origin.file) as file:
            data = os.pread(file.fileno(), origin.size, origin.offset)
    else:
        data = parquet_files.read(origin.file, origin.group, [origin.row])[origin.row]
    if digest_of(data) != origin.digest:
        raise InvalidModel(
            f"{origin.file}: row {origin.row} of row group {origin.group} is not what it was when "
            "it was added; add the file again"
        )
    return data


def digest_of(content: bytes) -> str:
    """What `Origin.digest` says of a row's bitcode."""
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def without_debug(bitcode: bytes) -> bytes:
    """Bitcode as LLVM 22 writes it, without debug information. InvalidModel says what opt said."""
    with tempfile.TemporaryDirectory(prefix="mlbridge-corpus-") as folder:
        source, target = Path(folder) / "row.bc", Path(folder) / "module.bc"
        source.write_bytes(bitcode)
        strip(source, target)
        return target.read_bytes()


def strip(source: Path, target: Path, what: str = "") -> None:
    """Write a module as LLVM 22 does, without debug information. InvalidModel says what opt
    said."""
    command = ["opt-22", "-strip-debug", "-passes=", str(source), "-o", str(target)]
    try:
        run_tool(command, timeout=STRIPPING, what=what, error=InvalidModel)
    except NotFound:
        raise NotFound("opt-22 is not there (Debian: llvm-22)") from None


def digests(path: Path) -> set[bytes]:
    """The digests of all rows of Parquet files that the corpus in a folder has."""
    pa = arrow()
    found: set[bytes] = set()
    for file in (path / ROWS).glob("*.parquet"):
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            column = pa.parquet.read_table(file, columns=["digest"])["digest"]
            found.update(map(bytes.fromhex, column.to_pylist()))
    return found


def append(
    path: Path,
    found: Iterable[tuple[Module, Path]],
    origins: Mapping[str, Origin] | None = None,
    in_place: bool = False,
) -> int:
    """Add modules, whose `shard` and `row` do not matter, with their files of bitcode; returns how
    many were not there. The caller holds the lock.

    `origins` are those of modules from Parquet files, by hash. If they are used in place, their
    files are not read, and `bytes` must be right."""
    pa = arrow()
    modules = read_manifest(path)
    there, count = {m.hash for m in modules}, len(modules)
    shards = path / SHARDS
    _forget_left(path, {m.shard for m in modules})
    number = max((int(m.shard.partition("-")[0]) for m in modules), default=-1)
    waiting: list[tuple[Module, bytes]] = []
    held = 0

    def write_shard() -> None:
        nonlocal number, held
        number += 1
        name = f"{number:05}-{secrets.token_hex(4)}"
        rows = [origins[m.hash]._asdict() for m, _ in waiting if origins and m.hash in origins]
        if rows:
            table = pa.Table.from_pylist(rows, schema=_rows_schema(in_place))
            write(path / ROWS / f"{name}.parquet", parquet(table))
        if not in_place:
            columns = {"hash": [m.hash for m, _ in waiting]}
            bitcode = pa.array([data for _, data in waiting], pa.large_binary())
            write(shards / f"{name}.parquet", parquet(pa.table({**columns, "bitcode": bitcode})))
        for row, (m, data) in enumerate(waiting):
            size = m.bytes if in_place else len(data)
            modules.append(replace(m, shard=name, row=row, bytes=size))
        waiting.clear()
        held = 0

    for module, file in found:
        if module.hash not in there:
            there.add(module.hash)
            data = b"" if in_place else file.read_bytes()
            waiting.append((module, data))
            held += len(data)
            if held >= SHARD_BYTES or len(waiting) >= PLACED:
                write_shard()
    if waiting:
        write_shard()
    if len(modules) > count or not is_corpus(path):
        rows = [asdict(m) for m in modules]
        write(path / MANIFEST, parquet(pa.Table.from_pylist(rows, schema=_schema())))
    return len(modules) - count


def _forget_left(path: Path, listed: set[str]) -> None:
    """Delete files that a killed writer has left, and nothing else."""
    inside = [path / SHARDS, path / ROWS]
    folders = [path, *(folder for folder in inside if not folder.is_symlink())]
    for left in (file for folder in folders for file in folder.glob("*")):
        if left.is_symlink() or not left.is_file():
            continue
        is_shard = SHARD.fullmatch(left.stem) and left.parent != path and left.stem not in listed
        if _PARTIAL.fullmatch(left.name) or (is_shard and _has_bitcode(left)):
            left.unlink(missing_ok=True)


def _has_bitcode(file: Path) -> bool:
    """True for a shard, which only appears when it is whole."""
    pa = arrow()
    with contextlib.suppress(OSError, ValueError, pa.ArrowException):
        names = pa.parquet.read_schema(file).names
        return names in (["hash", "bitcode"], [*Origin._fields])
    return False


def write(path: Path, data: bytes, *, executable: bool = False) -> None:
    """Write a whole file, in a folder that is made if need be. LimitExceeded if the disk is
    full."""
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, data, executable=executable)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Keeps other writers away from a corpus, which is made if need be. Busy after PATIENCE;
    InvalidArgument, and nothing is changed, if there is something else."""
    claim(path, "corpus")
    for name in (INCOMING, WRAPPERS):
        if (path / name).is_symlink():
            raise InvalidArgument(f"{path / name} is a link, through which nothing is changed")
    with file_errors(path):
        file = own_file(path / LOCK)
    with file:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise Busy(f"{path}: others have been writing for {PATIENCE:g} s") from None
                time.sleep(0.05)
        yield


def own_file(path: Path) -> IO[bytes]:
    """Opens a file to be locked, which is made if need be, and is no link."""
    return os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "ab"
    )
