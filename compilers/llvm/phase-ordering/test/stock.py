# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock clang and opt with the plugin, and what else the tests read of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from compiler import Compiler as AnyCompiler
from sampling import LLVM_19, LLVMS

from mlbridge.recording import Episode, Recording

ROOT = Path(__file__).resolve().parents[4]
SOURCES = Path(__file__).resolve().parent / "inputs"
LEVELS = ("-O1", "-O2", "-O3", "-Os", "-Oz")
BOTH = pytest.mark.parametrize("llvm", LLVMS)
ONLY_19 = pytest.mark.parametrize("llvm", [LLVM_19])


class Compiler(AnyCompiler):
    """Compiles with the plugin unless the test says otherwise."""

    def run(
        self, *command: str | Path, check: bool = True, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A tool of LLVM is named without its version."""
        program = str(command[0])
        if re.fullmatch(r"clang(\+\+)?|opt|llvm-\w+", program):
            program = self.tool(program)
        return super().run(program, *command[1:], check=check, environment=environment)

    def options(self, model: str | None, **settings: object) -> list[str]:
        """The words of `mlbridge flags`; at all levels, unless `levels` states them. `record` is
        the name of a folder for recordings."""
        settings.setdefault("levels", ",".join(level[1:] for level in LEVELS))
        if model is not None:
            if record := settings.pop("record", None):
                model += f"{'&' if '?' in model else '?'}record={self.folder}/{record}"
            settings["model"] = model
            if model.startswith("candidates:"):
                settings.setdefault("effort", 3)
        return [*self.words(**settings), "-Wno-error=backend-plugin"]

    def object(
        self,
        source: str | Path,
        *flags: str,
        model: str | None = None,
        plugin: bool = True,
        **settings: object,
    ) -> tuple[bytes, str]:
        """The object's bytes and what the compiler said."""
        extra = self.options(model, **settings) if plugin else []
        target, said = self.compile(source, "object.o", "-c", *flags, *extra)
        return target.read_bytes(), said

    def compile(self, source: str | Path, target: str, *flags: str) -> tuple[Path, str]:
        """The file that was made and what the compiler said."""
        made = self.folder / target
        made.unlink(missing_ok=True)
        path = self.source(source)
        return made, self.run(self.driver(path), *flags, path, "-o", made).stderr

    def plain(self, source: str | Path, *flags: str) -> bytes:
        return self.object(source, *flags, plugin=False)[0]

    def program(
        self, source: str | Path, *flags: str, model: str | None = None, plugin: bool = True
    ) -> Path:
        """Compiles and links in one command."""
        extra = self.options(model) if plugin else []
        target, said = self.compile(source, "program", *flags, *extra)
        assert "-Wbackend-plugin" not in said, said
        return target

    def linked(self, part: bytes, *flags: str) -> bytes:
        """What a link without the plugin makes of an object of a whole program."""
        (self.folder / "part.o").write_bytes(part)
        self.run("clang", *flags, "-fuse-ld=lld", "part.o", "-o", "linked")
        return (self.folder / "linked").read_bytes()

    def recording(self, name: str) -> Recording:
        """The only one in a folder."""
        (path,) = (self.folder / name).iterdir()
        return Recording(path)

    def episode(self, name: str) -> Episode:
        """The only one of the only recording in a folder."""
        (episode,) = self.recording(name).episodes()
        return episode

    def trials(self) -> dict[str, Any]:
        """The only log of candidates in the folder `log`, which is removed."""
        (path,) = (self.folder / "log").glob("*.trials.json")
        read: dict[str, Any] = json.loads(path.read_text())
        path.unlink()
        return read
