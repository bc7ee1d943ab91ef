# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a program that shows a fault smaller, by C-Vise (Debian's package cvise)."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path


def reduce(source: Path, test: str, folder: Path, seconds: float, jobs: int = 2) -> Path:
    """The smallest program found in this time for which the shell command `test`, in which {0}
    stands for a program in the current folder, still ends with 0; in `folder`, as reduced.SUFFIX.
    The program itself if the test doesn't hold for it, or C-Vise isn't there."""
    target = folder / f"reduced{source.suffix}"
    shutil.copy(source, target)
    program = shutil.which("cvise")
    if program is None:
        return target
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        name = f"program{source.suffix}"
        shutil.copy(source, work / name)
        script = work / "test.sh"
        script.write_text(f"#!/bin/sh\nexec {test.format(name)} >/dev/null 2>&1\n")
        script.chmod(0o755)
        log = (folder / "reduction.log").open("wb")
        process = subprocess.Popen(
            [program, f"--n={jobs}", "--timeout=30", "--tidy", str(script), name],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(work)},
        )
        with log:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)
            finally:
                if process.poll() is None:
                    try:
                        process.wait(10)
                    except subprocess.TimeoutExpired:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
        smallest = work / name
        # C-Vise replaces the program by each smaller one that it has tested.
        holds = subprocess.run(["sh", str(script)], cwd=work, check=False).returncode == 0
        if holds and smallest.stat().st_size < source.stat().st_size:
            shutil.copy(smallest, target)
    return target


def quoted(command: str, *more: str) -> str:
    """A command with further arguments before its program."""
    return command.replace("{0}", f"{shlex.join(more)} {{0}}")
