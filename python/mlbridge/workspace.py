# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program that is built and run in several ways, in copies at the same path.

A program is copied; its copy lies at the same path whenever it is built or run, in any way, so that
objects differ only where code does, and no output does because it names a folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from .claiming import claim
from .clock import Command, Timing, Work, compare
from .decisions import Decisions, read_decisions
from .elf import executable_bytes, is_linked, is_object
from .errors import Code, Error, InvalidArgument, NotFound
from .process_runner import Output, Ran, run
from .spills import SUFFIX, spill_costs

_COPYING = 600.0  # seconds
_LOOKS_EVERY = 1.0  # seconds
_MAKES_OWN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
_CHUNK = 1 << 20


class BuildFailed(Error):
    """A build that gave nothing to compare; says on one line why."""

    code = Code.INVALID_ARGUMENT


@dataclass(frozen=True)
class Program:
    """A source tree, and shell commands for a copy of it, which find $CC, $CXX and $CFLAGS.

    `prepare` (configure) is not timed, nor are its objects counted. What `runs` print and the files
    `outputs` must be the same in both variants; these are removed before each run, unless the
    source tree has them. `linked`: executables and shared objects are compared, not object files,
    which are bitcode if a build optimizes when it links.
    """

    name: str
    tree: Path
    build: str
    prepare: str = ""
    runs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    cflags: str = "-Oz"
    linked: bool = False
    #: Variables of its builds and runs, in place of those of this process.
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    """A way to compile: additions to the compiler's command line, given a folder for logs.

    The context lasts for a build, or for a run. `begin` is called after `prepare`. With `counts`
    one more build, which isn't timed, has these flags, and its logs say what was decided.
    """

    name: str
    flags: Callable[[Path], AbstractContextManager[Sequence[str]]]
    begin: Callable[[], None] = lambda: None
    counts: Callable[[Path], AbstractContextManager[Sequence[str]]] | None = None


PLAIN = Variant("baseline", lambda _: nullcontext(()))


@dataclass(frozen=True)
class Object:
    """An object file, or what was linked: bytes of its executable sections, and the digest of the
    file."""

    bytes: int
    digest: str


