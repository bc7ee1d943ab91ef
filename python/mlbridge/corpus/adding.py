# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds modules to a corpus: from a build, compile_commands.json, or bitcode in objects."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..elf import file_executable_bytes, sections
from ..errors import DeadlineExceeded, Error, InvalidArgument, InvalidModel, NotFound
from . import record as recorder
from .store import Module, append, lock, write, writing

CLANG, CLANGXX = "clang-22", "clang++-22"
COMPILER = re.compile(r"clang(\+\+)?(-\d+)?")
#: What a build may call its compiler that nobody told it.
OTHERS = {"cc": "", "gcc": "", "c++": "++", "g++": "++"}
WRAPPER = """\
#!/bin/sh
# Written by `mlbridge corpus add`; while it runs, this compiler keeps the bitcode in a corpus.
if [ -n "$MLBRIDGE_CORPUS_INCOMING" ]; then
  {python} -I -S {recorder} "$MLBRIDGE_CORPUS_INCOMING" {real} "$@" </dev/null >/dev/null 2>&1
fi
exec {real} "$@"
"""
_NAMES = re.compile(rb"\A; ModuleID = [^\n]*\nsource_filename = [^\n]*\n")
_COMPILER_VERSION = re.compile(rb'^!\d+ = !\{!"[^"\n]*clang version [^"\n]*"\}\n', re.MULTILINE)
_CODE = re.compile(rb"^define ", re.MULTILINE)


@dataclass
class Added:
    """What an addition did."""

    new: int = 0  #: modules
    known: int = 0  #: modules that were there already, perhaps of another program
    empty: int = 0  #: modules without a function, which are left out
    problems: list[str] = field(default_factory=list)  #: one line for each that is not recorded

    @property
    def seen(self) -> int:
        """All compilations that were seen."""
        return self.new + self.known + self.empty + len(self.problems)


def compile_bitcode(
    bitcode: Path, target: Path, flags: Sequence[str] = (), clang: str = CLANG
) -> int:
    """Compile a module at -Oz into the object `target`; its executable bytes.

    InvalidModel says what the compiler said.
    """
    command = [clang, "-Oz", "-x", "ir", "-c", str(bitcode), "-o", str(target), *flags]
    _run([*command, "-Wno-override-module"], f"{bitcode}: the compiler")
    try:
        return file_executable_bytes(target)
    except (OSError, InvalidArgument) as error:
        raise InvalidModel(f"{bitcode}: the compiler made no object: {error}") from None


