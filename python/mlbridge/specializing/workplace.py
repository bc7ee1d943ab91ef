# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a specialization: what was built, what was measured, and who works in it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..claiming import claim, file_errors
from ..errors import Busy, InvalidArgument, NotFound
from ..outputs import replace_whole
from ..processes import Process, ancestors
from ..workspace import Program, Variant, Workspace, cxx_of
from .recipes import Recipe
from .specialization import Settings

Value = TypeVar("Value")
_KIND = "specialization"
#: The names by which builds call a compiler that they don't take from $CC or $CXX.
_C, _CXX = ("cc", "c99", "gcc", "clang"), ("c++", "g++", "clang++")
#: LLVM's tools, which read bitcode, by the names and variables that builds know.
TOOLS = {"ar": "AR", "nm": "NM", "ranlib": "RANLIB"}
#: The variable that tells the processes of a folder.
_MARK = "MLBRIDGE_SPECIALIZATION"
TREES = "trees"
#: What lies in the folder, beside profiles; all else is somebody's.
_OWN = (TREES, "bin", "raw", "calls", "state.json")
#: The end of the name of a folder that is being removed.
_REMOVED = "-removed"
#: How often, and with how many seconds between, processes are looked for that are to end.
_LOOKS, _LOOK = 100, 0.05
_SCRIPT = """\
#!/bin/sh
echo "${{0##*/}}" >> {log}
exec {command} "$@"
"""


