# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock clang and opt with the plugin, as the tests run them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

INPUTS = Path(__file__).resolve().parent / "inputs"
REMARKS = (
    "-Rpass=loop-distribution|loop-vectorize",
    "-Rpass-missed=loop-distribution",
    "-fno-caret-diagnostics",
)


@dataclass
class Made:
    code: int
    said: str
    path: Path

    @property
    def object(self) -> bytes:
        assert self.code == 0, self.said
        return self.path.read_bytes()

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.said.splitlines() if "warning:" in line]

    @property
    def distributed(self) -> int:
        return self.said.count("remark: distributed into")

    @property
    def vectorized(self) -> int:
        return self.said.count("remark: vectorized loop")


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
            timeout=300,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    def clang(self, source: Path, *flags: str, level: str = "-O3", **settings: str) -> Made:
        """With the plugin if there are settings, which are its options."""
        line: list[str] = []
        if settings:
            line += ["-Xclang", f"-fpass-plugin={self.plugin}"]
        for name, value in settings.items():
            option = f"-loop-distribution-{name.replace('_', '-')}={value}"
            line += ["-Xclang", "-mllvm", "-Xclang", option]
        made = self.folder / f"{source.name}.o"
        made.unlink(missing_ok=True)
        command = [
            "clang-22",
            level,
            "-Wno-everything",
            "-Wbackend-plugin",
            "-fwrapv",
            *flags,
            *line,
        ]
        done = self.run(*command, "-c", source, "-o", made, check=False)
        return Made(done.returncode, done.stderr, made)

    def output(self, made: Made) -> str:
        """What the program prints."""
        assert made.code == 0, made.said
        program = made.path.with_suffix(".program")
        self.run("clang-22", made.path, "-o", program)
        return self.run(program).stdout