@dataclass(frozen=True)
class Built:
    """The results of a build: objects by their paths, the model's decisions, wall seconds."""

    objects: dict[str, Object]
    decisions: Decisions
    seconds: float
    #: Objects that the copy had before, and that the build left as they were.
    old: int = 0
    #: The spills, reloads and copies of each function, by record of LLVM's register allocator.
    spills: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Executable bytes of all objects."""
        return sum(one.bytes for one in self.objects.values())

    @property
    def digest(self) -> str:
        """A hash of all objects and their paths."""
        text = repr(sorted((path, one.digest) for path, one in self.objects.items()))
        return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()

    def file_spills(self) -> dict[str, float]:
        """The spills, reloads and copies of each file, by record."""
        return {path: sum(costs.values()) for path, costs in self.spills.items()}

    def different(self, other: Built) -> list[str]:
        """Objects of both builds whose files differ."""
        both = self.objects.keys() & other.objects.keys()
        return sorted(path for path in both if self.objects[path] != other.objects[path])


class Workspace:
    """A program in a folder of its own, in which it is built and run in one variant or another.

    After a build that is kept, the folder has a tree and a folder of logs for each variant. Each
    process is killed after `timeout` seconds, which may be changed.
    """

    def __init__(
        self, program: Program, folder: Path, compiler: str = "clang-22", timeout: float = 600.0
    ) -> None:
        """Makes the folder, which must not be in the program's tree, nor have anything else in
        it."""
        self.program = program
        self.folder = folder.resolve()
        if not program.tree.is_dir():
            raise NotFound(f"{program.tree} is no folder; expected a source tree")
        if self.folder.is_relative_to(program.tree.resolve()):
            raise InvalidArgument(
                f"{self.folder} lies in {program.tree.resolve()}, which is copied there;"
                " choose a folder outside"
            )
        claim(self.folder, "validation")
        self._compiler = compiler
        self.timeout = timeout
        #: Called after each build and run, and at times while runs are compared.
        self.ended: Callable[[], None] = lambda: None
        self._tree = self.folder / "tree"
        self._logs = self.folder / "decisions"

    def build(self, variant: Variant, *, keep: bool = True) -> Built:
        """Build a fresh copy, and keep it to be run. Raises BuildFailed or DeadlineExceeded."""
        self._fresh(self.program.tree)
        return self._build(variant, keep=keep)

    def relink(self, variant: Variant, base: Variant, linked: Collection[str]) -> Built:
        """Build a copy of the tree that was built as `base`, without what was linked in it: object
        files stay, so little more than links is done. BuildFailed also if one of the files
        `linked`, which the build of `base` linked, is not there again."""
        self._fresh(self._kept(base, self._tree))
        made = {path for path, _ in objects_in(self._tree, linked=True)}
        own = {path for path in made if (self.program.tree / path).exists()} - set(linked)
        for path in made - own:
            (self._tree / path).unlink()
        built = self._build(variant, prepared=True)
        if missing := sorted(set(linked) - built.objects.keys()):
            self.remove(variant)
            raise BuildFailed(f"`{self.program.build}` doesn't link {missing[0]} again")
        return built

    def _build(self, variant: Variant, *, keep: bool = True, prepared: bool = False) -> Built:
        built = False
        try:
            with variant.flags(self._logs) as flags:
                env = self._environment(flags)
                if self.program.prepare and not prepared:
                    self._step(self.program.prepare, env)
                before = dict(objects_in(self._tree, linked=self.program.linked))
                for record in self._tree.rglob(f"*{SUFFIX}"):
                    record.unlink()
                for log in self._logs.iterdir():
                    log.unlink()
                variant.begin()
                seconds = self._step(self.program.build, env).seconds
                found = self._built(before, seconds)
                built = True
                return found
        finally:
            self.ended()
            # What failed stays where it is, and doesn't look like what was built.
            for place in (self._tree, self._logs):
                kept = self._kept(variant, place)
                shutil.rmtree(kept if keep else place, ignore_errors=True)
                if keep and built:
                    place.rename(kept)

    def remove(self, variant: Variant) -> None:
        """Remove the tree and the logs of a build that was kept, if they are there."""
        for place in (self._tree, self._logs):
            shutil.rmtree(self._kept(variant, place), ignore_errors=True)

    def run(self, variant: Variant, command: str) -> tuple[Ran, dict[str, Output | None]]:
        """Run a command in the tree that was built this way; also the files of `outputs`."""
        places = [(place, self._kept(variant, place)) for place in (self._tree, self._logs)]
        for place, kept in places:
            shutil.rmtree(place, ignore_errors=True)  # of a build that failed
            kept.rename(place)
        try:
            with variant.flags(self._logs) as flags:
                env = self._environment(flags)
                self._remove_outputs()
                ran = run(command, self._tree, env=env, timeout=self.timeout)
            return ran, {name: _contents(self._tree / name) for name in self.program.outputs}
        finally:
            self.ended()
            for place, kept in reversed(places):  # where there is a tree, there are logs
                place.rename(kept)

    def time(
        self,
        variants: Sequence[Variant],
        command: str,
        seconds: float,
        *,
        compared: bool = True,
    ) -> Timing:
        """Compare the times of a command in the trees of several variants, in about so many
        seconds; unless `compared`, its output may differ. The variables are the same for all.
        Raises what clock.compare does."""
        there: list[Variant] = []
        looked = time.monotonic()
        one = Command.of(command)
        if not compared:
            one = replace(one, stdout=str(self.folder / "output"))

        def put(variant: Variant | None) -> None:
            if there and there[0] is not variant:
                self._tree.rename(self._kept(there.pop(), self._tree))
            if variant and not there:
                self._kept(variant, self._tree).rename(self._tree)
                there.append(variant)
            if variant:
                self._remove_outputs()
            nonlocal looked
            if time.monotonic() >= looked + _LOOKS_EVERY:
                self.ended()
                looked = time.monotonic()

        works = [
            Work(
                name=variant.name,
                commands=(one,),
                folder=self._tree,
                env=self._environment(()),
                outputs=self.program.outputs if compared else (),
                before=partial(put, variant),
            )
            for variant in variants
        ]
        try:
            shutil.rmtree(self._tree, ignore_errors=True)  # of a build that failed
            return compare(
                works[0], works[1:], budget=seconds, timeout=self.timeout, scratch=self.folder
            )
        finally:
            self.ended()
            put(None)

    def _kept(self, variant: Variant, place: Path) -> Path:
        return place.with_name(variant.name if place == self._tree else f"{variant.name}.decisions")

    def _remove_outputs(self) -> None:
        """What another run has written is no output of the next one."""
        for name in self.program.outputs:
            if not (self.program.tree / name).exists():
                (self._tree / name).unlink(missing_ok=True)

    def _fresh(self, tree: Path) -> None:
        for place in (self._tree, self._logs):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        copy = ["cp", "-a", "--reflink=auto", "--", f"{tree}/.", str(self._tree)]
        ran = run(copy, timeout=_COPYING)
        if ran.code:
            raise BuildFailed(f"{tree} can't be copied: {ran.reason}")

    def _environment(self, flags: Sequence[str]) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name not in _MAKES_OWN}
        env |= self.program.variables
        env.setdefault("SOURCE_DATE_EPOCH", "1577836800")  # for __DATE__ and __TIME__
        env["CCACHE_DISABLE"] = "1"
        for name, compiler in (("CC", self._compiler), ("CXX", cxx_of(self._compiler))):
            # Scripts of configure split it at blanks and take quotes for characters.
            env[name] = " ".join((compiler, *flags))
        for name in ("CFLAGS", "CXXFLAGS"):
            env[name] = f"{env.get(name, '')} {self.program.cflags}".strip()
        return env

    def _step(self, command: str, env: dict[str, str]) -> Ran:
        ran = run(command, self._tree, env=env, timeout=self.timeout)
        if ran.code:
            raise BuildFailed(f"`{command}` ended with {ran.code}: {ran.reason}")
        return ran

    def _built(self, before: dict[str, os.stat_result], seconds: float) -> Built:
        objects: dict[str, Object] = {}
        old = 0
        for path, now in objects_in(self._tree, linked=self.program.linked):
            then = before.get(path)
            if then and (then.st_ino, then.st_mtime_ns) == (now.st_ino, now.st_mtime_ns):
                old += 1
                continue
            data = (self._tree / path).read_bytes()
            digest = hashlib.blake2b(data, digest_size=20).hexdigest()
            objects[path] = Object(executable_bytes(data, path), digest)
        if not objects:
            there = (
                f" ({old} were there before; clean the tree first, as by --prepare 'make clean')"
                if old
                else ""
            )
            kind = "executable or shared object" if self.program.linked else "object file"
            raise BuildFailed(
                f"`{self.program.build}` left no new {kind} in its copy of the tree{there}"
            )
        spills = {
            str(record.relative_to(self._tree)): spill_costs(record)
            for record in sorted(self._tree.rglob(f"*{SUFFIX}"))
        }
        return Built(objects, read_decisions(self._logs), seconds, old, spills)


def objects_in(tree: Path, *, linked: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """Every relocatable ELF file below `tree`, or every linked one, whatever its name, in a fixed
    order."""
    is_wanted = is_linked if linked else is_object
    for folder, folders, names in os.walk(tree):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                continue
            with path.open("rb") as file:
                if is_wanted(file.read(18)):
                    yield str(path.relative_to(tree)), status


def cxx_of(compiler: str) -> str:
    """The C++ compiler beside a C compiler: clang++-22 for clang-22, g++-12 for gcc-12."""
    folder, name = os.path.split(compiler)
    name = re.sub(r"clang(?!\+\+)", "clang++", name)
    return str(Path(folder, re.sub(r"\bgcc\b", "g++", name)))


def _contents(path: Path) -> Output | None:
    if not path.is_file():
        return None
    output = Output()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            output.add(chunk)
    return output