class Workplace:
    """A folder in which only one specialization works at a time, and which a later one that is made
    from the same goes on with."""

    def __init__(self, folder: Path, made_from: Mapping[str, Any], *, anew: bool = True) -> None:
        """`made_from`: what must be the same for a later one, by its names for people. `anew`:
        begin anew if it isn't; else that is InvalidArgument. Busy if another process works in it;
        InvalidArgument if it is somebody else's folder."""
        self.folder = folder.resolve()
        #: What isn't the same, if that was why it began anew.
        self.changed: list[str] = []
        #: How many processes were ended that had been left running.
        self.strays = 0
        if odd := re.search(r"[^\w./+@-]", str(self.folder), re.ASCII):
            raise InvalidArgument(
                f"{self.folder}: builds can't be told of a compiler in a folder with "
                f"{odd[0]!r} in its name; choose another"
            )
        claim(self.folder, _KIND)
        self._lock = self._locked()
        try:
            self.end_strays()
            self._state = self.folder / "state.json"
            self._kept = self._found(made_from, anew)
            if not self._kept["steps"]:
                self._clear()
        except BaseException:
            os.close(self._lock)
            raise
        # Between a kill and what goes on, no time passes.
        ends = [begun + took for begun, took in self._kept["times"].values()]
        self._zero = time.monotonic() - max(ends, default=0.0)

    def _locked(self) -> int:
        for leftover in self.folder.parent.glob(f".{self.folder.name}.*{_REMOVED}"):
            shutil.rmtree(leftover, ignore_errors=True)
        file = self.folder / "lock"
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), file.stat()):  # else it was removed meanwhile
                return lock
        except OSError:
            pass
        os.close(lock)
        raise Busy(f"{self.folder}: another specialization works here; choose another --work")

    def _found(self, made_from: Mapping[str, Any], anew: bool) -> dict[str, Any]:
        """What was done by an earlier one, if it is the same."""
        digests = {
            name: hashlib.blake2b(json.dumps(value).encode(), digest_size=20).hexdigest()
            for name, value in made_from.items()
        }
        new: dict[str, Any] = {"made_from": digests, "steps": {}, "times": {}}
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            found = json.loads(self._state.read_text())
            if not found["steps"] or not found["times"].keys() >= found["steps"].keys():
                return new
            before = found["made_from"]
            if before == digests:
                return dict(found)
            both = dict(before).keys() | digests.keys()
            self.changed = sorted(name for name in both if digests.get(name) != before.get(name))
        if self.changed and not anew:
            raise InvalidArgument(
                f"{self.folder} is of a specialization with other values of these: "
                f"{', '.join(self.changed)}; choose another --work, or remove it"
            )
        return new

    def end_strays(self) -> None:
        """End what builds and runs of this folder have left running, so that it writes into no tree
        any more, and answers no other build."""
        marker = os.fsencode(f"{_MARK}={self.folder}")
        own = ancestors()
        known: set[Process] = set()
        for _ in range(_LOOKS):
            found = {process for process in _marked(marker) if process.number not in own}
            left = {process for process in found if not process.is_ending}
            for process in left & known:  # others may be about to end
                self.strays += process.signal(signal.SIGKILL)
            known |= left
            if not found:
                return
            time.sleep(_LOOK)
        raise Busy(f"{self.folder}: processes that builds or runs have left don't end")

    def close(self, *, remove: bool = False) -> None:
        """Leave the folder, or remove it."""
        with contextlib.suppress(Busy):
            self.end_strays()
        if remove:
            # At once: what is half removed would be somebody else's folder.
            gone = self.folder.with_name(f".{self.folder.name}.{os.getpid()}{_REMOVED}")
            try:
                self.folder.rename(gone)
            except OSError:
                gone = self.folder
            shutil.rmtree(gone, ignore_errors=True)
        os.close(self._lock)

    def _clear(self) -> None:
        with file_errors(self.folder):
            for place in self.folder.iterdir():
                if place.name not in _OWN and place.suffix != ".profdata":
                    continue
                if place.is_dir() and not place.is_symlink():
                    shutil.rmtree(place)
                else:
                    place.unlink()

    def has(self, name: str) -> bool:
        """Whether a step was done."""
        return name in self._kept["steps"]

    def step(
        self, name: str, work: Callable[[], Value], lasts: Callable[[Value], bool] = lambda _: True
    ) -> Value:
        """The result of a step, which JSON can hold: of an earlier run, or else of `work`. If it
        doesn't last, a later run does it again."""
        if not self.has(name):
            begun = time.monotonic() - self._zero
            made = work()
            if not lasts(made):
                return made
            took = time.monotonic() - self._zero - begun
            self._kept["steps"][name] = made
            self._kept["times"][name] = (begun, took)
            self._save()
        return self._kept["steps"][name]  # type: ignore[no-any-return]

    def kept(self, name: str) -> Any:
        """The result of a step that was done."""
        return self._kept["steps"][name]

    def timeline(self) -> list[tuple[str, float, float]]:
        """The steps in the order in which they began: at which second, and seconds that each took.
        A step may have been taken within another."""
        times = sorted((begun, name, took) for name, (begun, took) in self._kept["times"].items())
        return [(name, begun, took) for begun, name, took in times]

    def forget(self, name: str) -> None:
        """Have a step done again."""
        if self._kept["steps"].pop(name, None) is not None:
            del self._kept["times"][name]
            self._save()

    def _save(self) -> None:
        with file_errors(self.folder):
            replace_whole(self._state, json.dumps(self._kept).encode())

    # The compilers that a build finds

    @property
    def _bin(self) -> Path:
        return self.folder / "bin"

    @property
    def compiler(self) -> str:
        """The C compiler; cxx_of() gives that of C++."""
        return str(self._bin / "clang")

    def profile_of(self, recipe: Recipe) -> Path:
        """The merged profile of all runs, as the recipe needs it."""
        return self.folder / f"{'partial' if recipe.partial else 'profile'}.profdata"

    def tree_of(self, recipe: Recipe) -> Path:
        """The tree that was built by the recipe, if it was."""
        return self.folder / TREES / recipe.name

    def variant_of(self, recipe: Recipe, command: str) -> Variant:
        """A build by a compiler with the words of a recipe."""
        return self.variant(recipe.name, command, recipe.words(str(self.profile_of(recipe))))

    def variant(self, name: str, command: str, words: Sequence[str]) -> Variant:
        """A build by a compiler with these words more."""
        return Variant(name, lambda _: self.compilers(command, words), begin=self.forget_calls)

    def workspace(
        self, settings: Settings, version: str, variables: Mapping[str, str] | None = None
    ) -> Workspace:
        """Where the program is built and run, with LLVM's tools of a version; variables are those
        of another machine."""
        program = Program(
            name=settings.tree.resolve().name,
            tree=settings.tree,
            build=settings.build,
            prepare=settings.prepare,
            outputs=settings.outputs,
            cflags=f"-{settings.level}" if settings.level else "",
            linked=True,
            variables={**(variables or {}), **self.variables(version)},
        )
        workspace = Workspace(program, self.folder / TREES, self.compiler, settings.timeout)
        workspace.ended = self.end_strays
        return workspace

    def keep(self, name: str, made: Any, seconds: float) -> None:
        """Keep the result of a step that was done elsewhere, and has just ended."""
        self._kept["steps"][name] = made
        self._kept["times"][name] = (time.monotonic() - self._zero - seconds, seconds)
        self._save()

    @contextlib.contextmanager
    def compilers(self, command: str, words: Sequence[str]) -> Iterator[Sequence[str]]:
        """Have the compilers in the folder run `command` with these words more. They lie at the
        same place for all recipes, so that no object differs by their names."""
        self._bin.mkdir(exist_ok=True)
        for names, real in ((_C, command), (_CXX, cxx_of(command))):
            found = shutil.which(real)
            if found is None and names is _C:
                raise NotFound(
                    f"{real} is not on PATH; expected clang 22: apt-get install clang-22"
                )
            text = f"#!/bin/sh\necho {shlex.quote(real)} is not on PATH >&2\nexit 1\n"
            if found is not None:
                line = shlex.join([os.path.abspath(found), *words])  # noqa: PTH100 – a link stays
                text = _SCRIPT.format(log=shlex.quote(str(self._calls)), command=line)
            for name in {*names, Path(real).name}:
                replace_whole(self._bin / name, text.encode(), mode=0o755)
        yield ()

    def variables(self, version: str) -> dict[str, str]:
        """Variables of a build, beside CC and CXX: tools that read bitcode, also by PATH."""
        self._bin.mkdir(exist_ok=True)
        found = {_MARK: str(self.folder), "LLVM_PROFILE_FILE": ""}
        found |= {"PATH": f"{self._bin}:{os.environ.get('PATH', os.defpath)}"}
        for name, variable in TOOLS.items():
            real = shutil.which(f"llvm-{name}-{version}")
            if real is None:
                raise NotFound(
                    f"llvm-{name}-{version} is not on PATH: apt-get install llvm-{version}"
                )
            text = f'#!/bin/sh\nexec {shlex.quote(real)} "$@"\n'
            for called in (name, f"llvm-{name}"):  # CMake looks for the second beside a clang
                replace_whole(self._bin / called, text.encode(), mode=0o755)
            found[variable] = real
        return found

    @property
    def _calls(self) -> Path:
        return self.folder / "calls"

    def forget_calls(self) -> None:
        """Look from now on."""
        self._calls.unlink(missing_ok=True)

    def was_called(self) -> bool:
        """Whether a compiler was called since."""
        return self._calls.exists()

    def called_by_name(self) -> list[str]:
        """The names by which a compiler was called since, beside those in $CC and $CXX."""
        try:
            names = set(self._calls.read_text().split())
        except OSError:
            return []
        return sorted(names - {"clang", "clang++"})