def _run(command: Sequence[str], what: str, limit: float = recorder.LIMIT) -> bytes:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False
        )
    except FileNotFoundError:
        raise NotFound(f"{command[0]} is not there (Debian: clang-22, llvm-22)") from None
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(f"{what} took longer than {limit:g} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise InvalidModel(f"{what} ended with {done.returncode}: {said[-2000:]}")
    return done.stdout


class Incoming:
    """A folder in the corpus for what one addition finds, until `finish` puts it there.

    What a killed addition has left is put there by the next one.
    """

    def __init__(self, corpus: Path, program: str, version: str = "", root: str = "") -> None:
        if not program or not program.isprintable():
            raise InvalidArgument(f"the program is called {program!r}; expected a printable name")
        self.corpus = corpus.absolute()
        self.folder = self.corpus / "incoming" / secrets.token_hex(6)
        described = {"program": program, "version": version, "root": root or str(Path.cwd())}
        with lock(self.corpus):
            # Its own lock says that somebody is using the folder.
            write(self.folder / "program.json", json.dumps(described).encode())
            with writing(self.folder):
                self._held = (self.folder / "lock").open("ab")
            fcntl.flock(self._held, fcntl.LOCK_EX)

    def __enter__(self) -> Incoming:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def finish(self, jobs: int = 2, measure: bool = False, progress: bool = False) -> Added:
        """Put what was found into the manifest, with its -Oz code bytes if `measure`."""
        added = Added()
        with writing(self.corpus):
            found = list(_items(self.folder, added))
            with lock(self.corpus):  # under which others make theirs
                left = [(f, _free(f)) for f in self.folder.parent.iterdir() if f != self.folder]
            for folder, free in left:
                if free is not None:
                    with free:
                        self._take([*_items(folder, added)], added, jobs, measure, progress)
                        shutil.rmtree(folder)
            self._take(found, added, jobs, measure, progress)
            shutil.rmtree(self.folder)
        return added

    def _take(
        self,
        found: Sequence[tuple[Path, dict[str, Any]]],
        added: Added,
        jobs: int,
        measure: bool,
        progress: bool,
    ) -> None:
        from tqdm import tqdm

        def described(item: tuple[Path, dict[str, Any]]) -> tuple[Module, Path] | str:
            try:
                return module_of(*item, measure), item[0]
            except Error as error:
                return f"{item[1]['source']}: {error}"

        with ThreadPoolExecutor(jobs) as pool:
            work = pool.map(described, found)
            hidden = None if progress else True
            made = list(tqdm(work, total=len(found), unit="module", disable=hidden, leave=False))
        added.problems += [one for one in made if isinstance(one, str)]
        pairs = [one for one in made if not isinstance(one, str)]
        with_code = [pair for pair in pairs if pair[0].hash]
        with lock(self.corpus):
            new = append(self.corpus, with_code)
        added.new += new
        added.known += len(with_code) - new
        added.empty += len(pairs) - len(with_code)


def _free(folder: Path) -> Any:
    """The lock of a folder that nobody uses any more, else None."""
    with contextlib.suppress(OSError):
        file = (folder / "lock").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            file.close()
    return None


def _items(folder: Path, added: Added) -> Iterator[tuple[Path, dict[str, Any]]]:
    """What a build has left in a folder, in the order in which it was compiled."""
    if not (folder / "program.json").is_file():
        return  # it was killed before it began
    try:
        program = json.loads((folder / "program.json").read_text())
        with contextlib.suppress(FileNotFoundError):
            added.problems += (folder / "problems").read_text(errors="replace").splitlines()
        for path in sorted(folder.glob("*.json")):
            bitcode = path.with_suffix(".bc")
            if bitcode.is_file():
                yield bitcode, {**program, **json.loads(path.read_text())}
    except ValueError as error:
        added.problems.append(f"{folder}: cannot be read: {error}")


def module_of(bitcode: Path, entry: Mapping[str, Any], measure: bool) -> Module:
    """Describes a module; without a function its hash is empty."""
    text = _run(["llvm-dis-22", "-o", "-", str(bitcode)], "llvm-dis-22")
    hashed = hashlib.blake2b(_COMPILER_VERSION.sub(b"", _NAMES.sub(b"", text, 1)), digest_size=20)
    size = None
    if measure:
        with tempfile.TemporaryDirectory(prefix="mlbridge-corpus-") as folder:
            size = compile_bitcode(bitcode, Path(folder) / "module.o")
    has_code = _CODE.search(text) is not None and size != 0

    def named(value: str) -> str:  # what a file name has may not be UTF-8
        return value.encode(errors="replace").decode()

    return Module(
        hash=hashed.hexdigest() if has_code else "",
        program=entry["program"],
        version=named(entry["version"]),
        source=named(entry["source"]),
        language=entry["language"],
        flags=tuple(map(named, entry["flags"])),
        target=entry["target"],
        bytes=bitcode.stat().st_size,
        oz_code_bytes=size,
        shard="",
        row=0,
    )


# A build


def wrappers(folder: Path, all_names: bool = False) -> dict[str, str]:
    """Write compilers into `folder` that record while MLBRIDGE_CORPUS_INCOMING is set; returns what
    is to be set to use them. They stay, since build folders keep the path of their compiler.

    With `all_names` also those that stand for any compiler: cc, gcc, c++, g++.
    """
    search = [p for p in os.environ.get("PATH", os.defpath).split(os.pathsep) if p != str(folder)]
    names = {CLANG, CLANGXX}
    for place in map(Path, search):
        with contextlib.suppress(OSError):
            names |= {entry.name for entry in place.iterdir() if COMPILER.fullmatch(entry.name)}
    real = {name: shutil.which(name, path=os.pathsep.join(search)) for name in names}
    c, cxx = real[CLANG], real[CLANGXX]
    if c is None or cxx is None:
        raise NotFound(f"{CLANG} is not there (Debian: clang-22)")
    if all_names:
        real |= {name: cxx if suffix else c for name, suffix in OTHERS.items()}
    for name, path in real.items():
        if path is not None:
            parts = {"python": sys.executable, "recorder": recorder.__file__, "real": path}
            text = WRAPPER.format(**{key: shlex.quote(part) for key, part in parts.items()})
            wrapper = folder / name
            if not wrapper.is_file() or wrapper.read_text() != text:
                write(wrapper, text.encode())
                wrapper.chmod(0o755)
    variables = {"PATH": os.pathsep.join([str(folder), *search]), "CCACHE_DISABLE": "1"}
    for variable, name in (("CC", CLANG), ("CXX", CLANGXX)):
        first, *rest = shlex.split(os.environ.get(variable, "")) or [name]
        own = real.get(Path(first).name)
        if own and Path(first).is_absolute() and Path(first).resolve() == Path(own).resolve():
            first = str(folder / Path(first).name)
        elif all_names and first not in real:
            first = name
        variables[variable] = shlex.join([first, *rest])
    return variables


def build(
    corpus: Path,
    command: Sequence[str],
    program: str,
    version: str = "",
    *,
    folder: Path | None = None,
    all_names: bool = False,
    quiet: bool = False,
    **finishing: Any,
) -> tuple[int, Added, str]:
    """Run a build in `folder` and keep what clang compiles; its exit code, and what it printed if
    `quiet`. What was compiled before a failure is kept."""
    where = (folder or Path.cwd()).absolute()
    with Incoming(corpus, program, version, str(where)) as incoming:
        place = incoming.corpus / "wrappers" / ("all" if all_names else "clang")
        env = {**os.environ, **wrappers(place, all_names)}
        env["MLBRIDGE_CORPUS_INCOMING"] = str(incoming.folder)
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
        try:
            done = subprocess.run(command, cwd=where, env=env, check=False, **output)  # type: ignore[call-overload]
        except OSError as error:
            shutil.rmtree(incoming.folder)
            raise NotFound(f"{command[0]}: cannot be run: {error.strerror}") from None
        said = (done.stdout or b"").decode(errors="replace")
        return done.returncode, incoming.finish(**finishing), said


# compile_commands.json


def compile_commands(
    corpus: Path,
    file: Path,
    program: str,
    version: str = "",
    **finishing: Any,
) -> Added:
    """Compile again what a compile_commands.json lists, with clang-22 instead of its compiler."""
    try:
        listed = json.loads(file.read_text())
        entries = [
            (
                str(file.parent.absolute() / entry["directory"]),
                list(entry.get("arguments") or shlex.split(entry["command"])),
            )
            for entry in listed
        ]
    except OSError as error:
        raise NotFound(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidModel(f"{file}: not a compile_commands.json: {error!r}") from None
    root = str(file.parent.absolute())
    return compile_all(corpus, entries, program, version, root=root, **finishing)


def compile_all(
    corpus: Path,
    entries: Sequence[tuple[str, Sequence[str]]],
    program: str,
    version: str = "",
    *,
    root: str = "",
    jobs: int = 2,
    progress: bool = False,
    **finishing: Any,
) -> Added:
    """Compile with clang-22, for its bitcode, each command in its folder. Sources are named
    relative to `root`."""
    from tqdm import tqdm

    with Incoming(corpus, program, version, root) as incoming:

        def one(number: int) -> str:
            folder, (compiler, *arguments) = entries[number]
            clang = CLANGXX if "++" in Path(compiler).name else CLANG
            place = str(incoming.folder)
            try:
                recorder.record(place, clang, arguments, folder, prefix=f"{number:08}")
                return ""
            except (recorder.Unrecorded, OSError, ValueError) as error:
                return f"{folder}: {error}"

        with ThreadPoolExecutor(jobs) as pool:
            work = pool.map(one, range(len(entries)))
            hidden = None if progress else True
            said = list(tqdm(work, total=len(entries), unit="file", disable=hidden, leave=False))
        added = incoming.finish(jobs=jobs, progress=progress, **finishing)
        added.problems += filter(None, said)
        return added


# Bitcode in objects


def embedded(
    corpus: Path, files: Iterable[Path], program: str, version: str = "", **finishing: Any
) -> Added:
    """Add what `clang -Xclang -fembed-bitcode=all` has put into objects (.llvmbc and .llvmcmd).

    (Without -Xclang, clang embeds what its passes have left, and nothing tells that apart.)
    """
    with Incoming(corpus, program, version) as incoming:
        problems = []
        for number, file in enumerate(files):
            try:
                _embedded(file, incoming.folder / f"{number:08}")
            except (OSError, Error) as error:
                problems.append(f"{file}: {error}")
        added = incoming.finish(**finishing)
        added.problems += problems
        return added


def _embedded(file: Path, target: Path) -> None:
    found = {s.name: bytes(s.contents) for s in sections(file.read_bytes(), str(file))}
    if not found.get(b".llvmbc"):
        raise InvalidModel("no bitcode (.llvmbc); compile with -Xclang -fembed-bitcode=all")
    words = found.get(b".llvmcmd", b"").decode(errors="replace").split("\0")
    said = dict(pairwise(words))
    if not any(word.startswith("-O") and word != "-O0" for word in words):
        raise InvalidModel("compiled at -O0, so that passes skip every function; compile at -Oz")
    source = said.get("-main-file-name", "")
    stripped = target.with_suffix(".part")
    stripped.write_bytes(found[b".llvmbc"])
    _run(["opt-22", "-strip-debug", "-passes=", str(stripped), "-o", str(target)], "opt-22")
    stripped.unlink()
    entry = {
        "source": source or file.name,
        "language": "c" if source.endswith((".c", ".i")) else "c++",
        "flags": [word for word in words if word.startswith(("-O", "-f", "-m", "-std"))],
        "target": said.get("-triple", ""),
    }
    target.rename(target.with_suffix(".bc"))
    write(target.with_suffix(".json"), json.dumps(entry).encode())
