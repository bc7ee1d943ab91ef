# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds modules to a corpus: from a build, compile_commands.json, or bitcode in objects."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pickle
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..claiming import file_errors
from ..elf import file_executable_bytes, sections
from ..errors import Error, InvalidArgument, InvalidModel, NotFound
from ..process_runner import run_tool
from ..progress import shown
from ..reading import read_file, read_json, shortly
from ..trials import Needs, Options, Trial, evaluate
from . import record as recorder
from .store import ADDITION, INCOMING, WRAPPERS, Module, append, lock, own_file, write

CLANG, CLANGXX = "clang-22", "clang++-22"
_OUTPUT = 1 << 30  # bytes that are kept of a tool's output
COMPILER = re.compile(r"clang(\+\+)?(-\d+)?")
#: Other names that a build may call its compiler by.
OTHERS = {"cc": "", "gcc": "", "c++": "++", "g++": "++"}
WRITTEN_BY = b"# Written by `mlbridge corpus add`"
WRAPPER = """\
#!/bin/sh
# Written by `mlbridge corpus add`; while it runs, this compiler keeps the bitcode in a corpus, and
# while `mlbridge corpus profile` runs, it compiles counters into every function.
if [ -n "$MLBRIDGE_CORPUS_PROFILE" ]; then
  exec {python} -I -S {recorder} --instrument "$MLBRIDGE_CORPUS_PROFILE" {real} "$@"
fi
if [ -n "$MLBRIDGE_CORPUS_INCOMING" ]; then
  {python} -I -S {recorder} "$MLBRIDGE_CORPUS_INCOMING" {real} "$@" </dev/null >/dev/null 2>&1 ||
    echo "$*: the recorder failed" 2>/dev/null >>"$MLBRIDGE_CORPUS_INCOMING/problems"
fi
exec {real} "$@"
"""
_NAMES = re.compile(rb"\A; ModuleID = [^\n]*\nsource_filename = [^\n]*\n")
_COMPILER_VERSION = re.compile(rb'^!\d+ = !\{!"[^"\n]*clang version [^"\n]*"\}\n', re.MULTILINE)
# Files in the folder of an addition; `recorder.record` begins names with a time or a number.
_WRITTEN = re.compile(
    r"\.?(program\.json|lock|problems|left-out|without|[\d-]+(\.(bc|json|part))?)"
    r"(\.\d+-[0-9a-f]{8})?"
)
_CODE = re.compile(rb"^define ", re.MULTILINE)


@dataclass
class Added:
    """The result of an addition."""

    new: int = 0  #: modules
    known: int = 0  #: modules that were there already, perhaps of another program
    empty: int = 0  #: modules without a function, which are left out
    problems: list[str] = field(default_factory=list)  #: one line for each that is not recorded
    #: Files that are no modules of C or C++, "FILE: WHY": assembler, attempts of a configuration, …
    left_out: list[str] = field(default_factory=list)
    #: Options of another compiler that clang does not have.
    without: Counter[str] = field(default_factory=Counter)
    #: Modules by the level of their compilation, "Oz", which decides how functions are marked.
    levels: Counter[str] = field(default_factory=Counter)
    #: Rows of Parquet files that were not wanted, or are no module that can be used, by the reason.
    rows: Counter[str] = field(default_factory=Counter)

    def note(self, lines: Mapping[str, Sequence[str]]) -> None:
        """Count the lines of a recorder, by the names of their files."""
        self.problems += lines["problems"]
        self.left_out += lines["left-out"]
        self.without.update(lines["without"])

    @property
    def recorded(self) -> int:
        """Modules that are in the corpus."""
        return self.new + self.known

    @property
    def seen(self) -> int:
        """All compilations that were seen."""
        return self.recorded + self.empty + len(self.problems) + len(self.left_out)


def compile_bitcode(bitcode: Path, target: Path) -> int:
    """Compile a module at -Oz into the object `target`; its executable bytes.

    InvalidModel says what the compiler said.
    """
    command = [CLANG, "-Oz", "-x", "ir", "-c", str(bitcode), "-o", str(target)]
    _run([*command, "-Wno-override-module"], str(bitcode))
    try:
        return file_executable_bytes(target)
    except (OSError, InvalidArgument) as error:
        raise InvalidModel(f"{bitcode}: the compiler made no object: {error}") from None


def _run(command: Sequence[str], name: str = "") -> bytearray:
    """The standard output of a tool; InvalidModel says what it said of `name`."""
    try:
        ran = run_tool(command, timeout=recorder.LIMIT, keep=_OUTPUT, what=name, error=InvalidModel)
    except NotFound:
        raise NotFound(f"{command[0]} is not there (Debian: clang-22, llvm-22)") from None
    return ran.stdout.head