def contents_of(tree: Path, but: Sequence[Path]) -> str:
    """A hash of a source tree: names, sizes and times of its files, but for some."""
    left_out = {path.resolve() for path in but}
    names_left_out = {path.name for path in left_out}
    digest = hashlib.blake2b(digest_size=20)
    partial = tuple(f".{name}." for name in names_left_out)  # what a kill has left of them
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(set(folders) - {".git"})  # which changes when one looks at it
        for name in sorted(names):
            path = Path(folder, name)
            if name in names_left_out and path.resolve() in left_out:
                continue
            if name.startswith(partial):
                continue
            with contextlib.suppress(OSError):
                status = path.lstat()
                digest.update(
                    f"{path.relative_to(tree)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(
                        errors="surrogateescape"
                    )
                )
    return digest.hexdigest()


def _marked(marker: bytes) -> Iterator[Process]:
    """The processes that have it among their variables."""
    this = Process.of(os.getpid())
    for entry in Path("/proc").glob("[0-9]*"):
        process = Process.of(int(entry.name))
        if process is None or this is None:
            continue
        for _ in range(_LOOKS):
            try:
                variables = (entry / "environ").read_bytes()
            except OSError:
                break
            if marker in variables.split(b"\0"):
                yield process
            # There are none for a moment when a process starts a program.
            is_old = process.began < this.began
            if variables or is_old or process.is_kernels or process.is_ending:
                break
            time.sleep(_LOOK / _LOOKS)
