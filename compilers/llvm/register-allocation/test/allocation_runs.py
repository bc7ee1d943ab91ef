# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock llc and clang with the plugin, as the tests run them."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlbridge

INPUTS = Path(__file__).resolve().parent / "inputs"
Policy = Callable[[Any, mlbridge.Context], int]


@dataclass
class Made:
    code: int
    said: str
    path: Path

    @property
    def object(self) -> bytes:
        return self.path.read_bytes()

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.said.splitlines() if "warning:" in line]


@dataclass
class Compiler:
    """Works in a folder of its own."""

    plugin: Path
    folder: Path

    def run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    def clang(self, source: str, *flags: str, level: str = "-O2", **settings: str) -> Made:
        """With the plugin if there are settings, which are its options."""
        line: list[str] = []
        if settings:
            line += ["-Xclang", f"-fpass-plugin={self.plugin}"]
            line += ["-Xclang", "-mllvm", "-Xclang", "-verify-machineinstrs"]
        for name, value in settings.items():
            option = f"-register-allocation-{name.replace('_', '-')}={value}"
            line += ["-Xclang", "-mllvm", "-Xclang", option]
        made = self.folder / f"{source}.o"
        made.unlink(missing_ok=True)
        driver = "clang++-22" if source.endswith(".cpp") else "clang-22"
        command = [driver, level, "-fno-vectorize", "-fno-unroll-loops", *flags, *line]
        done = self.run(*command, "-c", INPUTS / source, "-o", made, check=False)
        return Made(done.returncode, done.stderr, made)

    def llc(self, source: str, *options: str) -> Made:
        bitcode, made = self.folder / f"{source}.bc", self.folder / f"{source}.llc.o"
        made.unlink(missing_ok=True)
        self.run("clang-22", "-O2", "-emit-llvm", "-c", INPUTS / source, "-o", bitcode)
        line = ["llc-22", "-load", str(self.plugin), "-verify-machineinstrs", "-filetype=obj"]
        done = self.run(*line, "-relocation-model=pic", *options, bitcode, "-o", made, check=False)
        return Made(done.returncode, done.stderr, made)

    def output(self, made: Made) -> str:
        """What the program prints."""
        assert made.code == 0, made.said
        program = made.path.with_suffix(".program")
        self.run("clang++-22", made.path, "-o", program)
        return self.run(program).stdout

    def output_on_arm(self, made: Made) -> str:
        assert made.code == 0, made.said
        program = made.path.with_suffix(".program")
        self.run("aarch64-linux-gnu-gcc", "-static", made.path, "-o", program)
        return self.run("qemu-aarch64", program).stdout


@contextlib.contextmanager
def serving(
    policy: Policy, at: Path, signatures: Mapping[str, mlbridge.Signature] | None = None
) -> Iterator[str]:
    """The four agents behind one socket; they take whatever the compiler has, or these."""
    with mlbridge.Server(f"unix:{at}", signatures) as server:
        thread = threading.Thread(target=server.serve_forever, args=(policy,))
        thread.start()
        try:
            yield f"unix:{at}"
        finally:
            server.stop()
            thread.join()