class Incoming:
    """A folder in the corpus for the files of one addition, until `finish` puts them there.

    The next addition puts the files of a killed one there.
    """

    def __init__(self, corpus: Path, program: str, version: str = "", root: str = "") -> None:
        if not program or not program.isprintable():
            raise InvalidArgument(f"the program is called {program!r}; expected a printable name")
        self.corpus = corpus.absolute()
        self.folder = self.corpus / INCOMING / secrets.token_hex(6)
        described = {"program": program, "version": version, "root": root or str(Path.cwd())}
        with lock(self.corpus):
            # Its own lock says that somebody is using the folder.
            write(self.folder / "program.json", json.dumps(described).encode())
            with file_errors(self.folder):
                self._held = own_file(self.folder / "lock")
            fcntl.flock(self._held, fcntl.LOCK_EX)

    def __enter__(self) -> Incoming:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def finish(
        self,
        jobs: int = 2,
        measure: bool = False,
        progress: bool = False,
        cluster: str = "",
        warned: Callable[[str], None] = lambda text: None,
    ) -> Added:
        """Put the modules into the manifest, with their -Oz code bytes if `measure`. The nodes of a
        Ray cluster may compile them; `warned` is told which of them are not used. Unavailable if
        none is left: the next addition puts the modules there."""
        added = Added()
        needs = Needs(programs=("llvm-dis-22", *[CLANG] * measure))
        evaluation = Options(jobs=jobs, cluster=cluster, needs=needs, warned=warned)
        with file_errors(self.corpus):
            found = list(_items(self.folder, added))
            with lock(self.corpus):  # under which others make theirs
                left = [(f, _free(f)) for f in _additions(self.folder.parent) if f != self.folder]
            for folder, free in left:
                if free is not None:
                    with free:
                        self._take([*_items(folder, added)], added, evaluation, measure, progress)
                        forget(folder)
            self._take(found, added, evaluation, measure, progress)
            forget(self.folder)
        return added

    def _take(
        self,
        found: Sequence[tuple[Path, dict[str, Any]]],
        added: Added,
        evaluation: Options,
        measure: bool,
        progress: bool,
    ) -> None:
        trials = (
            Trial(entry["source"], pickle.dumps((entry, measure, bitcode.read_bytes())))
            for bitcode, entry in found
        )
        made = [*shown(evaluate(_described, trials, evaluation), len(found), "module", progress)]
        added.problems += [f"{one.key}: {one.error}" for one in made if one.error]
        pairs = [
            (one.get(), bitcode)
            for one, (bitcode, _) in zip(made, found, strict=True)
            if not one.error
        ]
        with_code = [pair for pair in pairs if pair[0].hash]
        with lock(self.corpus):
            new = append(self.corpus, with_code)
        added.new += new
        added.levels.update(f"O{level_of(module.flags)}" for module, _ in with_code)
        added.known += len(with_code) - new
        added.empty += len(pairs) - len(with_code)


def _additions(incoming: Path) -> list[Path]:
    """The folders of additions."""
    return [
        folder
        for folder in incoming.iterdir()
        if ADDITION.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink()
    ]


def forget(folder: Path) -> None:
    """Delete the files of an addition; a folder with anything else in it stays."""
    for file in sorted(folder.iterdir(), key=lambda file: file.name == "lock"):
        if _WRITTEN.fullmatch(file.name) and (file.is_file() or file.is_symlink()):
            file.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _free(folder: Path) -> Any:
    """The lock of a folder that nobody uses any more, else None."""
    with contextlib.suppress(OSError):
        file = own_file(folder / "lock")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            file.close()
    return None


