# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock compilers of LLVM with the plugin of an optimization, as the tests run them."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from building import attempt

import mlbridge
from mlbridge.optimizations import OPTIMIZATIONS


def plugin(optimization: str, llvm: int = 22) -> Path:
    """The plugin's file, which must be there."""
    path = Path(OPTIMIZATIONS[optimization].file(llvm))
    assert path.is_file(), f"the plugin is not there: {path}"
    return path


def options(optimization: str, **settings: object) -> list[str]:
    """The options of LLVM that make these settings of an optimization; None is the default."""
    return [
        f"-{optimization}-{name.replace('_', '-')}={value}"
        for name, value in settings.items()
        if value is not None
    ]


def loading(
    optimization: str, llvm: int = 22, own: str | Path | None = None, **settings: object
) -> list[str]:
    """The words for clang that load the plugin (or `own`, another one) with these settings."""
    return mlbridge.files.clang_words(
        str(own or plugin(optimization, llvm)), *options(optimization, **settings), llvm=llvm
    )


@cache
def printed_flags(*arguments: str) -> tuple[str, ...]:
    """The words that `mlbridge flags` prints."""
    command = [sys.executable, "-m", "mlbridge", "flags", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return tuple(shlex.split(done.stdout))


@dataclass(frozen=True)
class Compiled:
    """The end of a compiler, and the file that it wrote."""

    code: int
    stderr: str
    path: Path

    @property
    def object(self) -> bytes:
        return self.checked().path.read_bytes()

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if "warning:" in line]

    def checked(self) -> Compiled:
        assert self.code == 0, self.stderr
        return self

    def remarks(self, text: str) -> int:
        """The number of remarks that begin with this text."""
        return self.stderr.count(f"remark: {text}")


@dataclass
class Compiler:
    """The compilers of one LLVM, in a folder of their own; with the plugin of an optimization where
    there are settings, which are the plugin's options."""

    optimization: str
    folder: Path
    llvm: int = 22
    inputs: Path = Path()  #: the folder of sources that are named by a string
    flags: Sequence[str] = ("-O2",)  #: of each compilation
    loaded: Sequence[str] = ()  #: options of LLVM beside the plugin's
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def plugin(self) -> Path:
        return plugin(self.optimization, self.llvm)

    def run(
        self,
        *command: str | Path,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = attempt(
            *command,
            cwd=self.folder,
            env={**os.environ, **self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done

    def words(self, **settings: object) -> list[str]:
        """The words for clang that load the plugin with these settings."""
        told = [*self.loaded, *options(self.optimization, **settings)]
        return mlbridge.files.clang_words(str(self.plugin), *told, llvm=self.llvm)

    def source(self, name: str | Path) -> Path:
        return self.inputs / name if isinstance(name, str) else name

    def tool(self, name: str) -> str:
        """The name of a tool of this LLVM."""
        return f"{name}-{self.llvm}"

    def driver(self, source: str | Path) -> str:
        return self.tool("clang++" if str(source).endswith(".cpp") else "clang")

    def _written(self, path: Path, *command: str | Path) -> Compiled:
        path.unlink(missing_ok=True)
        done = self.run(*command, "-o", path, check=False)
        return Compiled(done.returncode, done.stderr, path)

    def clang(
        self, source: str | Path, *flags: str, level: str = "", **settings: object
    ) -> Compiled:
        load = self.words(**settings) if settings else []
        path = self.source(source)
        usual = [*self.flags, level] if level else self.flags
        command: list[str | Path] = [self.driver(path), *usual, *flags, *load, "-c", path]
        return self._written(self.folder / f"{path.name}.o", *command)

    def bitcode(self, source: str | Path, *flags: str) -> Path:
        """The module of a source, after clang's optimizations, for `llc`."""
        path = self.source(source)
        module = self.folder / f"{path.name}.bc"
        self.run(self.driver(path), *self.flags, *flags, "-emit-llvm", "-c", path, "-o", module)
        return module

    def llc(self, module: Path, *flags: str, **settings: object) -> Compiled:
        command = [self.tool("llc"), "-relocation-model=pic", "-filetype=obj"]
        if settings:
            command += ["-load", str(self.plugin), *self.loaded]
            command += options(self.optimization, **settings)
        return self._written(module.with_suffix(".o"), *command, *flags, module)

    def output(self, compiled: Compiled) -> str:
        """What the program of one object prints."""
        program = compiled.checked().path.with_suffix(".program")
        self.run(self.driver(".cpp"), compiled.path, "-o", program)
        return self.run(program).stdout


@contextlib.contextmanager
def serving(
    policy: Callable[[Any, mlbridge.CallContext], Any],
    folder: Path,
    signature: mlbridge.Signature | Mapping[str, mlbridge.Signature] | None = None,
    *,
    place: str = "unix:{}/policy.sock",
) -> Iterator[str]:
    """The URI of a policy at a place in this folder, a socket unless stated; it takes whatever the
    compiler has, or this signature."""
    with mlbridge.Server(place.format(folder), signature) as server:
        thread = threading.Thread(target=server.serve_forever, args=(policy,))
        thread.start()
        try:
            yield server.address
        finally:
            server.stop()
            thread.join()
