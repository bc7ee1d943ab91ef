# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock llc and clang with the plugin, as the tests run them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlbridge

INPUTS = Path(__file__).resolve().parent / "inputs"


@dataclass
class Allocator:
    """Works in a folder of its own."""

    plugin: Path
    folder: Path
    version: int = 22
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self,
        *command: str | Path,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env={**os.environ, **self.environment, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    @property
    def llc_name(self) -> str:
        return f"llc-{self.version}"

    def driver(self, source: str) -> str:
        return f"clang{'++' if source.endswith('.cpp') else ''}-{self.version}"

    def bitcode(self, source: str, *flags: str) -> Path:
        """What clang's middle end makes of an input; C++ for this machine only."""
        made = self.folder / (source + ".bc")
        driver = self.driver(source)
        flags = flags or ("-O2",)
        self.run(driver, *flags, "-fno-vectorize", "-emit-llvm", "-c", INPUTS / source, "-o", made)
        return made

    @staticmethod
    def options(settings: Mapping[str, object], question: str = "eviction") -> list[str]:
        return [f"-regalloc-{question}-{k.replace('_', '-')}={v}" for k, v in settings.items()]

    def llc(self, bitcode: Path, *flags: str, check: bool = True, **settings: object) -> Made:
        """With the plugin if there are settings, which are the options of the eviction."""
        load = ["-load", str(self.plugin), *self.options(settings)] if settings else []
        made = bitcode.with_suffix(".o")
        made.unlink(missing_ok=True)
        command = [self.llc_name, *load, "-relocation-model=pic", "-filetype=obj", *flags]
        done = self.run(*command, bitcode, "-o", made, check=check)
        return Made(done.returncode, done.stderr, made)

    def clang(self, source: str, *flags: str, check: bool = True, **settings: object) -> Made:
        # Clang 19 reads -mllvm before it loads pass plugins.
        line = ["-Xclang", "-load", "-Xclang", str(self.plugin)] if self.version < 22 else []
        line += ["-Xclang", f"-fpass-plugin={self.plugin}"]
        for option in self.options(settings):
            line += ["-Xclang", "-mllvm", "-Xclang", option]
        made = self.folder / (source + ".o")
        made.unlink(missing_ok=True)
        driver = self.driver(source)
        load = line if settings else []
        done = self.run(driver, *flags, *load, "-c", INPUTS / source, "-o", made, check=check)
        return Made(done.returncode, done.stderr, made)

    def output(self, made: Made) -> str:
        """What the program prints."""
        program = made.path.with_suffix(".program")
        self.run(self.driver(".cpp"), made.path, "-o", program)
        return self.run(program).stdout


@dataclass
class Made:
    code: int
    said: str
    path: Path

    @property
    def object(self) -> bytes:
        return self.path.read_bytes()


@contextlib.contextmanager
def serving(policy: Callable[[Any, mlbridge.Context], Any], at: Path) -> Iterator[str]:
    """A policy behind a socket."""
    with mlbridge.Server(f"unix:{at}") as server:
        thread = threading.Thread(target=server.serve_forever, args=(policy,))
        thread.start()
        try:
            yield f"unix:{at}"
        finally:
            server.stop()
            thread.join()