def _items(folder: Path, added: Added) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The modules that a build has left in a folder, in the order in which they were compiled."""
    if not (folder / "program.json").is_file():
        return  # it was killed before it began
    try:
        program = json.loads((folder / "program.json").read_text())
        added.note({name: _lines(folder / name) for name in recorder.Seen().files()})
        for path in sorted(folder.glob("*.json")):
            bitcode = path.with_suffix(".bc")
            if bitcode.is_file():
                yield bitcode, {**program, **json.loads(path.read_text())}
    except ValueError as error:
        added.problems.append(f"{folder}: cannot be read: {error}")


def _lines(file: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return file.read_text(errors="replace").splitlines()
    return []


def level_of(flags: Sequence[str]) -> str:
    """The level at which a module with these flags was compiled. (-Oz takes the place of -O0.)"""
    levels = [flag[2:] or "1" for flag in flags if re.fullmatch(r"-O\w*", flag)]
    return {"0": "z", "": "1"}.get(levels[-1], levels[-1]) if levels else "z"


def module_of(bitcode: Path, entry: Mapping[str, Any], measure: bool) -> Module:
    """Describes a module; without a function its hash is empty."""
    return module_from_text(text_of(bitcode), bitcode, entry, measure)


def text_of(bitcode: Path) -> bytearray:
    """A module as text. InvalidModel says what llvm-dis said."""
    return _run(["llvm-dis-22", "-o", "-", str(bitcode)])


def module_from_text(
    text: bytearray, bitcode: Path, entry: Mapping[str, Any], measure: bool
) -> Module:
    """Like `module_of`, of a module whose text is there."""
    hashed = hashlib.blake2b(_COMPILER_VERSION.sub(b"", _NAMES.sub(b"", text, 1)), digest_size=20)
    size = None
    if measure:
        with tempfile.TemporaryDirectory(prefix="mlbridge-corpus-") as folder:
            size = compile_bitcode(bitcode, Path(folder) / "module.o")
    has_code = _CODE.search(text) is not None and size != 0

    def named(value: str) -> str:  # a file name may not be UTF-8
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


def _described(trial: Trial) -> Module:
    """The module of a trial."""
    entry, measure, bitcode = pickle.loads(trial.inputs)
    with tempfile.TemporaryDirectory(prefix="mlbridge-corpus-") as folder:
        place = Path(folder) / "module.bc"
        place.write_bytes(bitcode)
        return module_of(place, entry, measure)


# A build


def wrappers(folder: Path, all_names: bool = False) -> dict[str, str]:
    """Write compilers into `folder` that record while MLBRIDGE_CORPUS_INCOMING is set; returns the
    variables to set to use them. They stay, since build folders keep the path of their compiler.

    With `all_names` also those that stand for any compiler: cc, gcc, c++, g++.
    """
    if folder.is_symlink():
        raise InvalidArgument(f"{folder} is a link, through which nothing is changed")
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
            there = wrapper.read_bytes() if wrapper.is_file() else None
            if there not in (None, text.encode()) and WRITTEN_BY not in there:
                raise InvalidArgument(f"{wrapper} is not of mlbridge, and stays; remove it")
            if there != text.encode():
                write(wrapper, text.encode(), executable=True)
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
    """Run a build in `folder` and keep the modules that clang compiles, also before a failure; its
    exit code, the result, and its output if `quiet`."""
    where = (folder or Path.cwd()).absolute()
    with Incoming(corpus, program, version, str(where)) as incoming:
        place = incoming.corpus / WRAPPERS / ("all" if all_names else "clang")
        env = {**os.environ, **wrappers(place, all_names)}
        env["MLBRIDGE_CORPUS_INCOMING"] = str(incoming.folder)
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
        try:
            done = subprocess.run(command, cwd=where, env=env, check=False, **output)  # type: ignore[call-overload]
        except OSError as error:
            forget(incoming.folder)
            raise NotFound(f"{command[0]}: cannot be run: {error.strerror}") from None
        printed = (done.stdout or b"").decode(errors="replace")
        return done.returncode, incoming.finish(**finishing), printed


# compile_commands.json


def compile_commands(
    corpus: Path, file: Path, program: str, version: str = "", **finishing: Any
) -> Added:
    """Compile the files of a compile_commands.json again, with clang-22 instead of its compiler."""
    listed = read_json(file)
    entries, problems = [], []
    try:
        if not isinstance(listed, list):
            raise TypeError(f"a {type(listed).__name__} and no list of commands")
        for entry in listed:
            words = entry["arguments"] if entry.get("arguments") is not None else entry["command"]
            folder = str(file.parent.absolute() / entry["directory"])
            source = str(entry.get("file", folder))
            if isinstance(words, str):
                try:
                    words = shlex.split(words)
                except ValueError as error:  # a quotation that does not end
                    problems.append(f"{source}: {error}: {words[:200]}")
                    continue
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise TypeError(f"the arguments of {source} are no list of texts")
            if words:
                entries.append((folder, words))
            else:
                problems.append(f"{source}: its command is empty")
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidModel(f"{file}: not a compile_commands.json: {shortly(error)}") from None
    if not listed:
        raise InvalidModel(f"{file}: lists no command")
    root = str(file.parent.absolute())
    added = compile_all(corpus, entries, program, version, root=root, **finishing)
    added.problems += problems
    return added


#: Programs that may stand in front of a compiler.
LAUNCHERS = re.compile(
    r"(ccache|sccache|buildcache|distcc|icecc|gomacc|time|nice|env|nohup)(\.exe)?"
)
#: Compilers of other languages.
FOREIGN = {
    "Fortran": re.compile(r"(.*-)?(gfortran|flang|flang-new|f77|f90|f95|g77|ifort|ifx)(-[\d.]+)?"),
    "assembler": re.compile(r"(.*-)?(as|nasm|yasm)"),
    "CUDA": re.compile("nvcc"),
    "Rust": re.compile("rustc"),
    "Go": re.compile("go|gccgo(-[\\d.]+)?"),
    "Swift": re.compile("swiftc?"),
    "Ada": re.compile(r"(.*-)?gnat(make)?(-[\d.]+)?"),
    "D": re.compile(r"(.*-)?(dmd|ldc2|gdc)(-[\d.]+)?"),
    "Java": re.compile("javac"),
}
#: A compiler for another target says which by its name.
CROSS = re.compile(r"(\w+(?:-\w+){1,3})-(?:gcc|g\+\+|cc|c\+\+|c89|c99|clang|clang\+\+)(?:-[\d.]+)?")


def compiler_of(words: Sequence[str]) -> tuple[str, list[str], str]:
    """The compiler of clang-22 for a command of any compiler, and the arguments for it. If the
    command is none of C or C++, the third says why."""
    rest = list(words)
    while rest and (LAUNCHERS.fullmatch(Path(rest[0]).name) or Path(rest[0]).name == "cmake"):
        if Path(rest.pop(0)).name == "cmake" and "--" in rest:  # cmake -E … -- COMMAND
            rest = rest[rest.index("--") + 1 :]
        while rest and (
            rest[0].startswith("-")
            or re.fullmatch(r"\w+=.*|env|__run_co_compile", rest[0], re.DOTALL)
        ):
            rest.pop(0)
    if not rest:
        return "", [], "no compiler is called"
    name = Path(rest[0]).name
    for language, known in FOREIGN.items():
        if known.fullmatch(name):
            return "", rest[1:], language
    cross = CROSS.fullmatch(name)
    target = [f"--target={cross[1]}"] if cross else []
    return CLANGXX if "++" in name else CLANG, [*target, *rest[1:]], ""


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
    with Incoming(corpus, program, version, root) as incoming:

        def one(number: int) -> recorder.Seen:
            folder, words = entries[number]
            clang, arguments, why = compiler_of(words)
            seen = recorder.Seen()
            file = next((file for file, _ in recorder.inputs(arguments)), words[-1])
            try:
                if not Path(folder).is_dir():
                    raise recorder.Unrecorded(f"there is no folder {folder}")
                if not why:
                    seen = recorder.record(
                        str(incoming.folder), clang, arguments, folder, f"{number:08}", foreign=True
                    )
            except (recorder.Unrecorded, OSError, ValueError) as error:
                seen.problems.append(f"{file}: {error}")
            if not (seen.recorded or seen.problems or seen.left_out):
                seen.left_out.append(f"{file}: {why or 'nothing is compiled'}")
            return seen

        with ThreadPoolExecutor(jobs) as pool:
            work = pool.map(one, range(len(entries)))
            all_seen = list(shown(work, len(entries), "file", progress))
        added = incoming.finish(jobs=jobs, progress=progress, **finishing)
        for seen in all_seen:
            added.note(seen.files())
        return added


# Bitcode in objects


def embedded(
    corpus: Path, files: Iterable[Path], program: str, version: str = "", **finishing: Any
) -> Added:
    """Add the bitcode that `clang -Xclang -fembed-bitcode=all` puts into objects, into .llvmbc.

    (Without -Xclang, clang embeds optimized bitcode, and nothing tells that apart.)
    """
    with Incoming(corpus, program, version) as incoming:
        problems = []
        for number, file in enumerate(files):
            try:
                _embedded(file, incoming.folder / f"{number:08}")
            except (OSError, Error) as error:
                text = str(error)
                problems.append(text if text.startswith(f"{file}") else f"{file}: {text}")
        added = incoming.finish(**finishing)
        added.problems += problems
        return added


def _embedded(file: Path, target: Path) -> None:
    contents = {s.name: bytes(s.contents) for s in sections(read_file(file), str(file))}
    if not contents.get(b".llvmbc"):
        raise InvalidModel("no bitcode (.llvmbc); compile with -Xclang -fembed-bitcode=all")
    words = contents.get(b".llvmcmd", b"").decode(errors="replace").split("\0")
    options = dict(pairwise(words))
    if not any(word.startswith("-O") and word != "-O0" for word in words):
        raise InvalidModel("compiled at -O0, so that passes skip every function; compile at -Oz")
    source = options.get("-main-file-name", "")
    stripped = target.with_suffix(".part")
    stripped.write_bytes(contents[b".llvmbc"])
    _run(["opt-22", "-strip-debug", "-passes=", str(stripped), "-o", str(target)])
    stripped.unlink()
    entry = {
        "source": source or file.name,
        "language": "c" if source.endswith((".c", ".i")) else "c++",
        "flags": [word for word in words if word.startswith(("-O", "-f", "-m", "-std"))],
        "target": options.get("-triple", ""),
    }
    target.rename(target.with_suffix(".bc"))
    write(target.with_suffix(".json"), json.dumps(entry).encode())
