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
#: How often, and with how many seconds between, processes are looked for that are to end.
_LOOKS, _LOOK = 100, 0.05
_SCRIPT = """\
#!/bin/sh
: >> {log}
exec {command} "$@"
"""


class Workplace:
    """A folder in which only one specialization works at a time, and which a later one of the same
    settings goes on with."""

    def __init__(self, folder: Path, made_from: object) -> None:
        """Busy if another process works in it; InvalidArgument if it is somebody else's folder."""
        self.folder = folder.resolve()
        if odd := re.search(r"[^\w./+@-]", str(self.folder), re.ASCII):
            raise InvalidArgument(
                f"{self.folder}: builds can't be told of a compiler in a folder with "
                f"{odd[0]!r} in its name; choose another"
            )
        claim(self.folder, _KIND)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise Busy(
                f"{folder}: another specialization works here; choose another --work"
            ) from None
        self._end_strays()
        digest = hashlib.blake2b(json.dumps(made_from).encode(), digest_size=20).hexdigest()
        self._state = self.folder / "state.json"
        self._kept: dict[str, Any] = {"made_from": digest, "steps": {}, "times": {}}
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            found = json.loads(self._state.read_text())
            if found["made_from"] == digest and found["times"].keys() >= found["steps"].keys():
                self._kept = found
        if not self._kept["steps"]:
            self._clear()
        # Between a kill and what goes on, no time passes.
        ends = [begun + took for begun, took in self._kept["times"].values()]
        self._zero = time.monotonic() - max(ends, default=0.0)

    def _end_strays(self) -> None:
        """End what a killed specialization has left running here, so that it writes into no tree
        any more."""
        marker = os.fsencode(f"{_MARK}={self.folder}")
        own = ancestors()
        for _ in range(_LOOKS):
            left = False
            for entry in Path("/proc").glob("[0-9]*"):
                process = Process.of(int(entry.name))
                if process is None or process.number in own:
                    continue
                with contextlib.suppress(OSError):
                    if marker in (entry / "environ").read_bytes().split(b"\0"):
                        left |= process.signal(signal.SIGKILL)
            if not left:
                return
            time.sleep(_LOOK)
        os.close(self._lock)
        raise Busy(f"{self.folder}: processes of a killed specialization don't end")

    def close(self, *, remove: bool = False) -> None:
        """Leave the folder, or remove it."""
        if remove:
            shutil.rmtree(self.folder, ignore_errors=True)
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

    def step(self, name: str, work: Callable[[], Value]) -> Value:
        """The result of a step, which JSON can hold: of an earlier run, or else of `work`."""
        if not self.has(name):
            begun = time.monotonic() - self._zero
            made = work()
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
        return Workspace(program, self.folder / TREES, self.compiler, settings.timeout)

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


def contents_of(tree: Path, but: Sequence[Path]) -> str:
    """A hash of a source tree: names, sizes and times of its files, but for some."""
    left_out = {path.resolve() for path in but}
    names_left_out = {path.name for path in left_out}
    digest = hashlib.blake2b(digest_size=20)
    for folder, folders, names in os.walk(tree):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if name in names_left_out and path.resolve() in left_out:
                continue
            with contextlib.suppress(OSError):
                status = path.lstat()
                digest.update(
                    f"{path.relative_to(tree)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(
                        errors="surrogateescape"
                    )
                )
    return digest.hexdigest()
